"""Parts of the tables of kernels' memory: one call of a kernel, and common bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tf_exla.ir.graph import item_bytes


class TensorLike(Protocol):
    """The interface of a tensor for a bound.

    `value`: the static value if known (axes, shapes). `held`: the bytes of a handle's variable.
    """

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def value(self) -> NDArray[np.generic] | None: ...
    @property
    def held(self) -> int: ...


class Call(NamedTuple):
    """One call of a kernel; `threads`: how many a CPU kernel may use."""

    inputs: Sequence[TensorLike]
    outputs: Sequence[TensorLike]
    attrs: Mapping[str, object]
    threads: int


Bound = Callable[[Call], int]
"""An upper bound of the bytes that a kernel allocates beyond its outputs."""


def itemsize(dtype: str) -> int:
    return 0 if dtype == "string" else item_bytes(dtype)


def tensor_bytes(tensor: TensorLike) -> int:
    return prod(tensor.shape) * itemsize(tensor.dtype)


def all_bytes(tensors: Sequence[TensorLike]) -> int:
    return sum(map(tensor_bytes, tensors))


def nothing(call: Call) -> int:
    return 0


def copy_of_everything(call: Call) -> int:
    return all_bytes(call.inputs) + all_bytes(call.outputs)


def copy_of_output(call: Call) -> int:
    return all_bytes(call.outputs)


def batch_positions(call: Call) -> int:
    """Count a position in either operand for each matrix of the result, if batches are broadcast.

    (MatMulBCast in TensorFlow's core/util.)
    """
    count = prod(call.outputs[0].shape[:-2])
    same = all(prod(one.shape[:-2]) == count for one in call.inputs[:2])
    return 0 if same else 2 * 8 * count


def transposed_reduction(call: Call) -> int:
    """Count a transposed operand if there are more than three runs of kept and reduced axes."""
    data, axes = call.inputs[0], call.inputs[1].value
    if axes is None:
        return tensor_bytes(data)
    reduced = {int(axis) % len(data.shape) for axis in np.ravel(axes).astype(np.int64)}
    # An axis of size 1 belongs to the run before it.
    kinds = [axis in reduced for axis, extent in enumerate(data.shape) if extent != 1]
    runs = sum(1 for i, kind in enumerate(kinds) if i == 0 or kind != kinds[i - 1])
    return tensor_bytes(data) if runs > 3 else 0
