"""Emit a running top-k: the top k of previous chunks merged with elements of the current chunk.

Groups of neighbours are compared with the k-th value by their maxima. The groups that beat it are
packed row by row, padded to the longest row, and the kernel searches only these. If they are not a
small part of the chunk, it searches the k best groups of each row. If there is a NaN, which
compares with nothing, it searches the whole chunk.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, cast

import tensorflow as tf

from tf_exla.frontends.tf.restore.emitter import Emitter
from tf_exla.ir.graph import Node
from tf_exla.model.top_k import by_groups, few_groups, running_size

Pair = tuple[tf.Tensor, tf.Tensor]


def emit_running_top_k(emitter: Emitter, node: Node) -> list[tf.Tensor]:
    """Emit a `running_top_k` in the body of a loop; for the first chunk, its own top k."""
    assert emitter.around is not None
    (x,) = emitter.values(node.inputs[:1])
    values, places = node.outputs
    offset = emitter.around.scalar(places.dtype, int(str(node.attrs["block"])))
    *batch, n = node.inputs[0].dims
    rows, k = math.prod(batch), values.dims[-1]
    known = [emitter.known(tensor) for tensor in node.inputs[1:]]
    with emitter.order.around() as ended:
        before = None
        if known[0] is not None and known[1] is not None:
            before = tf.reshape(known[0], [rows, k]), tf.reshape(known[1], [rows, k])
        made = RunningChunk(tf.reshape(x, [rows, n]), offset, k, before).merged()
        ended += [
            tf.reshape(tensor, whole.dims) for tensor, whole in zip(made, node.outputs, strict=True)
        ]
    return ended


def emit_chunk_top_k(emitter: Emitter, node: Node) -> list[tf.Tensor]:
    """Emit a TopKV2 of a chunk of its rows other than the first."""
    x, _ = emitter.values(node.inputs)
    tops = node.outputs
    *batch, n = node.inputs[0].dims
    with emitter.order.around() as ended:
        best = chunk_top_k(tf.reshape(x, [math.prod(batch), n]), tops[0].dims[-1])
        made = [tf.cast(one, top.dtype) for one, top in zip(best, tops, strict=True)]
        if len(batch) != 1:  # a GPU reshapes int32 on the host
            made = [tf.reshape(one, top.dims) for one, top in zip(made, tops, strict=True)]
        ended += made
    return ended


def chunk_top_k(x: tf.Tensor, k: int) -> Pair:
    """Return the top k of x: [rows, n], with a NaN as the least number.

    A NaN compares with nothing, so it enters the kernel's heap only among the first k elements of a
    whole row. In a chunk after the first it must not enter. Rows of a chunk in which it would are
    searched again, one row at a time, since a copy of x might not fit the limit.
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
    """A chunk x: [rows, n] from `offset` on; `before`: values and positions of previous chunks.

    Of equal elements the kernel takes the first ones, which are those of previous chunks.
    """

    def __init__(self, x: tf.Tensor, offset: tf.Tensor, k: int, before: Pair | None) -> None:
        self.x, self.offset, self.k, self.before = x, offset, k, before
        self.rows, self.n = x.shape
        self.size = running_size(self.n)  # of a group; 0 for no groups

    def merged(self) -> Pair:
        """Return values and positions after merging the chunk: [rows, k] each."""
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
        """Return the elements as [rows, groups, size], padded with the least number."""
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
        """Merge the top k of the whole chunk, which may contain NaNs."""
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
        """Merge the k groups with the largest maxima, in their order: see `expanding.py`."""
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
        """Merge the groups that beat the k-th value.

        `before`: values and positions of previous chunks. `beats`: flags [rows, groups] of these
        groups. `counts`: their number in each row. `beaten`: the number of rows with any. `most`:
        the largest count.
        """
        row, group = tf.unstack(tf.cast(tf.where(beats), tf.int32), axis=1)
        chosen = tf.cast(tf.where(counts > 0), tf.int32)  # [beaten, 1]
        # The position of a group among the packed ones, of which each chosen row has `most`.
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
        """Merge elements [rows, groups, size] of the groups `of` with those of `before`."""
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
