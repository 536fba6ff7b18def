"""Properties of tensors that are known only at run time: sizes, and the contents of lists."""

from __future__ import annotations

from tf_exla.ir.bounds import HANDLES
from tf_exla.ir.graph import Graph, Node, Tensor, item_bytes
from tf_exla.ir.lists import is_list
from tf_exla.ir.notes import note, noted


def is_of_unknown_size(tensor: Tensor) -> bool:
    """Return whether the size of a tensor is known only at run time."""
    return not tensor.is_static and tensor.dtype not in HANDLES


def may_be_a_size(tensor: Tensor) -> bool:
    """Return whether a tensor's integers, unknown at planning, may be sizes of another tensor."""
    return "int" in tensor.dtype and tensor.value is None


def nodes_with_bounds(graph: Graph) -> tuple[Node, ...]:
    """Return the nodes whose results may have bounds, or that have sub-graphs; memoized."""
    known: tuple[Node, ...] | None = noted(graph, "with bounds", None)
    if known is None:
        known = tuple(
            node
            for node in graph.nodes
            if node.subgraphs
            or any(is_list(t) or is_of_unknown_size(t) or may_be_a_size(t) for t in node.outputs)
        )
        note(graph, "with bounds", None, known)
    return known


def flat(tensor: Tensor, nbytes: int) -> Tensor:
    """Return a vector of `nbytes` bytes, of the dtype of `tensor`."""
    return Tensor((nbytes // max(1, item_bytes(tensor.dtype)),), tensor.dtype, tensor.name)
