"""Bytes of the buffers that XLA needs in one cluster."""

from __future__ import annotations

from collections.abc import Sequence

from tf_exla.ir.aliases import is_alias, readers_through, roots
from tf_exla.ir.graph import Graph, Tensor
from tf_exla.ir.op_set import OpSet
from tf_exla.model.fusion import in_registers, is_one_loop

_BY_ROWS = frozenset({"log_softmax", "softmax"})
"""Ops whose result overwrites their operand, although they pass over it more than once."""
_TWICE = _BY_ROWS | {"softplus"}
"""Ops that read exponentials more than once, so these have a buffer in addition to the result."""


def cluster_bytes(ops: OpSet, graph: Graph) -> int:
    """Return the bytes of all results of a cluster that XLA neither fuses nor overwrites.

    A pointwise result with one pointwise reader is fused into it. A simple result with several
    readers is fused into each of them. If XLA fuses in place, a pointwise node overwrites an
    operand without other readers. An alias, such as a reshape, counts as the tensor that it
    aliases, but each output of the cluster has a buffer of its own. XLA's loops need no scratch
    memory, even where Eigen's broadcasts do. Products still call Eigen, and their scratch counts.
    """
    root = roots(ops, graph)
    readers = readers_through(ops, graph)
    outputs = frozenset(root.get(tensor, tensor) for tensor in graph.outputs)
    pointwise = {node: is_one_loop(ops, node) for node in graph.nodes}
    hidden = in_registers(ops, graph)
    in_place = ops.fuses_in_place()
    own: set[Tensor] = set()  # buffers with at most one reader: it may overwrite them
    made = {tensor for node in graph.nodes if node.op != "constant" for tensor in node.outputs}
    total = sum(tensor.nbytes for tensor in graph.outputs)
    total -= sum(tensor.nbytes for tensor in outputs if tensor in made)  # counted below
    for node in graph.nodes:
        if node.op == "constant" or is_alias(ops, node):
            continue
        if not pointwise[node] or node.op in _BY_ROWS:
            total += ops.scratch(node, compiled=True)
        if node.op in _TWICE:
            total += node.output.nbytes  # the exponentials, which are read twice
        operands = [root.get(tensor, tensor) for tensor in node.inputs]
        for tensor in node.outputs:
            read = readers.get(tensor, ())
            once = len(read) <= 1 and tensor not in outputs
            if tensor in hidden:
                # If a chain of fused nodes may overwrite a buffer, the last of them does.
                own.update([tensor] if once and _overwrites(own, operands, tensor) else [])
                continue
            reused = in_place and pointwise[node] and _overwrites(own, operands, tensor)
            total += 0 if reused else tensor.nbytes
            if once:
                own.add(tensor)
    return total


def _overwrites(own: set[Tensor], operands: Sequence[Tensor], result: Tensor) -> bool:
    return any(operand in own and operand.nbytes == result.nbytes for operand in operands)
