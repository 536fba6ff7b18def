"""What of tensors only a run tells: sizes, and what lists hold."""

from __future__ import annotations

from tf_exla.ir.bounds import HANDLES
from tf_exla.ir.graph import Tensor, item_bytes


def is_of_unknown_size(tensor: Tensor) -> bool:
    """Return whether only the run tells the size of a tensor."""
    return not tensor.is_static and tensor.dtype not in HANDLES


def may_be_a_size(tensor: Tensor) -> bool:
    """Return whether a tensor may be a size of another one that is not known yet."""
    return "int" in tensor.dtype and tensor.value is None


def flat(tensor: Tensor, nbytes: int) -> Tensor:
    """Return a vector of as many bytes."""
    return Tensor((nbytes // max(1, item_bytes(tensor.dtype)),), tensor.dtype, tensor.name)
