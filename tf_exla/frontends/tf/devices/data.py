"""Tensors of which each device holds a part, and no device the whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

Read = Callable[[int, int], Any]
"""Returns the rows from a start up to, not including, a stop."""


class ShardedTensor:
    """A tensor argument of a function on several devices, which read it in blocks of rows.

    `shape`, `dtype`: those of the whole tensor. Rows are read when a device first needs them, on
    that device, and stay there for later calls with the same object.
    """

    exist = False  # whether any was ever made: most programs have none, and skip the search

    def __init__(self, read: Read, shape: Sequence[int], dtype: Any) -> None:
        ShardedTensor.exist = True
        self.shape = tf.TensorShape(shape)
        self.dtype = tf.as_dtype(dtype)
        if not self.shape.rank or not self.shape.is_fully_defined():
            raise ValueError(f"the shape of a sharded tensor must have known sizes, got {shape}")
        self._read = read

    def rows(self, start: int, stop: int, device: str) -> tf.Tensor:
        """Return some rows on a device. Raises ValueError if `read` returns another shape."""
        with tf.device(device):
            made = tf.convert_to_tensor(self._read(start, stop), self.dtype)
            wanted = (stop - start, *self.shape.as_list()[1:])
            if tuple(made.shape) != wanted:
                raise ValueError(
                    f"rows {start} to {stop} of a sharded tensor {self.shape} have the shape "
                    f"{made.shape}, not {wanted}"
                )
            return tf.identity(made)

    def whole(self) -> tf.Tensor:
        """Return all rows on the device of the caller."""
        return tf.convert_to_tensor(self._read(0, int(self.shape[0])), self.dtype)

    def __repr__(self) -> str:
        return f"<ShardedTensor {self.dtype.name}{self.shape.as_list()}>"


def sharded(
    source: Read | Sequence[tf.Tensor],
    *,
    shape: Sequence[int] | None = None,
    dtype: Any = None,
) -> ShardedTensor:
    """Return a tensor whose rows devices read themselves; the whole never exists anywhere.

    It is an argument of a function that was optimized with `devices`. The function may only read it
    in loops over its rows, as a kernel between all rows and a few inducing points does.

    Args:
        source: `read(start, stop)`, which returns these rows. It is called with the device set that
            needs them: TensorFlow's ops in it, for example `tf.io.read_file`, run on that machine.
            Or tensors, already on their devices, whose concatenation is the whole.
        shape: Shape of the whole; not needed for tensors.
        dtype: Dtype of the whole; not needed for tensors.

    Raises:
        ValueError: If the shape or dtype is missing, or tensors do not match.
    """
    if callable(source):
        if shape is None or dtype is None:
            raise ValueError("sharded(read) needs shape= and dtype= of the whole tensor")
        return ShardedTensor(source, shape, dtype)
    parts = list(source)
    if not parts:
        raise ValueError("sharded([]) has no tensors")
    starts = [0]
    for part in parts:
        if part.shape[1:] != parts[0].shape[1:] or part.dtype != parts[0].dtype:
            raise ValueError(f"sharded tensors differ: {parts[0].shape} and {part.shape}")
        starts.append(starts[-1] + int(part.shape[0]))

    def read(start: int, stop: int) -> tf.Tensor:
        pieces = []
        for part, first in zip(parts, starts, strict=False):
            low, high = max(start, first), min(stop, first + int(part.shape[0]))
            if low < high:
                pieces.append(part[low - first : high - first])
        return pieces[0] if len(pieces) == 1 else tf.concat(pieces, 0)

    return ShardedTensor(read, [starts[-1], *parts[0].shape.as_list()[1:]], parts[0].dtype)


def with_stand_ins(
    args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Sequence[Any], Mapping[str, Any], dict[int, ShardedTensor]]:
    """Return arguments with placeholders for sharded tensors, and these by placeholder id."""
    if not ShardedTensor.exist:
        return args, kwargs, {}
    flat = tf.nest.flatten((args, dict(kwargs)))
    if not any(isinstance(one, ShardedTensor) for one in flat):
        return args, kwargs, {}
    found: dict[int, ShardedTensor] = {}
    stand_ins: list[Any] = []
    with tf.Graph().as_default():
        for one in flat:
            if isinstance(one, ShardedTensor):
                placeholder = tf.compat.v1.placeholder(one.dtype, one.shape)
                found[id(placeholder)] = one
                one = placeholder
            stand_ins.append(one)
    args, kwargs = tf.nest.pack_sequence_as((args, dict(kwargs)), stand_ins)
    return args, kwargs, found
