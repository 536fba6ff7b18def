"""Loop-invariant operands: a loop that reads a large tensor whole computes it in its own body.

`h(A B)` with computed matrices A and B becomes a loop over rows of A that reads all of B. If its
body computes B, the body can be split along the rows of B, so B is never allocated. It is computed
again in each iteration, so a chunk has as many rows as the budget allows. The same holds for a
mask or a bias that all matrices of a batch share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from tf_exla.ir.copying import copy_nodes
from tf_exla.ir.graph import Graph, Loop, LoopResult, Node, Tensor
from tf_exla.ir.traverse import without_dead
from tf_exla.model.cost import node_seconds
from tf_exla.model.settings import SETTINGS
from tf_exla.split.context import SearchContext
from tf_exla.split.loops.resize import UNCUT
from tf_exla.split.regions.def_use import DefUse
from tf_exla.split.regions.large_producers import large_producers
from tf_exla.split.regions.origins import clash, tests_order
from tf_exla.split.tiles import tiled


def compute_in_loops(
    context: SearchContext, graph: Graph, is_progress: Callable[[Graph], bool]
) -> Graph | None:
    """Compute large tensors in the loops that read them whole, the largest first.

    Return the first graph for which `is_progress` is true; None if there is none. Bodies are split
    when the budget has room for them beside the large tensors that are still outside, or when none
    is left outside.
    """
    if context.depth + 1 > SETTINGS.sunk_levels:
        return None
    least = max(context.sinks, context.working_set(graph) // SETTINGS.sunk_part)
    tensors = _read_whole(graph, least)
    inside: dict[tuple[Tensor, ...], list[Node]] = {}  # the moved nodes, by the results of a loop
    for tensor in tensors:
        moved = _moved(context, graph, tensor)
        if moved is not None:
            graph, loops, chain = moved
            for loop in loops:
                inside.setdefault(loop.outputs, []).extend(chain)
            made_by = context.index(graph).producer  # `_moved` may move a loop into another one
            inside = {k: v for k, v in inside.items() if isinstance(made_by.get(k[0]), Loop)}
        full = any(room < 0 for room in _rooms(context, graph, inside))
        if not inside or (full and tensor is not tensors[-1]):
            continue
        made = graph
        for results, chain in inside.items():
            made = _split_body(context, made, results, chain)
        made = context.fitted(made)
        if is_progress(made):
            return made
    return None


def large_bytes(graph: Graph, least: int) -> int:
    """Return the bytes of all computed tensors of at least `least` bytes, alive together or not."""
    sizes = (tensor.nbytes for node in graph.nodes for tensor in node.outputs)
    return sum(size for size in sizes if size >= least)


def _rooms(
    context: SearchContext, graph: Graph, loops: Mapping[tuple[Tensor, ...], object]
) -> Iterator[int]:
    """Yield the bytes that the budget leaves to each of the loops with the results `loops`."""
    graph = context.fitted(graph)
    for position, node in enumerate(graph.nodes):
        if node.outputs in loops:
            yield context.room_at(graph, position)


def _read_whole(graph: Graph, least: int) -> list[Tensor]:
    """Return the tensors of at least `least` bytes that loops read whole, the largest first."""
    read = {
        tensor: tensor.nbytes
        for node in graph.nodes
        if isinstance(node, Loop)
        for tensor, slot in zip(node.inputs, node.slots, strict=True)
        if slot is None and tensor.is_static and tensor.nbytes >= least
    }
    return sorted(read, key=lambda one: -read[one])


def _moved(
    context: SearchContext, graph: Graph, tensor: Tensor
) -> tuple[Graph, list[Loop], list[Node]] | None:
    """Compute a tensor in the bodies of the loops that read it whole.

    Return the graph, the loops, and the nodes that were moved. None if the tensor has another
    reader, if it is not computed from small tensors, or if numbers would be compared with other
    copies of them (`origins.py`).
    """
    ops = context.projector.ops
    index = context.index(graph)
    loops = _readers(index, tensor)
    graph = _without_loop(graph, index.producer.get(tensor))
    index = context.index(graph)
    chain = large_producers(tensor, index.producer, ops, tensor.nbytes // SETTINGS.sunk_part)
    own = {node.output for node in chain}
    sources = list(dict.fromkeys(t for node in chain for t in node.inputs if t not in own))
    if not loops or not chain or sum(t.nbytes for t in sources) > tensor.nbytes // 2:
        return None
    replaced: dict[Node, Node] = {loop: _computing(loop, tensor, chain, sources) for loop in loops}
    made = graph.replace(nodes=tuple(replaced.get(node, node) for node in graph.nodes))
    made = without_dead(made)
    if tests_order(made) and clash(made, ops) is not None:
        return None
    return made, loops, chain


def _without_loop(graph: Graph, loop: Node | None) -> Graph:
    """Replace a loop that only computes a whole tensor in chunks by the nodes of its template."""
    if not isinstance(loop, Loop) or loop.results != (LoopResult("concat", loop.results[0].slot),):
        return graph
    if loop.triangular or loop.bitwise_group or loop.span:
        return graph
    names = dict(zip(loop.template.inputs, loop.inputs, strict=True))
    nodes = copy_nodes(loop.template.nodes, names)
    made = {names[loop.template.outputs[0]]: loop.output}
    return graph.with_instead(loop, *(node.renamed(made) for node in nodes))


def _readers(index: DefUse, tensor: Tensor) -> list[Loop]:
    """Return the readers of a tensor if all are loops that read it whole and may be changed."""
    if tensor in index.outputs:
        return []
    loops: dict[Loop, None] = {}
    for reader, position in index.readers.get(tensor, ()):
        if (
            not isinstance(reader, Loop)
            or reader.slots[position] is not None
            or reader.bitwise_group
            or any(isinstance(node, Loop) and node.triangular for node in reader.body.nodes)
        ):
            return []
        loops[reader] = None
    return list(loops)


def _computing(
    loop: Loop, tensor: Tensor, chain: Sequence[Node], sources: Sequence[Tensor]
) -> Loop:
    """Return a loop, without a chunk, that computes an operand from `sources`."""
    count = len(loop.inputs)
    operands = list(zip(loop.inputs, loop.slots, loop.template.inputs[:count], strict=True))
    whole = {operand: inside for operand, slot, inside in operands if slot is None}
    stand_in = whole.pop(tensor)
    kept = [one for one in operands if one[2] is not stand_in]
    for source in sources:
        if source not in whole:
            whole[source] = source.fresh_copy()
            kept.append((source, None, whole[source]))
    names = {source: whole[source] for source in sources}
    copies = copy_nodes(chain, names)
    nodes = [node.substitute({stand_in: names[tensor]}) for node in loop.template.nodes]
    inputs = (*(inside for _, _, inside in kept), *loop.template.inputs[count:])
    template = Graph(inputs, (*copies, *nodes), loop.template.outputs)
    return loop.replace(
        inputs=tuple(operand for operand, _, _ in kept),
        slots=tuple(slot for _, slot, _ in kept),
        chunk=UNCUT,
        body=template,
        remainder=None,
        template=template,
        recomputed=(*loop.recomputed, *(node.name or node.op for node in chain)),
    )


def _split_body(
    context: SearchContext, graph: Graph, results: tuple[Tensor, ...], chain: Sequence[Node]
) -> Graph:
    """Split the body of the loop with these results, and choose the number of rows of its chunk.

    It is the number for which the loop is fastest within the budget, or else exceeds it the least.
    With a large chunk, the moved nodes (`chain`) run less often; a small one leaves more room to
    the body. If the budget leaves no room at all, as in a search for the smallest plan, a chunk
    still has several rows: with one row, the program would run far too long.
    """
    projector = context.projector
    graph = context.fitted(graph)
    position = next(at for at, node in enumerate(graph.nodes) if node.outputs == results)
    old = graph.nodes[position]
    assert isinstance(old, Loop)
    room = context.room_at(graph, position)

    def rank(made: Loop) -> tuple[int, float]:
        return max(projector.temporary(made) - room, 0), node_seconds(projector.ops, made)

    best, rows = old, old.extent
    least = 1 if room > 0 else min(SETTINGS.sample_rows, -(-rows // SETTINGS.fewer_rows))
    while rows > least:
        rows = max(-(-rows // SETTINGS.fewer_rows), least) if room > 0 else least
        made = tiled(context, old, rows, room, sinks=context.sinks)
        if rank(made) < rank(best):
            best = made
        elif projector.temporary(best) <= room:
            break
    again = best.iterations * sum(map(projector.ops.flops, chain))
    best = best.replace(recomputed_flops=best.recomputed_flops + again)
    return graph.with_instead(old, best)
