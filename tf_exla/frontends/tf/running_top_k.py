"""Emit a running top-k: what of a chunk beats the k-th so far, merged with the chunks before.

Groups of neighbours are compared with the k-th by their largest element. Those that beat it are put
together, row by row, as many places for each row as the longest needs, and the kernel looks at
these only. Where that is no small part of the chunk, it looks at the k best groups of each row;
where a NaN is about, which compares with nothing, at all of the chunk.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, cast

import tensorflow as tf

from tf_exla.frontends.tf.emitter import Emitter
from tf_exla.ir.graph import Node
from tf_exla.model.top_k import by_groups, few_groups, running_size

Pair = tuple[tf.Tensor, tf.Tensor]


def emit_running_top_k(emitter: Emitter, node: Node) -> list[tf.Tensor]:
    """Emit a RunningTopK in the body of a loop; without chunks before, the chunk's own top k."""
    assert emitter.around is not None
    (x,) = emitter.values(node.inputs[:1])
    values, places = node.outputs
    offset = emitter.around.scalar(places.dtype, int(str(node.attrs["block"])))
    *batch, n = node.inputs[0].dims
    rows, k = math.prod(batch), values.dims[-1]
    known = [emitter.known(tensor) for tensor in node.inputs[1:]]
    with emitter.after_large() as ended:
        before = None
        if known[0] is not None and known[1] is not None:
            before = tf.reshape(known[0], [rows, k]), tf.reshape(known[1], [rows, k])
        made = RunningChunk(tf.reshape(x, [rows, n]), offset, k, before).merged()
        ended += [
            tf.reshape(tensor, whole.dims) for tensor, whole in zip(made, node.outputs, strict=True)
        ]
    return ended


def emit_chunk_top_k(emitter: Emitter, node: Node) -> list[tf.Tensor]:
    """Emit a TopKV2 of a chunk of its rows that is not the first."""
    x, _ = emitter.values(node.inputs)
    tops = node.outputs
    *batch, n = node.inputs[0].dims
    with emitter.after_large() as ended:
        made = chunk_top_k(tf.reshape(x, [math.prod(batch), n]), tops[0].dims[-1])
        ended += [
            tf.reshape(tf.cast(one, top.dtype), top.dims)
            for one, top in zip(made, tops, strict=True)
        ]
    return ended


def chunk_top_k(x: tf.Tensor, k: int) -> Pair:
    """Return the top k of x: [rows, n], with a NaN as the least number.

    A NaN compares with nothing. So it enters the kernel's heap among the first k of a row only: of
    the whole row, not of a chunk after the first. Such rows of a chunk are looked at once more, one
    by one, since a copy of x might not fit the limit.
    """
    values, places = tf.math.top_k(x, k)
    if not x.dtype.is_floating:
        return values, places
    blocked = tf.reduce_any(tf.math.is_nan(x[:, :k]), 1)

    def ranked(row: tf.Tensor, values: tf.Tensor, places: tf.Tensor) -> Any:
        one = tf.gather(x, row)
        least = tf.constant(-math.inf, x.dtype)
        _, chosen = tf.math.top_k(tf.where(tf.math.is_nan(one), least, one), k)
        at = tf.reshape(row, [1, 1])
        return (
            tf.tensor_scatter_nd_update(values, at, tf.gather(one, chosen)[None]),
            tf.tensor_scatter_nd_update(places, at, chosen[None]),
        )

    def again() -> Any:
        rows = tf.cast(tf.where(blocked)[:, 0], tf.int32)
        return tf.while_loop(
            lambda i, *_: i < tf.size(rows),
            lambda i, *pair: (i + 1, *ranked(rows[i], *pair)),
            (0, values, places),
            parallel_iterations=1,
        )[1:]

    return cast(Pair, tf.cond(tf.reduce_any(blocked), again, lambda: (values, places)))


