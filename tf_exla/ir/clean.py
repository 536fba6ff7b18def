"""Clean-up: removes nodes that change nothing, repeated sub-expressions, and dead nodes."""

from __future__ import annotations

from collections.abc import Hashable, Set

import numpy as np

from tf_exla.ir.control_flow import CHOICES, is_while
from tf_exla.ir.graph import Graph, Loop, Node, Tensor
from tf_exla.ir.lists import is_list
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.traits import IDENTITIES, REDUCTIONS, RESHAPES
from tf_exla.ir.traverse import with_subgraphs, without_dead
from tf_exla.ir.unneeded import without_idle_variables, without_unread

_SHAPE_IDENTITIES = RESHAPES | {"broadcast_to"}


def clean(graph: Graph, ops: OpSet, apart: int | None = None) -> Graph:
    """Return the graph without nodes that change nothing, equal nodes and dead nodes.

    - `identity(x) -> x`, `identity_n(x, y) -> x, y`
    - `reshape(x, shape(x)) -> x`, `broadcast_to(x, shape(x)) -> x`
    - two pure nodes with the same op, attributes and inputs -> one
    - pure nodes without uses -> none
    - variables of a While that only their own next value reads -> none
    - results of a choice that nothing reads, and operands that no branch reads -> none

    Sub-graphs are cleaned too, except those of a `Loop`. A value that a While passes on unchanged
    is then one tensor.

    `apart`: equal results of at least this many bytes are not merged; the later one has the first
    as its `origin`. A merged result is alive up to its last reader, which may need more memory.
    """
    return drop_dead(_merge(_clean_subgraphs(graph, ops, apart), apart))


def _clean_subgraphs(graph: Graph, ops: OpSet, apart: int | None) -> Graph:
    nodes = []
    for node in graph.nodes:
        if not isinstance(node, Loop):
            node = with_subgraphs(node, lambda sub: clean(sub, ops, apart))
        nodes.append(node)
    return graph.with_nodes(nodes)


def _merge(graph: Graph, apart: int | None) -> Graph:
    stands_for: dict[Tensor, Tensor] = {}
    first: dict[Tensor, Tensor] = {}  # each result that stays apart to the first equal one
    seen: dict[Hashable, Node] = {}
    nodes: list[Node] = []
    for old in graph.nodes:
        node = old.substitute(stands_for)
        if is_identity(node):
            stands_for.update(zip(node.outputs, node.inputs, strict=False))
            continue
        key = node_key(node.substitute(first))
        twin = seen.setdefault(key, node) if key is not None else node
        if twin is not node and _stays_apart(node, apart):
            copies = tuple(tensor.copy() for tensor in twin.outputs)
            stands_for.update(zip(node.outputs, copies, strict=True))
            first.update(zip(copies, twin.outputs, strict=True))
            node = node.replace(outputs=copies)
        elif twin is not node:
            stands_for.update(zip(node.outputs, twin.outputs, strict=True))
            continue
        nodes.append(node)
    if len(nodes) == len(graph.nodes) and not first:
        return graph
    return graph.with_nodes(nodes, stands_for)


def _stays_apart(node: Node, apart: int | None) -> bool:
    """Return whether a node is not merged with an equal one, since a result is large.

    Constants are always merged: they exist for the whole call anyway.
    """
    if apart is None or node.op == "constant":
        return False
    return any(
        not tensor.is_static or is_list(tensor) or tensor.nbytes >= apart for tensor in node.outputs
    )


def is_identity(node: Node) -> bool:
    if node.stateful or not node.outputs:
        return False
    if node.op in IDENTITIES:
        return True
    if node.op in _SHAPE_IDENTITIES:
        before, after = node.inputs[0], node.outputs[0]
        return before.is_static and before.shape == after.shape
    return False


def node_key(node: Node) -> Hashable | None:
    """Return a key that only nodes that compute the same share; None for nodes never merged."""
    if node.stateful or node.subgraphs:
        return None
    if node.op == "constant":
        value = np.asarray(node.attrs["value"])
        return ("constant", node.output.dtype, value.shape, value.tobytes())
    attrs = tuple(sorted((name, shown(value)) for name, value in node.attrs.items()))
    operands: tuple[Hashable, ...] = node.inputs
    if node.op in REDUCTIONS and len(operands) == 2 and node.inputs[1].value is not None:
        rank = len(node.inputs[0].axes or ())
        if rank:  # axis -1 of a matrix is axis 1
            axes = (int(axis) % rank for axis in node.inputs[1].value.ravel())
            operands = (node.inputs[0], tuple(sorted(axes)))
    # Casts differ only in the dtype of the result, and empty lists in the shape of their items.
    results = tuple((tensor.dtype, tensor.items) for tensor in node.outputs)
    return (node.op, operands, attrs, results)


def exchanged(key: Hashable) -> Hashable:
    """Return the key of a node with its two operands exchanged."""
    assert isinstance(key, tuple)
    op, inputs, *rest = key
    return (op, inputs[::-1], *rest)


def shown(value: object) -> str:
    """Return a text that determines the value of an attribute.

    `repr` does not, since it leaves out most elements of a large array.
    """
    if isinstance(value, np.ndarray):  # the bytes of an array of objects are their addresses
        plain = value.tolist() if value.dtype == object else value.tobytes()
        return f"{value.dtype}{value.shape}{plain!r}"
    return repr(value)


def drop_dead(graph: Graph) -> Graph:
    """Remove pure nodes without uses, idle variables of a While, unread results of a choice."""
    return without_dead(graph, trim)


def trim(node: Node, wanted: Set[Tensor]) -> Node:
    """Return a While or choice with what its `wanted` results need; any other node as it is."""
    if is_while(node):
        return without_idle_variables(node, wanted)
    return without_unread(node, wanted, drop_dead) if node.op in CHOICES else node
