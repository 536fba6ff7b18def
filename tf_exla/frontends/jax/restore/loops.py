"""Emission of a `Loop`: a `lax.while_loop` over the full chunks, then the remainder once.

Accumulators are loop variables, which XLA updates in place. Sums start from zeros; chunks of
concatenated results are written at their positions. A body with an accumulated result reads the
accumulator and returns the new one.

Small sums of float32 are accumulated with the digits that each addition loses: the error is that of
one rounding, however many chunks there are. Knuth, "The Art of Computer Programming" 2, 4.2.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from tf_exla.frontends.jax.restore.emit import array_dtype, greatest, least
from tf_exla.frontends.jax.restore.positions import merge_best, merge_top_k
from tf_exla.frontends.jax.restore.scope import Scope, Start
from tf_exla.ir.graph import ARG_REDUCERS, COMBINING, Combine, Graph, Loop, Tensor
from tf_exla.model.float32_sums import is_small_float32_sum

X = Any  # an array


class Precise(NamedTuple):
    """A sum as `total` + `lost`, where `lost` is the sum of what additions to `total` lost."""

    total: X
    lost: X

    def plus(self, part: X) -> Precise:
        """Return the sum with another summand."""
        total = self.total + part
        added = total - self.total
        lost = (self.total - (total - added)) + (part - added)
        return Precise(total, self.lost + lost)

    def rounded(self) -> X:
        """Return the sum; without the lost digits where it is infinite or NaN."""
        return jnp.where(jnp.isfinite(self.lost), self.total + self.lost, self.total)


Run = Callable[[Graph, Sequence[X], Scope], list[X]]

_INT32_MAX = 2**31 - 1


def emit_loop(loop: Loop, inputs: Sequence[X], scope: Scope, run: Run) -> list[X]:
    """Return the results of a loop; `run` emits a body."""
    full = loop.extent // loop.chunk
    if full == 1 and loop.remainder is None and not (loop.folds or loop.triangular):
        return scope.held_back(lambda: run(loop.body, inputs, Scope(first=scope.first)))
    index = _index_dtype(loop)
    accumulators = _accumulators(loop, scope)
    if loop.triangular:
        around = scope.around
        last = 0 if around is None else around.number
        return _while(loop, inputs, accumulators, scope, (0, last), run)
    first = 0
    if any(one is None for one in accumulators):  # start them with the results of the first chunk
        empty, start = accumulators, Start(jnp.zeros((), index), loop.chunk)
        parts = scope.held_back(lambda: _parts(loop, loop.body, inputs, empty, start, True, run))
        accumulators = _combined(loop, empty, parts, start)
        first = 1
    made = _while(loop, inputs, accumulators, scope, (first, full), run)
    if loop.remainder is not None:
        rest, before, last = loop.remainder, made, Start(jnp.asarray(full, index), loop.chunk)
        # XLA copies a result of a choice, so only the chunk's part of it is computed inside.
        parts = scope.held_back(lambda: _parts(loop, rest, inputs, before, last, False, run))
        made = _combined(loop, before, parts, last)
    return [one.rounded() if isinstance(one, Precise) else one for one in made]


def _while(
    loop: Loop,
    inputs: Sequence[X],
    accumulators: list[X],
    scope: Scope,
    numbers: tuple[int, X],
    run: Run,
) -> list[X]:
    """Run the body for the chunks from `first` up to, not including, `last`; set the token."""
    first, last = numbers
    if isinstance(last, int) and last <= first:
        return accumulators
    counter = scope.after(first, _index_dtype(loop))

    def body(state: tuple[X, list[X]]) -> tuple[X, list[X]]:
        number, before = state
        start = Start(number, loop.chunk)
        parts = _parts(loop, loop.body, inputs, before, start, False, run)
        return number + 1, _combined(loop, before, parts, start)

    final, made = lax.while_loop(lambda state: state[0] < last, body, (counter, accumulators))
    scope.token = final - last
    return made


def _accumulators(loop: Loop, scope: Scope) -> list[X]:
    """Return the initial accumulators; None where there is no neutral element."""
    return [
        None
        if result.combine == "top_k"
        else Precise(jnp.zeros(tensor.dims, jnp.float32), jnp.zeros(tensor.dims, jnp.float32))
        if is_small_float32_sum(loop, k)
        else scope.buffer(tensor.dims, array_dtype(tensor))
        if result.slot is not None and loop.span is None and not loop.triangular
        else _neutral(tensor, result.combine, loop.holds_places(k))
        for k, (tensor, result) in enumerate(zip(loop.outputs, loop.results, strict=True))
    ]


def _neutral(tensor: Tensor, combine: Combine, place: bool) -> X:
    dtype = array_dtype(tensor)
    value: Any = {"and": True, "mul": 1}.get(combine, 0)
    if combine in ("max", "argmax", "min", "argmin") and not place:
        value = least(dtype) if combine in ("max", "argmax") else greatest(dtype)
    return jnp.full(tensor.dims, value, dtype)


# Many parameters: what differs between whole chunks and the remainder.
def _parts(
    loop: Loop,
    body: Graph,
    inputs: Sequence[X],
    before: Sequence[X | None],
    start: Start,
    first: bool,
    run: Run,
) -> list[X]:
    """Run a body on the chunk at `start`; return its results.

    `before`: the accumulators. `first`: this is the first chunk, with which those start that are
    None.
    """
    given = [
        value if slot is None else start.cut(value, slot, tensor.dims[slot.axis])
        for value, slot, tensor in zip(inputs, loop.slots, body.inputs, strict=False)
    ]
    for k, tensor in zip(loop.folds, body.inputs[len(inputs) :], strict=True):
        one = before[k]
        given.append(jnp.zeros(tensor.dims, array_dtype(tensor)) if one is None else one)
    return run(body, given, Scope(start, first, repeated=loop.bitwise_group is not None))


def _combined(loop: Loop, before: Sequence[X | None], parts: Sequence[X], start: Start) -> list[X]:
    """Return the accumulators after the chunk at `start`, whose results are `parts`."""
    made: list[X] = []
    for k, (result, old, part) in enumerate(zip(loop.results, before, parts, strict=True)):
        if result.accumulates_in_body:
            made.append(part)
        elif result.slot is not None:
            made.append(start.put(old, part, result.slot))
        elif isinstance(old, Precise):
            made.append(old.plus(_one_reader(part)))
        elif result.combine not in ARG_REDUCERS:
            made.append(getattr(jnp, COMBINING[result.combine])(old, part))
        elif loop.holds_places(k):
            offset = start.at(result.block).astype(part.dtype)
            new = (parts[k - 1], part + offset)
            pair = slice(k - 1, k + 1)
            if result.combine == "top_k":
                made += merge_top_k(before[pair], new, loop.outputs[k].dims[-1])
            else:
                made += merge_best(before[pair], new, largest=result.combine == "argmax")
    return made


def _one_reader(part: X) -> X:
    """Return a number that is the only reader of `part`, which XLA then fuses into the reader.

    XLA's code for a CPU computes a sum of which there are several readers on its own, and so stores
    all of the summands: measured, 12 % more memory.
    """
    return lax.optimization_barrier(lax.reduce_precision(part, 8, 23))  # all bits of float32


def _index_dtype(loop: Loop) -> Any:
    sizes = [size for tensor in (*loop.inputs, *loop.outputs) for size in tensor.dims]
    return np.dtype(np.int64 if max(sizes, default=0) > _INT32_MAX else np.int32)
