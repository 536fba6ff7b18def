"""Invariants of a graph, checked after each pass."""

from __future__ import annotations

from tf_exla.ir.graph import Graph, Loop, Node, Tensor


class GraphError(AssertionError):
    """A pass broke an invariant of the graph: a defect of tf_exla, never of the user's program."""


def check_graph(graph: Graph, original: Graph | None = None) -> None:
    """Check that tensors are defined before their uses, and that loops are consistent.

    Against `original`, also check that inputs, outputs and side effects are the same. Raises a
    `GraphError` that names the node.
    """
    _check_definitions(graph)
    for node in graph.nodes:
        if isinstance(node, Loop):
            _check_loop(node)
        if node.op == "xla_cluster":
            _check_cluster(node)
        for _, sub in node.subgraphs:
            check_graph(sub)
    if original is not None:
        _check_interface(graph, original)


def _check_definitions(graph: Graph) -> None:
    defined: set[Tensor] = set(graph.inputs)
    for node in graph.nodes:
        for tensor in node.inputs:
            if tensor not in defined:
                raise GraphError(f"{tensor} is used by {node} before it is defined")
        for tensor in node.outputs:
            if tensor in defined:
                raise GraphError(f"{tensor} is defined twice, again by {node}")
            defined.add(tensor)
    for tensor in graph.outputs:
        if tensor not in defined:
            raise GraphError(f"the output {tensor} is never defined")


def _check_loop(loop: Loop) -> None:
    if not 0 < loop.chunk <= loop.extent:
        raise GraphError(f"chunk {loop.chunk} of extent {loop.extent} in {loop}")
    even = loop.triangular or loop.extent % loop.chunk == 0
    if even != (loop.remainder is None):
        raise GraphError(f"the remainder does not fit the chunk in {loop}")
    folds = loop.folds
    if not len(loop.inputs) == len(loop.slots) == len(loop.body.inputs) - len(folds):
        raise GraphError(f"inputs, slots and the body's inputs differ in number in {loop}")
    if not len(loop.outputs) == len(loop.results) == len(loop.body.outputs):
        raise GraphError(f"outputs, results and the body's outputs differ in number in {loop}")
    bodies = [(loop.body, loop.chunk)]
    if loop.remainder is not None:
        bodies.append((loop.remainder, loop.extent % loop.chunk))
    for body, size in bodies:
        for whole, slot, inner in zip(loop.inputs, loop.slots, body.inputs, strict=False):
            _check_chunk(loop, whole, slot, inner, size)
        for k, inner in zip(folds, body.inputs[len(loop.inputs) :], strict=True):
            _check_chunk(loop, loop.outputs[k], None, inner, size)
        for whole, result, inner in zip(loop.outputs, loop.results, body.outputs, strict=True):
            if result.combine != "top_k" or result.accumulates_in_body or size == loop.chunk:
                _check_chunk(loop, whole, result.slot, inner, size)
        for node in body.nodes:
            if node.stateful:
                raise GraphError(f"the stateful {node} is inside {loop}")
            own = (loop.extent, loop.chunk)
            if isinstance(node, Loop) and node.triangular and (node.extent, node.chunk) != own:
                raise GraphError(f"{node} follows {loop}, and has other chunks")


def _check_cluster(node: Node) -> None:
    for _, sub in node.subgraphs:
        pairs = [(node.inputs, sub.inputs), (node.outputs, sub.outputs)]
        for outer, inner in pairs:
            kinds = [[(t.shape, t.dtype) for t in tensors] for tensors in (outer, inner)]
            if kinds[0] != kinds[1]:
                raise GraphError(f"the sub-graph does not fit {node}")


def _check_chunk(loop: Loop, whole: Tensor, slot: object, inner: Tensor, size: int) -> None:
    from tf_exla.ir.graph import SplitAxis

    shape = list(whole.dims) if whole.is_static else None
    if isinstance(slot, SplitAxis):
        assert shape is not None
        if shape[slot.axis] != loop.extent * slot.block:
            raise GraphError(f"axis {slot.axis} of {whole} is not {loop.extent} x {slot.block}")
        shape[slot.axis] = size * slot.block
    if whole.dtype != inner.dtype or (shape is not None and tuple(shape) != inner.shape):
        raise GraphError(f"{inner} does not fit {whole} in {loop}")


def _check_interface(graph: Graph, original: Graph) -> None:
    if graph.inputs != original.inputs:
        raise GraphError("the inputs changed")
    if len(graph.outputs) != len(original.outputs):
        raise GraphError("the number of outputs changed")
    for new, old in zip(graph.outputs, original.outputs, strict=True):
        if not _refines(new, old):
            raise GraphError(f"the output {old} became {new}")
    if _effects(graph) != _effects(original):
        raise GraphError("stateful nodes were lost, added or reordered")


def _refines(new: Tensor, old: Tensor) -> bool:
    """Return whether a tensor has all known sizes of another one, and the same dtype."""
    if new.dtype != old.dtype or new.axes is None or old.axes is None:
        return new.dtype == old.dtype and (old.axes is None or new.axes is not None)
    same = (a == b or b is None for a, b in zip(new.axes, old.axes, strict=False))
    return len(new.axes) == len(old.axes) and all(same)


def _effects(graph: Graph) -> list[tuple[str, str]]:
    def label(node: Node) -> tuple[str, str]:
        return node.op, node.name

    return [label(node) for node in graph.nodes if node.stateful]
