"""Results that have no buffer where XLA compiles a whole program for a CPU.

XLA fuses loops over elements (`CpuInstructionFusion`): an op that computes or moves elements runs
inside the loops that read its result. A result that several loops read is recomputed in each where
that is cheap, else computed once, into a buffer. Products, decompositions and sorts read buffers,
and so do reductions of long axes, which XLA computes as a tree (`TreeReductionRewriter`), blocks of
32 first.
"""

from __future__ import annotations

from tf_exla.ir.aliases import is_alias, readers_through, roots
from tf_exla.ir.axis_rule import AxisRule
from tf_exla.ir.graph import Graph, Loop, Node, Tensor
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.traits import REDUCTIONS
from tf_exla.model.settings import SETTINGS

_MOVEMENT = frozenset({
    "arange", "band_part", "broadcast_to", "concat", "flip", "full", "matrix_diag",
    "matrix_diag_part", "pad", "pad_with", "permute_dims", "slice", "stack", "strided_slice",
    "take", "tile",
})  # fmt: skip
_SEARCHES = frozenset({"argmax", "argmin"})
TREE = 32
"""Elements that one node in a tree of partial reductions reduces."""
_POINTWISE = frozenset({"... -> ...", "..., ... -> ...", "..., ..., ... -> ..."})
"""Rules of ops that compute each element from one element of each operand."""


def fused(ops: OpSet, graph: Graph, longest: int = TREE) -> frozenset[Tensor]:
    """Return the tensors of a graph without a buffer: fused results, and inputs such as chunks.

    `longest`: the longest axis for which a reduction computes its operand in its own loop.
    """
    root = roots(ops, graph)
    readers = readers_through(ops, graph)
    kept = {root.get(tensor, tensor) for tensor in graph.outputs}
    copies: dict[Node, int] = {}
    hidden: set[Tensor] = set()
    for node in reversed(graph.nodes):
        copies[node] = 1
        if len(node.outputs) != 1 or node.output in kept or is_alias(ops, node):
            continue
        read = readers.get(node.output, [])
        if (
            not read
            or not _writes_elements(ops, node)
            or not all(_reads(ops, one, longest) for one in read)
        ):
            continue
        count = sum(copies[one] for one in set(read))
        if len(set(read)) == 1 or (count <= SETTINGS.most_copies and _is_cheap(ops, node)):
            hidden.add(node.output)
            copies[node] = count
    for tensor in graph.inputs:
        read = readers.get(tensor, [])
        if read and tensor not in kept and all(_reads(ops, one, longest) for one in read):
            hidden.add(tensor)
    return frozenset(hidden)


def _is_pointwise(ops: OpSet, node: Node) -> bool:
    if isinstance(node, Loop) or node.subgraphs or node.stateful:
        return False
    rule = ops.rule(node)
    return isinstance(rule, AxisRule) and rule.text in _POINTWISE


def _writes_elements(ops: OpSet, node: Node) -> bool:
    """Return whether XLA can compute a node's result element by element."""
    if node.op in REDUCTIONS:
        return _is_short(node, TREE)
    return node.op in _MOVEMENT or _is_pointwise(ops, node)


def _reads(ops: OpSet, node: Node, longest: int) -> bool:
    """Return whether XLA can fuse the producers of a node's operands into it.

    A read of one index becomes a dynamic slice, which XLA does not fuse with expensive producers.
    """
    if node.op in REDUCTIONS:
        return _is_short(node, longest)
    if node.op == "take" and node.inputs[1].size == 1:
        return False
    return node.op in _MOVEMENT or node.op in _SEARCHES or _is_pointwise(ops, node)


def _is_short(node: Node, longest: int) -> bool:
    return all(size <= longest for size in reduced_sizes(node))


def reduced_sizes(node: Node) -> list[int]:
    """Return the sizes of the axes that a reduction reduces."""
    dims, axes = node.inputs[0].dims, node.inputs[1].value
    if axes is None:
        return list(dims)
    return [dims[int(axis) % len(dims)] for axis in axes.ravel()]


def _is_cheap(ops: OpSet, node: Node) -> bool:
    """Return whether a node is cheap enough to be recomputed in several loops."""
    if node.op in REDUCTIONS:
        return False
    return ops.flops(node) <= SETTINGS.register_flops * node.output.size
