"""Loops over chunks: the inputs of each chunk, and how the results of chunks are combined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tf_exla.frontends.numpy.kernels import array_dtype, top_k
from tf_exla.ir.graph import ARG_REDUCERS, COMBINING, Array, Combine, Graph, Loop, Tensor


class Chunks:
    """One run of a loop on `operands`."""

    def __init__(self, loop: Loop, operands: Sequence[Array]) -> None:
        self.loop = loop
        self.operands = operands
        self.parts: list[tuple[int, Sequence[Array]]] = []
        self.before = [_neutral(loop.outputs[k], loop.results[k].combine) for k in loop.folds]

    def starts(self, around: int) -> range:
        """Return the first index of each chunk.

        `around`: the first index of the enclosing loop's chunk, at which triangular loops end.
        """
        loop = self.loop
        if loop.span is not None:
            return range(loop.span.start, loop.span.stop, loop.chunk)
        return range(0, around if loop.triangular else loop.extent, loop.chunk)

    def body(self, start: int) -> Graph:
        """Return the body for the chunk at `start`."""
        loop = self.loop
        whole = loop.extent - start >= loop.chunk
        made = loop.body if whole else loop.remainder
        assert made is not None
        return made

    def inputs(self, start: int) -> list[Array]:
        """Return the inputs of the body for the chunk at `start`."""
        loop = self.loop
        size = min(loop.chunk, loop.extent - start)
        made = []
        for value, slot in zip(self.operands, loop.slots, strict=True):
            if slot is not None:
                index: list[Any] = [slice(None)] * value.ndim
                index[slot.axis] = slice(start * slot.block, (start + size) * slot.block)
                value = value[tuple(index)]
            made.append(value)
        return [*made, *self.before]

    def add(self, start: int, results: Sequence[Array]) -> None:
        """Add the results of the chunk at `start`."""
        self.parts.append((start, results))
        self.before = [results[k] for k in self.loop.folds]

    def results(self) -> list[Array]:
        """Return the loop's results."""
        loop = self.loop
        made: list[Array] = []
        for k, (result, whole) in enumerate(zip(loop.results, loop.outputs, strict=True)):
            pieces = [part[k] for _, part in self.parts]
            if result.accumulates_in_body:
                made.append(pieces[-1])
            elif result.slot is not None:
                made.append(self._joined(k, whole, result.slot.axis, result.slot.block))
            elif result.combine in ARG_REDUCERS:
                if not loop.holds_places(k):
                    made += self._pair(k)
            else:
                start = _neutral(whole, result.combine)
                for piece in pieces:
                    start = getattr(np, COMBINING[result.combine])(start, piece)
                made.append(start)
        return made

    def _joined(self, k: int, whole: Tensor, axis: int, block: int) -> Array:
        made = np.zeros(whole.dims, array_dtype(whole))
        for start, part in self.parts:
            index: list[Any] = [slice(None)] * made.ndim
            index[axis] = slice(start * block, start * block + part[k].shape[axis])
            made[tuple(index)] = part[k]
        return made

    def _pair(self, k: int) -> list[Array]:
        """Return the best values over all chunks and their positions; of equal values the first."""
        loop = self.loop
        combine, block = loop.results[k].combine, loop.results[k + 1].block
        values = [part[k] for _, part in self.parts]
        places = [np.add(part[k + 1], start * block) for start, part in self.parts]
        if combine == "top_k":
            best, order = top_k(np.concatenate(values, -1), loop.outputs[k].dims[-1])
            return [best, np.take_along_axis(np.concatenate(places, -1), order, -1)]
        stacked = np.stack(values)
        chosen = (np.argmax if combine == "argmax" else np.argmin)(stacked, 0)[None]
        return [np.take_along_axis(one, chosen, 0)[0] for one in (stacked, np.stack(places))]


def _neutral(tensor: Tensor, combine: Combine) -> Array:
    """Return the neutral element of a combiner; zeros for a top-k."""
    dtype = array_dtype(tensor)
    value: Any = {"and": True, "mul": 1}.get(combine, 0)
    if combine in ("max", "min"):
        least = combine == "max"
        if dtype.kind in "iu":
            value = np.iinfo(dtype).min if least else np.iinfo(dtype).max
        else:
            value = -np.inf if least else np.inf
    return np.full(tensor.dims, value, dtype)