class RunningChunk:
    """x: [rows, n], which begins at `offset`; `before`: values and places of the chunks before.

    Of equal elements the kernel takes those that come first: the chunks before this one.
    """

    def __init__(self, x: tf.Tensor, offset: tf.Tensor, k: int, before: Pair | None) -> None:
        self.x, self.offset, self.k, self.before = x, offset, k, before
        self.rows, self.n = x.shape
        self.size = running_size(self.n)  # of the groups, 0 for none

    def merged(self) -> Pair:
        """Return values and places after the chunk: [rows, k] each."""
        grouped = by_groups(self.n, self.k)
        if not self.size or (self.before is None and not grouped):
            return self._all_merged()
        groups = self._groups()
        largest = tf.reduce_max(groups, 2)
        many = partial(self._best_merged, groups, largest) if grouped else self._all_merged
        nan = self._has_nan(largest)
        if self.before is None:
            return cast(Pair, tf.cond(nan, self._all_merged, many))
        beats = largest > self.before[0][:, -1:]
        counts = tf.reduce_sum(tf.cast(beats, tf.int32), 1)
        beaten, most = tf.reduce_sum(tf.cast(counts > 0, tf.int32)), tf.reduce_max(counts)
        room = few_groups(self.rows, self.n, self.k)
        few = tf.cast(beaten, tf.int64) * tf.cast(most, tf.int64) <= room
        few_merged = partial(self._few_merged, self.before, groups, beats, counts, beaten, most)
        which = tf.where(nan, 2, tf.where(few, 0, 1))
        return cast(Pair, tf.switch_case(which, [few_merged, many, self._all_merged]))

    def _groups(self) -> tf.Tensor:
        """Return the elements as [rows, groups, size], the last group filled up with the least."""
        x = self.x
        if self.n % self.size:
            x = tf.pad(x, [[0, 0], [0, -self.n % self.size]], constant_values=self._least())
        return tf.reshape(x, [self.rows, -(-self.n // self.size), self.size])

    def _least(self) -> tf.Tensor:
        least = -math.inf if self.x.dtype.is_floating else self.x.dtype.min
        return tf.constant(least, self.x.dtype)

    def _has_nan(self, largest: tf.Tensor) -> tf.Tensor:
        if not self.x.dtype.is_floating:
            return tf.constant(False)
        found = tf.reduce_any(tf.math.is_nan(largest))
        return (
            found if self.before is None else found | tf.reduce_any(tf.math.is_nan(self.before[0]))
        )

    def _all_merged(self) -> Pair:
        """Merge the chunk's own top k, whatever it holds."""
        top = chunk_top_k if self.before else tf.math.top_k
        values, places = top(self.x, min(self.k, self.n))
        places = tf.cast(places, self.offset.dtype) + self.offset
        if self.before is None:
            return values, places
        values = tf.concat([self.before[0], values], 1)
        places = tf.concat([self.before[1], places], 1)
        values, chosen = tf.math.top_k(values, self.k)
        return values, tf.gather(places, chosen, batch_dims=1)

    def _best_merged(self, groups: tf.Tensor, largest: tf.Tensor) -> Pair:
        """Merge the groups with the k largest elements, in their order: see `expanding.py`."""
        best = tf.sort(tf.math.top_k(largest, self.k, sorted=False).indices, 1)
        elements = tf.gather(groups, best, batch_dims=1)
        return self._chosen(self.before, elements, best)

    def _few_merged(
        self,
        before: Pair,
        groups: tf.Tensor,
        beats: tf.Tensor,
        counts: tf.Tensor,
        beaten: tf.Tensor,
        most: tf.Tensor,
    ) -> Pair:
        """Merge the groups that beat the k-th: at most `most` in each of the `beaten` rows."""
        row, group = tf.unstack(tf.cast(tf.where(beats), tf.int32), axis=1)
        chosen = tf.cast(tf.where(counts > 0), tf.int32)  # [beaten, 1]
        # The place of a group: of its row among those chosen, and in it.
        nth = tf.cumsum(tf.cast(counts > 0, tf.int32)) - 1
        first = nth * most - tf.cumsum(counts, exclusive=True)
        place = (tf.range(tf.size(row)) + tf.gather(first, row))[:, None]
        empty = tf.fill([beaten * most, self.size], self._least())
        elements = tf.gather_nd(groups, tf.stack([row, group], 1))
        elements = tf.tensor_scatter_nd_update(empty, place, elements)
        elements = tf.reshape(elements, [beaten, most, self.size])
        of = tf.reshape(tf.scatter_nd(place, group, [beaten * most]), [beaten, most])
        values, places = before
        old = tf.gather_nd(values, chosen), tf.gather_nd(places, chosen)
        new_values, new_places = self._chosen(old, elements, of)
        return (
            tf.tensor_scatter_nd_update(values, chosen, new_values),
            tf.tensor_scatter_nd_update(places, chosen, new_places),
        )

    def _chosen(self, before: Pair | None, elements: tf.Tensor, of: tf.Tensor) -> Pair:
        """Merge elements, [rows, groups, size], of the groups `of`, with what was before."""
        rows, groups, _ = tf.unstack(tf.shape(elements))
        elements = tf.reshape(elements, [rows, groups * self.size])
        if before is not None:
            elements = tf.concat([before[0], elements], 1)
        values, at = tf.math.top_k(elements, self.k)
        new = at if before is None else tf.maximum(at - self.k, 0)
        group = tf.gather(of, new // self.size, batch_dims=1)
        places = tf.cast(group * self.size + new % self.size, self.offset.dtype) + self.offset
        if before is not None:
            old = tf.gather(before[1], tf.minimum(at, self.k - 1), batch_dims=1)
            places = tf.where(at < self.k, old, places)
        return values, places
