"""Symmetric tiles: a symmetric [n, n] tensor is computed on and below its diagonal only.

The tile of rows i and columns j, transposed, is the tile of rows j and columns i. A loop over i
with a loop over j < i inside computes each tile once and contracts it twice, into the rows i and,
transposed, into the rows j. Factors that are not symmetric, as in `(a bᵀ) ∘ K`, are computed for
both tiles. Expressions with equal element numbers are computed once.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tf_exla.ir.builder import make_node
from tf_exla.ir.graph import Graph, Loop, LoopResult, Node, SplitAxis, Tensor
from tf_exla.ir.refusal import Refusal
from tf_exla.ir.traverse import topological
from tf_exla.model.settings import SETTINGS
from tf_exla.split.context import SearchContext
from tf_exla.split.loops.chunks import even_chunk
from tf_exla.split.loops.factors import wide
from tf_exla.split.progress import own_bytes
from tf_exla.split.regions.def_use import DefUse
from tf_exla.split.symmetric.element_numbering import ElementNumbering
from tf_exla.split.symmetric.pair_region import PairRegion, grow_pair
from tf_exla.split.symmetric.pair_tile import ROW, Part, Tile

Operand = tuple[Tensor, int | None]
"""A tensor outside of the loops, and the axis along which the outer loop slices it."""


@dataclass(frozen=True)
class _Bodies:
    """The body of one outer iteration of some size, and the operand of each of its inputs."""

    body: Graph
    operands: tuple[Operand, ...]


def pair_graphs(context: SearchContext, index: DefUse, seeds: Sequence[Tensor]) -> Iterator[Graph]:
    """Yield graphs with loops over pairs of chunks, for each pair of axes of equal size of a seed.

    Only regions for which this saves work are used. Tiles have the fastest size, or a smaller one
    if the budget is small. If the budget is not positive, nothing is yielded.
    """
    if context.budget <= 0:
        return
    forms = ElementNumbering(index)
    tried: set[object] = set()
    for seed in seeds:
        for first, second in itertools.combinations(range(len(seed.dims)), 2):
            extent = seed.dims[first]
            if seed.dims[second] != extent or extent < SETTINGS.tile_chunks:
                continue
            region = grow_pair(index, seed, (first, second))
            if region is None or region.key in tried:
                continue
            tried.add(region.key)
            if any(wide(node.output.dtype) != node.output.dtype for node in region.contractions):
                continue  # each tile's sum would be rounded
            try:
                if saving(index, region, forms) >= 1 - SETTINGS.margin:
                    yield from _fitted(context, index, region, forms)
            except Refusal:
                continue


def _fitted(
    context: SearchContext, index: DefUse, region: PairRegion, forms: ElementNumbering
) -> Iterator[Graph]:
    """Yield the graph with the largest useful tiles that the budget holds, if there is one.

    Tiles run in parallel. If the budget makes them smaller, also yield one tile at a time.
    """
    options = context.options
    largest = max(region.axes, key=lambda tensor: tensor.nbytes)
    each = largest.nbytes / region.extent**2
    widest = region.extent // SETTINGS.tile_chunks
    for parallel in (SETTINGS.tile_parallel, 1) if options.cores > 1 else (1,):
        area = options.largest_chunk * SETTINGS.tile_part / parallel / each
        fastest = most = min(int(math.sqrt(area)), widest)
        while most >= min(SETTINGS.few_rows, widest):
            chunk = even_chunk(region.extent, max(most, 1), largest)
            graph = pair_graph(index, region, forms, chunk, parallel)
            needed = own_bytes(context.projector, graph, index.graph)
            over = needed * (1 + SETTINGS.tile_room) / context.budget
            if over <= 1:
                yield graph
                if most == fastest:
                    return
                break
            most = int(most / max(1.2, math.sqrt(min(over, 16))))


def saving(index: DefUse, region: PairRegion, forms: ElementNumbering) -> float:
    """Return the part of the work on tiles that loops over pairs save, from 0 to 1/2."""
    once = both = 0.0
    size = max(1, min(region.extent // 2, SETTINGS.sample_rows))
    for stage in sorted(set(region.stage.values())):
        contractions = _of_stage(region, stage)
        tiles = [Tile(index, region, forms, size, size) for _ in range(2)]
        for node in contractions:
            tiles[0].contract(node, flip=False)
            for flip in (False, True):
                tiles[1].contract(node, flip)
        once += _work(index, tiles[0])
        both += _work(index, tiles[1])
    return 1 - both / (2 * once) if once else 0.0


def _work(index: DefUse, tile: Tile) -> float:
    """Return the work on a tile: its flops, plus the number of elements that it writes."""
    return sum(
        index.ops.flops(node) + node.output.size for node in tile.nodes if node.op != "constant"
    )


def pair_graph(
    index: DefUse, region: PairRegion, forms: ElementNumbering, chunk: int, parallel: int = 1
) -> Graph:
    """Return the graph with one pair of nested loops per stage instead of a region.

    `chunk`: rows and columns of a tile, less than the region's extent. `parallel`: iterations in
    flight, of the outer loop and of the inner loop.
    """
    made: list[Node] = []
    priority: dict[Node, float] = {}
    earlier: set[Node] = set()
    for stage in sorted(set(region.stage.values())):
        contractions = _of_stage(region, stage)
        build = _Outer(index, region, forms, contractions, chunk, parallel)
        nodes = _loops(build, stage, earlier)
        last = max(index.position[node] for node in contractions)
        priority.update(dict.fromkeys(nodes, float(last)))
        made += nodes
    gone = {*region.members, *region.contractions}
    merged = sorted(
        [*(node for node in index.graph.nodes if node not in gone), *made],
        key=lambda node: priority[node] if node in priority else index.position[node],
    )
    order = {node: float(at) for at, node in enumerate(merged)}
    return index.graph.replace(nodes=topological(merged, order.__getitem__))


def _of_stage(region: PairRegion, stage: int) -> list[Node]:
    return [node for node in region.contractions if region.stage[node] == stage]


def _loops(build: _Outer, stage: int, earlier: set[Node]) -> list[Node]:
    """Return the outer loop of one stage, and nodes that add its results for rows and columns."""
    index, region, chunk = build.index, build.region, build.chunk
    full = build.bodies(chunk)
    rest = region.extent % chunk
    remainder = build.bodies(rest) if rest else None
    assert remainder is None or remainder.operands == full.operands
    outputs: list[Tensor] = []
    results: list[LoopResult] = []
    sums: list[Node] = []
    for node, part in zip(build.contractions, build.parts, strict=True):
        out = node.output
        if part.axis is None:
            outputs.append(out)
            results.append(LoopResult("add"))
            continue
        pair = [Tensor(out.shape, out.dtype, f"{out.name}/{name}") for name in ("rows", "columns")]
        outputs += pair
        results += [LoopResult("concat", SplitAxis(part.axis)), LoopResult("add")]
        sums.append(dataclasses.replace(_add(index, pair[0], pair[1], out.name), outputs=(out,)))
    seed = index.producer[region.seed]
    loop = Loop(
        op="loop",
        inputs=tuple(tensor for tensor, _ in full.operands),
        outputs=tuple(outputs),
        name=f"pairs{stage}_{region.seed.name}",
        source=seed.source,
        extent=region.extent,
        chunk=chunk,
        body=full.body,
        remainder=None if remainder is None else remainder.body,
        slots=tuple(None if axis is None else SplitAxis(axis) for _, axis in full.operands),
        results=tuple(results),
        parallel=build.parallel,
        stage=stage,
        recomputed=tuple(node.name or node.op for node in build.members if node in earlier),
        recomputed_flops=sum(index.ops.flops(node) for node in build.members if node in earlier)
        // 2,
        axis="axes {} and {} of {}, by pairs of chunks: symmetric".format(
            *region.axes[region.seed], region.seed
        ),
    )
    earlier.update(build.members)
    return [loop, *sums]


def _add(index: DefUse, left: Tensor, right: Tensor, name: str) -> Node:
    return make_node(index.ops, "add", (left, right), {}, f"{name}/pairs")


class _Outer:
    """A builder of the outer loop's bodies, for chunks of two sizes."""

    def __init__(
        self,
        index: DefUse,
        region: PairRegion,
        forms: ElementNumbering,
        contractions: Sequence[Node],
        chunk: int,
        parallel: int,
    ) -> None:
        self.index = index
        self.region = region
        self.forms = forms
        self.contractions = contractions
        self.chunk = chunk
        self.parallel = parallel
        self.parts: list[Part] = []  # where each contraction's result carries an axis, if it does
        self.members: dict[Node, None] = {}

    def bodies(self, size: int) -> _Bodies:
        """Build the body for an outer chunk of `size` rows.

        It has an inner loop over the tiles before the diagonal, and the tile on the diagonal.
        """
        below = Tile(self.index, self.region, self.forms, size, self.chunk)
        direct = [below.contract(node, flip=False) for node in self.contractions]
        mirror = [below.contract(node, flip=True) for node in self.contractions]
        on = Tile(self.index, self.region, self.forms, size, size)
        middle = [on.contract(node, flip=False) for node in self.contractions]
        self.parts = direct
        self.members.update(below.members)
        outer: dict[Operand, Tensor] = {}
        inner, before = self._inner(below, direct, mirror, size, outer)
        diagonal = self._diagonal(on, middle, size, outer)
        nodes: list[Node] = [inner, diagonal]
        outputs: list[Tensor] = []
        for node, part, pieces in zip(self.contractions, before, diagonal.outputs, strict=True):
            total = _add(self.index, part[0], pieces, node.name)
            nodes.append(total)
            outputs += [total.output, *part[1:]]
        body = Graph(tuple(outer.values()), tuple(nodes), tuple(outputs))
        return _Bodies(body, tuple(outer))

    def _inner(
        self,
        tile: Tile,
        direct: Sequence[Part],
        mirror: Sequence[Part],
        size: int,
        outer: dict[Operand, Tensor],
    ) -> tuple[Loop, list[tuple[Tensor, ...]]]:
        """Return the inner loop, over the chunks before the outer one, and its outputs.

        The outputs are grouped by contraction: a sum, or the results for rows and for columns.
        """
        made: list[Tensor] = []
        outputs: list[Tensor] = []
        results: list[LoopResult] = []
        groups: list[tuple[Tensor, ...]] = []
        for node, one, other in zip(self.contractions, direct, mirror, strict=True):
            out = node.output
            if one.axis is None:
                both = _add(self.index, one.tensor, other.tensor, node.name)
                tile.nodes.append(both)
                made.append(both.output)
                group: tuple[Tensor, ...] = (Tensor(out.shape, out.dtype, out.name),)
                results.append(LoopResult("add"))
            else:
                rows, columns = (one, other) if one.letter == ROW else (other, one)
                made += [rows.tensor, columns.tensor]
                group = (
                    Tensor(rows.tensor.shape, out.dtype, f"{out.name}/rows"),
                    Tensor(out.shape, out.dtype, f"{out.name}/columns"),
                )
                results += [LoopResult("add"), LoopResult("concat", SplitAxis(one.axis))]
            outputs += group
            groups.append(group)
        operands: list[Tensor] = []
        slots: list[SplitAxis | None] = []
        for source in tile.sources:
            operands.append(_stand_in(outer, (source.tensor, source.rows), size))
            slots.append(None if source.columns is None else SplitAxis(source.columns))
        loop = Loop(
            op="loop",
            inputs=tuple(operands),
            outputs=tuple(outputs),
            name=f"before_{self.region.seed.name}",
            extent=self.region.extent,
            chunk=self.chunk,
            body=tile.graph(made),
            slots=tuple(slots),
            results=tuple(results),
            parallel=self.parallel,
            triangular=True,
            axis=f"tiles before the diagonal of {self.region.seed}",
        )
        return loop, groups

    def _diagonal(
        self, tile: Tile, parts: Sequence[Part], size: int, outer: dict[Operand, Tensor]
    ) -> Loop:
        """Return a loop of one chunk that computes the tile on the diagonal."""
        operands = [
            _stand_in(outer, (one.tensor, one.rows if one.columns is None else one.columns), size)
            for one in tile.sources
        ]
        body = tile.graph([part.tensor for part in parts])
        return Loop(
            op="loop",
            inputs=tuple(operands),
            outputs=tuple(Tensor(t.shape, t.dtype, t.name) for t in body.outputs),
            name=f"diagonal_{self.region.seed.name}",
            extent=size,
            chunk=size,
            body=body,
            slots=(None,) * len(operands),
            results=(LoopResult("add"),) * len(body.outputs),
            axis=f"the tile on the diagonal of {self.region.seed}",
        )


def _stand_in(outer: dict[Operand, Tensor], operand: Operand, size: int) -> Tensor:
    """Return the outer body's input for a chunk of a tensor, or for all of it."""
    if operand not in outer:
        tensor, axis = operand
        shape = list(tensor.shape or ()) if axis is None else list(tensor.dims)
        if axis is not None:
            shape[axis] = size
        value = tensor.value if axis is None else None
        known = tensor.shape if axis is None else tuple(shape)
        outer[operand] = Tensor(known, tensor.dtype, tensor.name, value, tensor.held)
    return outer[operand]
