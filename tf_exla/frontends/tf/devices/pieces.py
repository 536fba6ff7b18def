"""The parts of a program's inputs that stay on devices between calls."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tf_exla.frontends.tf.devices.data import ShardedTensor
from tf_exla.ir.graph import SplitAxis

if TYPE_CHECKING:
    from typing import TypeAlias

    Value: TypeAlias = tf.Tensor | ShardedTensor

Key = tuple[int, SplitAxis | None, int, int, str]


class Pieces:
    """Parts of tensors on devices, each kept as long as its tensor lives.

    Functions on the same devices share them: a gradient reads the rows that the forward call sent.
    """

    def __init__(self) -> None:
        # Accessed only by single, atomic operations: a tensor may die during any of them, which
        # drops its parts.
        self._kept: dict[Key, tuple[Any, tf.Tensor]] = {}

    def part(self, value: Value, slot: SplitAxis | None, indices: range, device: str) -> tf.Tensor:
        """Return a part of a tensor on a device, kept from an earlier call or sent and kept now."""
        indices = range(0) if slot is None else indices
        key = id(value), slot, indices.start, indices.stop, device
        known = self._kept.get(key)
        if known is not None and known[0]() is value:
            return known[1]
        made = read_part(value, slot, indices, device)
        kept = self._kept

        def drop(gone: Any) -> None:
            if (found := kept.get(key)) is not None and found[0] is gone:
                kept.pop(key, None)

        kept[key] = weakref.ref(value, drop), made
        return made

    def forget(self, device: str) -> None:
        """Drop the parts on a lost device."""
        for key in list(self._kept):
            if key[4] == device:
                self._kept.pop(key, None)


def read_part(value: Value, slot: SplitAxis | None, indices: range, device: str) -> tf.Tensor:
    """Return a part of a tensor on a device."""
    if isinstance(value, ShardedTensor):
        assert slot is not None
        return value.rows(indices.start * slot.block, indices.stop * slot.block, device)
    return send(part_of(value, slot, indices), device)


def part_of(tensor: tf.Tensor, slot: SplitAxis | None, indices: range) -> tf.Tensor:
    """Return the part of a tensor that a shard reads; all of it without a slot."""
    if slot is None:
        return tensor
    begin = [0] * tensor.shape.rank
    size = [-1] * tensor.shape.rank
    begin[slot.axis] = indices.start * slot.block
    size[slot.axis] = len(indices) * slot.block
    return tf.slice(tensor, begin, size)


def send(tensor: tf.Tensor, device: str) -> tf.Tensor:
    """Return a tensor on a device; it is not copied if it is there already."""
    with tf.device(device):
        return tf.identity(tensor)
