"""Emit a running top-k: what of a chunk beats the k-th so far, merged with the chunks before.

Groups of neighbours are compared with the k-th by their largest element. Those that beat it are put
together, row by row, as many places for each row as the longest needs, and the kernel looks at
these only. Where that is no small part of the chunk, or a NaN is about, which compares with
nothing, the kernel looks at all of it.
"""

from __future__ import annotations

import math
from functools import partial
from typing import cast

import tensorflow as tf

from tf_exla.frontends.tf.emitter import Emitter
from tf_exla.graph import Node
from tf_exla.top_k import SPARSE

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

    def merged(self) -> Pair:
        """Merge the groups that beat the k-th so far, where they are few."""
        largest = tf.reduce_max(tf.reshape(self.x, [self.rows, self.groups, self.size]), 2)
        beats = largest > self.values[:, -1:]
        counts = tf.reduce_sum(tf.cast(beats, tf.int32), 1)
        rows, most = tf.reduce_sum(tf.cast(counts > 0, tf.int32)), tf.reduce_max(counts)
        few = tf.cast(rows, tf.int64) * tf.cast(most, tf.int64) <= self.room
        if self.x.dtype.is_floating:
            for read in (largest, self.values):
                few &= ~tf.reduce_any(tf.math.is_nan(read))
        best = partial(self._best, beats, counts, rows, most)
        return cast(Pair, tf.cond(few, best, self.all_merged))

    @property
    def room(self) -> int:
        """Groups that may be looked at more closely."""
        return int(self.rows * self.groups // SPARSE)

    def _best(self, beats: tf.Tensor, counts: tf.Tensor, rows: tf.Tensor, most: tf.Tensor) -> Pair:
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
        flat = tf.reshape(self.x, [self.rows * self.groups, self.size])
        elements = tf.gather(flat, row * self.groups + group)
        elements = tf.tensor_scatter_nd_update(empty, place, elements)
        elements = tf.reshape(elements, [rows, most * self.size])
        groups = tf.reshape(tf.scatter_nd(place, group, [rows * most]), [rows, most])
        values = tf.concat([tf.gather_nd(self.values, chosen), elements], 1)
        values, at = tf.math.top_k(values, self.k)
        old = tf.gather(tf.gather_nd(self.places, chosen), tf.minimum(at, self.k - 1), batch_dims=1)
        new = tf.maximum(at - self.k, 0)
        whole = tf.gather(groups, new // self.size, batch_dims=1) * self.size
        new = tf.cast(whole + new % self.size, old.dtype) + self.offset
        places = tf.where(at < self.k, old, new)
        return (
            tf.tensor_scatter_nd_update(self.values, chosen, values),
            tf.tensor_scatter_nd_update(self.places, chosen, places),
        )
