"""Inverting: triangular solves of many columns become products with one inverse.

For a solve, XLA calls cuBLAS with contiguous columns, which runs at 5 TFLOPS on an H100. A product
runs at 47. The inverse is computed outside of all loops that do not change the matrix. Even with
inverses inside of the loops, a step of SGPR (200,000 x 500) in 2 GB took 42 instead of 66 ms.

The error is bounded as that of the solve, a multiple of |L⁻¹| |L| |X|, if Z L - 1 is small for the
computed inverse Z (Higham, Accuracy and Stability of Numerical Algorithms, 2002, chapter 14). So
L⁻¹ B is (L⁻ᵀ)ᵀ B with L⁻ᵀ from a solve, and L⁻ᵀ B is (L⁻¹)ᵀ B: for these, Z L - 1 is small. For
factors of kernel matrices with a condition of 24 to 2e5, the errors differed by a factor of 1.2.

This pass comes after all rewrites, since these could reorder the products: (L⁻¹ B) (L⁻¹ B)ᵀ must
not become L⁻¹ (B Bᵀ) L⁻ᵀ.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from tf_exla.ir.builder import Builder
from tf_exla.ir.graph import Graph, Loop, Node, Tensor
from tf_exla.ir.op_set import OpSet

COLUMNS = 16
"""An inverse is computed if all solves with a matrix together have at least this many columns for
each row of it. The inverse of 500 rows takes 0.35 ms, as long as the solve of 7,000 columns."""


class _Inverse(NamedTuple):
    """A transposed inverse: of which matrix, outside of all loops, and the solve's attributes."""

    matrix: Tensor
    lower: bool
    adjoint: bool


Origins = Mapping[Tensor, Tensor]
"""For each input of a body that every iteration reads whole, the tensor outside of all loops."""


def invert(graph: Graph, ops: OpSet) -> Graph:
    """Replace triangular solves in float64 if all solves with a matrix have many columns."""
    columns: dict[_Inverse, float] = defaultdict(float)
    for key, count in _solves(graph.nodes, {}, {}):
        columns[key] += count
    wanted = {key for key, count in columns.items() if count >= COLUMNS * key.matrix.dims[-1]}
    return _Inverting(wanted, ops).graph(graph, {}, {}) if wanted else graph


def _solves(
    nodes: Iterable[Node], origins: Origins, runs: Mapping[Tensor, float]
) -> Iterator[tuple[_Inverse, float]]:
    """Yield the inverse that each solve needs, also in loops, with the number of its columns.

    `runs`: for each loop-invariant tensor, how often the nodes run while it has one value.
    """
    for node in nodes:
        if isinstance(node, Loop) and node.bitwise_group is None:
            for body, trips in ((node.body, node.mean_trip_count), (node.remainder, 1.0)):
                if body is not None:
                    inner = _inside(node, body, origins)
                    pairs = zip(body.inputs, node.inputs, strict=False)
                    times = {new: trips * runs.get(old, 1.0) for new, old in pairs if new in inner}
                    yield from _solves(body.nodes, inner, times)
        elif (key := _key(node, origins)) is not None:
            yield key, runs.get(node.inputs[0], 1.0) * node.output.dims[-1]


def _inside(loop: Loop, body: Graph, origins: Origins) -> Origins:
    pairs = zip(loop.inputs, body.inputs, loop.slots, strict=False)
    return {inner: origins.get(outer, outer) for outer, inner, slot in pairs if slot is None}


def _key(node: Node, origins: Origins) -> _Inverse | None:
    """Return the inverse that a solve needs; None for other nodes."""
    if node.op != "solve_triangular" or node.output.dtype != "float64":
        return None
    matrix, right = node.inputs
    if not (matrix.is_static and right.is_static) or not right.size:
        return None
    if len(matrix.dims) != 2 or len(right.dims) != 2:
        return None
    lower, adjoint = bool(node.attrs.get("lower", True)), bool(node.attrs.get("adjoint", False))
    return _Inverse(origins.get(matrix, matrix), lower, adjoint)


class _Inverting:
    """One replacement of the solves that need one of the `wanted` inverses."""

    def __init__(self, wanted: set[_Inverse], ops: OpSet) -> None:
        self.wanted = wanted
        self.ops = ops

    def graph(self, graph: Graph, known: Mapping[_Inverse, Tensor], origins: Origins) -> Graph:
        """Return a graph with products instead of the solves.

        It computes the inverses that it needs, except for the `known` ones.
        """
        here, nodes = dict(known), list[Node]()
        for node in graph.nodes:
            made: dict[_Inverse, Tensor] = {}
            for key, _ in _solves([node], origins, {}):
                matrix = next((t for t in node.inputs if origins.get(t, t) is key.matrix), None)
                if key not in self.wanted or matrix is None:  # the loop `node` computes the matrix
                    continue
                if key not in here:
                    here[key] = self._inverse(node, matrix, key, nodes)
                made[key] = here[key]
            if isinstance(node, Loop) and node.bitwise_group is None:
                nodes.append(self._loop(node, made, origins))
            elif made:
                nodes.extend(self._product(node, *made.values()))
            else:
                nodes.append(node)
        return graph.with_nodes(nodes)

    def _inverse(self, node: Node, matrix: Tensor, key: _Inverse, nodes: list[Node]) -> Tensor:
        w = Builder(node, self.ops)
        ones = w.op("full", w.const([matrix.dims[-1]]), w.const(1, matrix.dtype))
        whole = w.const(-1)
        unit = w.op("matrix_diag", ones, w.const(0), whole, whole, w.const(0, matrix.dtype))
        flags = {"lower": key.lower, "adjoint": not key.adjoint}
        made = w.op("solve_triangular", matrix, unit, **flags)
        nodes.extend(w.nodes)
        return made

    def _product(self, node: Node, inverse: Tensor) -> list[Node]:
        w = Builder(node, self.ops)
        w.op("matmul", inverse, node.inputs[1], transpose_a=True, transpose_b=False)
        return w.ended(node.output)

    def _loop(self, loop: Loop, made: Mapping[_Inverse, Tensor], origins: Origins) -> Loop:
        """Return a loop that reads the inverses `made` outside of it, and computes all others."""
        count = len(loop.inputs)

        def changed(body: Graph) -> Graph:
            inside = {key: one.fresh_copy() for key, one in made.items()}
            inputs = (*body.inputs[:count], *inside.values(), *body.inputs[count:])
            return self.graph(body, inside, _inside(loop, body, origins)).replace(inputs=inputs)

        return loop.replace(
            inputs=(*loop.inputs, *made.values()),
            slots=(*loop.slots, *[None] * len(made)),
            body=changed(loop.body),
            remainder=None if loop.remainder is None else changed(loop.remainder),
        )
