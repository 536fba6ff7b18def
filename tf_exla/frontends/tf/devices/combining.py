"""Combine the results of shards on the driver.

Sums are added in pairs, in an order that does not depend on which shards finish first:
(0 + 1) + (2 + 3). So the numbers depend only on the number of shards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from tf_exla.frontends.tf.devices.data import ShardedTensor, sharded
from tf_exla.ir.graph import ARG_REDUCERS, Combine
from tf_exla.shard.plan import PlannedLoop

_TWO: Mapping[Combine, Callable[[Any, Any], Any]] = {
    "add": tf.add,
    "and": tf.logical_and,
    "max": tf.maximum,
    "min": tf.minimum,
    "mul": tf.multiply,
    "or": tf.logical_or,
}


class Combiner:
    """Combiner of the results of a loop's shards, which may arrive in any order."""

    def __init__(self, part: PlannedLoop) -> None:
        self.loop = part.loop
        self.offsets = part.offsets
        self.kept = part.kept
        self.count = len(part.shards)
        # Partial results, by their first shard and their number of shards.
        self._partial: dict[tuple[int, int], list[Any]] = {}
        self._whole: dict[int, Sequence[tf.Tensor]] = {}

    def take(self, number: int, results: Sequence[tf.Tensor]) -> None:
        """Add the results of shard `number`."""
        loop = self.loop
        pairwise = [k for k, result in enumerate(loop.results) if result.combine in _TWO]
        self._whole[number] = [
            None if k in pairwise else tensor for k, tensor in enumerate(results)
        ]
        self._add(number, 1, [results[k] for k in pairwise])

    def _add(self, first: int, size: int, values: list[Any]) -> None:
        """Combine a partial result with its neighbour, then both with their neighbour, and so on.

        If a neighbour has not arrived yet, the partial result is kept for it. `first`, `size`: the
        first shard and the number of shards of the partial result.
        """
        combines = [result.combine for result in self.loop.results if result.combine in _TWO]
        while size < self.count:
            other = first ^ size
            if other >= self.count:  # there is no neighbour of this size
                size *= 2
                continue
            found = self._partial.pop((other, size), None)
            if found is None:
                self._partial[first, size] = values
                return
            left, right = (values, found) if first < other else (found, values)
            values = [_TWO[c](a, b) for c, a, b in zip(combines, left, right, strict=True)]
            first, size = min(first, other), 2 * size
        self._partial[0, 0] = values

    def results(self) -> list[tf.Tensor | ShardedTensor]:
        """Return the loop's results, once all shards have arrived."""
        pairwise = iter(self._partial.pop((0, 0)))
        made: list[tf.Tensor | ShardedTensor] = []
        for k, result in enumerate(self.loop.results):
            if result.combine in _TWO:
                made.append(next(pairwise))
            elif self.loop.outputs[k] in self.kept:
                made.append(sharded(self._column(k)))
            elif result.slot is not None:
                made.append(tf.concat(self._column(k), result.slot.axis))
            elif result.combine in ARG_REDUCERS and len(made) == k:
                made += self._pair(k)
        return made

    def _column(self, k: int) -> list[tf.Tensor]:
        return [self._whole[number][k] for number in range(self.count)]

    def _pair(self, k: int) -> list[tf.Tensor]:
        """Return the best values and their positions; of equal values the first."""
        loop = self.loop
        combine, block = loop.results[k].combine, loop.results[k + 1].block
        if combine == "top_k":
            values = tf.concat(self._column(k), -1)
            places = [self._places(k + 1, number, block) for number in range(self.count)]
            best, order = tf.math.top_k(values, loop.outputs[k].dims[-1])
            rank = best.shape.rank - 1
            return [best, tf.gather(tf.concat(places, -1), order, batch_dims=rank)]
        better = tf.greater if combine == "argmax" else tf.less
        best, place = self._whole[0][k], self._places(k + 1, 0, block)
        for number in range(1, self.count):
            # One shard at a time: positions of all of them would take as much memory again.
            value, other = self._whole[number][k], self._places(k + 1, number, block)
            wins = better(value, best)
            best, place = tf.where(wins, value, best), tf.where(wins, other, place)
        return [best, place]

    def _places(self, k: int, number: int, block: int) -> tf.Tensor:
        """Return the positions that a shard found, along the whole axis."""
        found = self._whole[number][k]
        return found + tf.constant(self.offsets[number] * block, found.dtype)
