"""Results that XLA's CPU code keeps in registers, since the loops that read them compute them.

A pointwise op of a few flops is computed in each loop that reads its result. A division, a root or
an exponential that several loops read is computed once, into a buffer. Reductions and products read
buffers.
"""

from __future__ import annotations

from tf_exla.ir.aliases import is_alias, readers_through, roots
from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.ir.op_set import OpSet
from tf_exla.model.settings import SETTINGS


def in_registers(ops: OpSet, graph: Graph) -> frozenset[Tensor]:
    """Return the results in a cluster that have no buffer.

    The readers of an alias, such as a reshape, count as readers of the tensor that it aliases.
    """
    root = roots(ops, graph)
    readers = readers_through(ops, graph)
    outputs = frozenset(root.get(tensor, tensor) for tensor in graph.outputs)
    loops = {node: is_one_loop(ops, node) for node in graph.nodes if not is_alias(ops, node)}
    copies = dict.fromkeys(loops, 1)
    hidden = set()
    for node in reversed(loops):
        tensor = node.outputs[0]
        read = set(readers.get(tensor, ()))
        if not loops[node] or not read or tensor in outputs or not all(map(loops.get, read)):
            continue
        count = sum(copies[reader] for reader in read)
        if count == 1 or (count <= SETTINGS.most_copies and _again(ops, node, read)):
            hidden.add(tensor)
            copies[node] = count
    return frozenset(hidden)


def _again(ops: OpSet, node: Node, readers: set[Node]) -> bool:
    """Return whether each of several reading loops computes a node again.

    They do if it is simple and they run over as many elements as it has.
    """
    return is_simple(ops, node) and all(
        reader.output.size == node.output.size for reader in readers
    )


def is_simple(ops: OpSet, node: Node) -> bool:
    """Return whether a node is a pointwise op of a few flops."""
    if ops.work(node) != "pointwise" or len(node.outputs) != 1 or not node.output.is_static:
        return False
    return ops.flops(node) <= SETTINGS.register_flops * node.output.size


def is_one_loop(ops: OpSet, node: Node) -> bool:
    """Return whether a node computes its result in one pass over the elements, or fills it."""
    if node.op == "constant" or ops.work(node) != "pointwise" or len(node.outputs) != 1:
        return False
    if not all(tensor.is_static for tensor in (*node.inputs, *node.outputs)):
        return False
    size, largest = node.output.size, max((t.size for t in node.inputs), default=0)
    return size >= SETTINGS.broadcast * largest or (size == largest and ops.flops(node) >= size > 0)
