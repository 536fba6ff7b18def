"""Properties of tensors that are known only at run time: sizes, and the contents of lists."""

from __future__ import annotations

from tf_exla.ir.bounds import HANDLES
from tf_exla.ir.graph import Tensor, item_bytes


def is_of_unknown_size(tensor: Tensor) -> bool:
    """Return whether the size of a tensor is known only at run time."""
    return not tensor.is_static and tensor.dtype not in HANDLES


def may_be_a_size(tensor: Tensor) -> bool:
    """Return whether a tensor may hold an unknown size of another tensor."""
    return "int" in tensor.dtype and tensor.value is None


def flat(tensor: Tensor, nbytes: int) -> Tensor:
    """Return a vector of `nbytes` bytes, of the dtype of `tensor`."""
    return Tensor((nbytes // max(1, item_bytes(tensor.dtype)),), tensor.dtype, tensor.name)
