"""The parts of a program's inputs that stay on devices between calls."""

from __future__ import annotations

import threading
import weakref
from typing import Any

import tensorflow as tf

from tf_exla.frontends.tf.devices.data import ShardedTensor
from tf_exla.ir.graph import SplitAxis

Key = tuple[int, SplitAxis | None, int, int, str]


class Pieces:
    """Parts of tensors on devices, by the position of an input; replaced when the input changes."""

    def __init__(self) -> None:
        self._kept: dict[Key, tuple[Any, tf.Tensor]] = {}
        self._lock = threading.Lock()

    def part(
        self,
        position: int,
        tensor: tf.Tensor | ShardedTensor,
        slot: SplitAxis | None,
        indices: range,
        device: str,
    ) -> tf.Tensor:
        """Return a part of input `position` on a device: sent now, or with an earlier call."""
        indices = range(0) if slot is None else indices
        key = position, slot, indices.start, indices.stop, device
        with self._lock:
            known = self._kept.get(key)
        if known is not None and known[0]() is tensor:
            return known[1]
        made = read_part(tensor, slot, indices, device)
        with self._lock:
            self._kept[key] = weakref.ref(tensor), made
        return made

    def forget(self, device: str) -> None:
        """Drop what was on a device that is gone."""
        with self._lock:
            self._kept = {key: kept for key, kept in self._kept.items() if key[4] != device}


def read_part(
    value: tf.Tensor | ShardedTensor, slot: SplitAxis | None, indices: range, device: str
) -> tf.Tensor:
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
    """Return a tensor on a device; nothing is copied where it is there."""
    with tf.device(device):
        return tf.identity(tensor)
