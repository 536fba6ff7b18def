"""Emit a running top-k: what of a chunk beats the k-th so far, merged with the chunks before.

Groups of neighbours are compared with the k-th by their largest element. Those that beat it are put
together, row by row, as many places for each row as the longest needs, and the kernel looks at
these only. Where that is no small part of the chunk, it looks at the k best groups of each row;
where a NaN is about, which compares with nothing, at all of the chunk.
"""

from __future__ import annotations

import math
from functools import partial
from typing import cast

import tensorflow as tf

from tf_exla.frontends.tf.emitter import Emitter
from tf_exla.graph import Node
from tf_exla.top_k import SPARSE, by_groups

Pair = tuple[tf.Tensor, tf.Tensor]


def emit_running_top_k(emitter: Emitter, node: Node) -> list[tf.Tensor]:
    """Emit a RunningTopK in the body of a loop; without chunks before, the chunk's own top k."""
    assert emitter.around is not None
    (x,) = emitter.values(node.inputs[:1])
    before = [emitter.known(tensor) for tensor in node.inputs[1:]]
    values, places = node.outputs
    block, size = (int(str(node.attrs[key])) for key in ("block", "size"))
    offset = emitter.around.scalar(places.dtype, block)
    *batch, n = node.inputs[0].dims
    rows, k = math.prod(batch), values.dims[-1]
    with emitter.after_large() as ended:
        x = tf.reshape(x, [rows, n])
        if before[0] is None or before[1] is None:
            made = _top_k(x, offset, k)
        else:
            old = tf.reshape(before[0], [rows, k]), tf.reshape(before[1], [rows, k])
            chunk = RunningChunk(x, offset, *old, size)
            made = chunk.merged() if size else chunk.all_merged()
        ended += [
            tf.reshape(tensor, whole.dims) for tensor, whole in zip(made, node.outputs, strict=True)
        ]
    return ended


def _top_k(x: tf.Tensor, offset: tf.Tensor, k: int) -> Pair:
    values, places = tf.raw_ops.TopKV2(input=x, k=min(k, x.shape[-1]), index_type=tf.int32)
    return values, tf.cast(places, offset.dtype) + offset


class RunningChunk:
    """x: [rows, n], which begins at `offset`; `values`, `places`: [rows, k], of the chunks before.

    Of equal elements the kernel takes those that come first: the chunks before this one.
    """

    def __init__(
        self, x: tf.Tensor, offset: tf.Tensor, values: tf.Tensor, places: tf.Tensor, size: int
    ) -> None:
        self.x, self.offset, self.values, self.places = x, offset, values, places
        self.rows, self.n = x.shape
        self.k = values.shape[-1]
        self.size = size
        self.groups = self.n // size if size else 0

    def all_merged(self) -> Pair:
        """Merge the chunk's own top k."""
        values, places = _top_k(self.x, self.offset, self.k)
        values = tf.concat([self.values, values], 1)
        places = tf.concat([self.places, places], 1)
        values, chosen = tf.math.top_k(values, self.k)
        return values, tf.gather(places, chosen, batch_dims=1)

    def best_merged(self, largest: tf.Tensor) -> Pair:
        """Merge the groups with the k largest elements, in their order: see `expanding.py`."""
        best = tf.sort(tf.math.top_k(largest, self.k, sorted=False).indices, 1)
        elements = tf.gather(self._groups(), best, batch_dims=1)
        elements = tf.reshape(elements, [self.rows, self.k * self.size])
        return self._chosen(self.values, self.places, elements, best)

    def merged(self) -> Pair:
        """Merge the groups that beat the k-th so far, where they are few."""
        largest = tf.reduce_max(self._groups(), 2)
        beats = largest > self.values[:, -1:]
        counts = tf.reduce_sum(tf.cast(beats, tf.int32), 1)
        rows, most = tf.reduce_sum(tf.cast(counts > 0, tf.int32)), tf.reduce_max(counts)
        few = tf.cast(rows, tf.int64) * tf.cast(most, tf.int64) <= self.room
        best = partial(self._few_merged, beats, counts, rows, most)
        most_merged = self.all_merged
        if by_groups(self.n, self.k, self.size):
            most_merged = partial(self.best_merged, largest)
        if not self.x.dtype.is_floating:
            return cast(Pair, tf.cond(few, best, most_merged))
        nan = tf.reduce_any(tf.math.is_nan(largest)) | tf.reduce_any(tf.math.is_nan(self.values))
        which = tf.where(nan, 2, tf.where(few, 0, 1))
        return cast(Pair, tf.switch_case(which, [best, most_merged, self.all_merged]))

    @property
    def room(self) -> int:
        """Groups that may be looked at more closely."""
        return int(self.rows * self.groups // SPARSE)

    def _few_merged(
        self, beats: tf.Tensor, counts: tf.Tensor, rows: tf.Tensor, most: tf.Tensor
    ) -> Pair:
        """Merge the groups that beat the k-th: at most `most` in each of so many `rows`."""
        row, group = tf.unstack(tf.cast(tf.where(beats), tf.int32), axis=1)
        some = counts > 0
        chosen = tf.cast(tf.where(some), tf.int32)  # [rows, 1]
        # The place of a group: of its row among those chosen, and in it.
        nth = tf.cumsum(tf.cast(some, tf.int32)) - 1
        first = nth * most - tf.cumsum(counts, exclusive=True)
        place = (tf.range(tf.size(row)) + tf.gather(first, row))[:, None]
        least = -math.inf if self.x.dtype.is_floating else self.x.dtype.min
        empty = tf.fill([rows * most, self.size], tf.constant(least, self.x.dtype))
        elements = tf.gather_nd(self._groups(), tf.stack([row, group], 1))
        elements = tf.tensor_scatter_nd_update(empty, place, elements)
        elements = tf.reshape(elements, [rows, most * self.size])
        groups = tf.reshape(tf.scatter_nd(place, group, [rows * most]), [rows, most])
        old_values, old_places = (tf.gather_nd(t, chosen) for t in (self.values, self.places))
        values, places = self._chosen(old_values, old_places, elements, groups)
        return (
            tf.tensor_scatter_nd_update(self.values, chosen, values),
            tf.tensor_scatter_nd_update(self.places, chosen, places),
        )

    def _groups(self) -> tf.Tensor:
        return tf.reshape(self.x, [self.rows, self.groups, self.size])

    def _chosen(
        self, values: tf.Tensor, places: tf.Tensor, elements: tf.Tensor, groups: tf.Tensor
    ) -> Pair:
        """Merge the `elements` of `groups`, as they lie in each row, with what was before."""
        values, at = tf.math.top_k(tf.concat([values, elements], 1), self.k)
        old = tf.gather(places, tf.minimum(at, self.k - 1), batch_dims=1)
        new = tf.maximum(at - self.k, 0)
        group = tf.gather(groups, new // self.size, batch_dims=1)
        new = tf.cast(group * self.size + new % self.size, places.dtype) + self.offset
        return values, tf.where(at < self.k, old, new)
