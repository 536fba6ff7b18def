"""Evaluation of integer tensors, also large ones, that a program computes only from constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tf_exla.ir.graph import Array, Node, Tensor

MOST = 1 << 22
"""The largest number of elements that is evaluated, 32 MB of int64 while a program is planned."""


def static_integer(tensor: Tensor) -> int | None:
    """Return the value of a tensor of one integer; None for other tensors, or if it is unknown."""
    if tensor.value is None or tensor.value.size != 1 or "int" not in tensor.dtype:
        return None
    return int(tensor.value.reshape(()))


def static_integers(tensor: Tensor, made_by: Mapping[Tensor, Node]) -> Array | None:
    """Return the value of an integer tensor that depends only on constants; None if unknown.

    `made_by`: the producers of tensors. Overflow wraps around as in the program.
    """
    if not tensor.dtype.startswith("int") or not tensor.is_static or tensor.size > MOST:
        return None
    if tensor.value is not None:
        return tensor.value
    node = made_by.get(tensor)
    if node is None:
        return None
    if node.op == "constant":
        return np.asarray(node.attrs["value"])
    how = _EVALUATED.get(node.op)
    if how is None:
        return None
    operands = [static_integers(operand, made_by) for operand in node.inputs]
    known = [operand for operand in operands if operand is not None]
    if len(known) < len(operands):
        return None
    with np.errstate(over="ignore"):
        made = how(node, known)
    if made is None or made.shape != tensor.dims:
        return None
    return made.astype(tensor.dtype)


def _arranged(node: Node, operands: Sequence[Array]) -> Array:
    return operands[0].reshape(node.output.dims)


def _whole_slice(node: Node, operands: Sequence[Array]) -> Array | None:
    """Evaluate a strided slice that keeps all elements; None for other slices.

    Such a slice only adds or removes axes of size one.
    """
    same = operands[0].size == node.output.size and bool(np.all(operands[3] == 1))
    return operands[0].reshape(node.output.dims) if same else None


def _packed(node: Node, operands: Sequence[Array]) -> Array:
    return np.stack(operands, int(str(node.attrs.get("axis", 0))))


_EVALUATED: Mapping[str, Callable[[Node, Sequence[Array]], Array | None]] = {
    "add": lambda node, x: np.add(*x),
    "broadcast_to": lambda node, x: np.broadcast_to(x[0], node.output.dims),
    "astype": lambda node, x: x[0],
    "expand_dims": _arranged,
    "full": lambda node, x: np.broadcast_to(x[1], node.output.dims),
    "multiply": lambda node, x: np.multiply(*x),
    "stack": _packed,
    "arange": lambda node, x: np.arange(*(int(bound) for bound in x)),
    "reshape": _arranged,
    "squeeze": _arranged,
    "strided_slice": _whole_slice,
    "subtract": lambda node, x: np.subtract(*x),
    "tile": lambda node, x: np.tile(x[0], [int(count) for count in x[1]]),
    "permute_dims": lambda node, x: np.transpose(x[0], [int(axis) for axis in x[1]]),
}
