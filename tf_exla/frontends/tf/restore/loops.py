"""Emit a `Loop`: a While over the full chunks, then the remainder once.

The chunk of a sliced input is cut right before its first use. A result is put into its accumulator
as soon as it is computed. Accumulators are loop variables: sums start from zeros, and concatenated
results are written in place (a TensorArray would hold them twice). A body whose result is
accumulated reads the accumulator and returns its new value.

Small sums of float32 are accumulated in float64. A kernel adds in a tree, so that its error hardly
grows with the number of elements. That of a running total would grow with the number of chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tf_exla.frontends.tf.nodes.emit import emit_const, is_large, placeholder
from tf_exla.frontends.tf.restore.chunk_start import Start, on_host
from tf_exla.frontends.tf.restore.emitter import Emitter
from tf_exla.frontends.tf.restore.on_device import movable, restored
from tf_exla.frontends.tf.restore.positions import merge_best, merge_top_k
from tf_exla.frontends.tf.restore.writing import Piece, read_part, write_part
from tf_exla.ir.graph import (
    ARG_REDUCERS,
    COMBINING,
    Array,
    Combine,
    Graph,
    Loop,
    Node,
    Tensor,
)
from tf_exla.model.float32_sums import is_small_float32_sum

_INT32_MAX = 2**31 - 1


def emit_loop(emitter: Emitter, loop: Loop, inputs: list[tf.Tensor]) -> list[tf.Tensor]:
    """Emit `loop` on `inputs` and return its outputs."""
    if loop.triangular:
        return _emit_before(emitter, loop, inputs)
    chunks = loop.full_chunks
    if loop.chunk == loop.extent and not loop.folds:
        with emitter.scope():
            return _Chunk(emitter, loop, loop.body, inputs, None, None).run()
    totals = _totals(loop)
    made: list[tf.Tensor | None] = [
        _accumulator(emitter, tensor, "add" if loop.holds_places(k) else result.combine)
        for k, (tensor, result) in enumerate(zip(totals, loop.results, strict=True))
    ]
    first = chunks.start
    if None in made:  # start from the first chunk's results and merge the others
        with emitter.scope():
            start = Start(emitter, _index_dtype(loop), fixed=first * loop.chunk)
            made = _Chunk(emitter, loop, loop.body, inputs, start, made).run()
        first += 1
    if chunks.stop > first:
        made = _emit_while(emitter, loop, inputs, (first, chunks.stop), made)
    if loop.runs_remainder:
        assert loop.remainder is not None
        with emitter.scope():
            start = Start(emitter, _index_dtype(loop), fixed=chunks.stop * loop.chunk)
            made = _Chunk(emitter, loop, loop.remainder, inputs, start, made).run()
    pairs = zip(made, loop.outputs, strict=True)
    return [_cast(emitter, one, tensor.dtype) for one, tensor in pairs]


def _totals(loop: Loop) -> list[Tensor]:
    """Return the tensors in which results are accumulated: small sums of float32 in float64."""
    return [
        Tensor(tensor.shape, "float64", f"{tensor.name}/total")
        if is_small_float32_sum(loop, k)
        else tensor
        for k, tensor in enumerate(loop.outputs)
    ]


def _cast(emitter: Emitter, value: tf.Tensor, dtype: str) -> tf.Tensor:
    if value.dtype.name == dtype:
        return value
    return emitter.op("Cast", [value], {"dtype": dtype}).outputs[0]


def _emit_before(emitter: Emitter, loop: Loop, inputs: list[tf.Tensor]) -> list[tf.Tensor]:
    """Emit a loop over the chunks before the current chunk of the enclosing loop."""
    made = [
        _accumulator(emitter, tensor, "add" if result.slot else result.combine)
        for tensor, result in zip(loop.outputs, loop.results, strict=True)
    ]
    around = emitter.around
    if around is None:
        return made
    if around.counter is None:
        return _emit_while(emitter, loop, inputs, (0, around.fixed // loop.chunk), made)
    return _emit_while(emitter, loop, inputs, (0, around.counter), made)


def _emit_while(
    emitter: Emitter,
    loop: Loop,
    inputs: list[tf.Tensor],
    chunks: tuple[int, Any],
    accumulators: Sequence[tf.Tensor],
) -> list[tf.Tensor]:
    index = _index_dtype(loop)
    first, last = chunks
    passed = [last] if isinstance(last, tf.Tensor) else []
    dtypes = [one.dtype.name for one in accumulators]
    held = [movable(emitter, one) for one in accumulators]
    initial = [emit_const(emitter.graph, first, index), *held, *inputs, *passed]
    cond, body = emitter.child("cond"), emitter.child("body")
    variables = [
        [placeholder(child.graph, t.dtype.name, t.shape, t) for t in initial]
        for child in (cond, body)
    ]
    limit = variables[0][-1] if passed else emit_const(cond.graph, last, index)
    more = cond.op("Less", [variables[0][0], limit], {}).outputs[0]
    i, rest = variables[1][0], variables[1][1:]
    count = len(accumulators)
    start = Start(body, index, counter=i, step=loop.chunk)
    operands = rest[count : count + len(inputs)]
    before = [restored(body, *one) for one in zip(rest[:count], dtypes, strict=True)]
    results = _Chunk(body, loop, loop.body, operands, start, before).run()
    combined = [movable(body, one) for one in results]
    after = body.op("AddV2", [i, emit_const(body.graph, 1, index)], on_host(index)).outputs[0]
    made = emitter.while_loop(
        initial,
        (cond, variables[0], [more]),
        (body, variables[1], [after, *combined, *rest[count:]]),
        [tensor.shape for tensor in initial],
        parallel=loop.parallel,
        stateful=False,
        large=True,
    )
    results = made[1 : 1 + count]
    return [restored(emitter, *one) for one in zip(results, dtypes, strict=True)]


def _accumulator(emitter: Emitter, tensor: Tensor, combine: Combine) -> tf.Tensor | None:
    """Create the first chunk's accumulator, or return None if no neutral element exists."""
    if combine == "top_k":
        return None
    shape = emit_const(emitter.graph, np.array(tensor.dims, np.int32))
    large = is_large(tensor)
    if combine == "concat":
        attrs: dict[str, Any] = {"dtype": tensor.dtype, "init": False}
        return emitter.op("Empty", [shape], attrs, large=large).outputs[0]
    value = emitter.anchor(_neutral(combine, tensor.dtype), tensor.dtype)
    made = emitter.op("Fill", [shape, value], {}, large=large).outputs[0]
    made.set_shape(tensor.shape)
    return made


def _neutral(combine: Combine, dtype: str) -> Array:
    kind = tf.as_dtype(dtype)
    value: Any
    if combine in ("max", "argmax", "min", "argmin"):
        largest = combine in ("max", "argmax")
        if kind.is_floating:
            value = -np.inf if largest else np.inf
        else:
            value = kind.min if largest else kind.max
    else:
        value = {"add": 0, "mul": 1, "and": True, "or": False}[combine]
    return np.asarray(value, kind.as_numpy_dtype)


class _Chunk:
    """One run of a loop's body on the chunk at `start`, into `accumulators`.

    Without `start` the chunk is the whole extent, and its results are the loop's.
    """

    def __init__(
        self,
        emitter: Emitter,
        loop: Loop,
        body: Graph,
        inputs: Sequence[tf.Tensor],
        start: Start | None,
        accumulators: Sequence[tf.Tensor | None] | None,
    ) -> None:
        self.emitter = emitter
        self.loop = loop
        self.body = body
        self.start = start
        self.results = list(accumulators) if accumulators is not None else []
        self.totals = _totals(loop)
        self.sliced: dict[Tensor, tuple[tf.Tensor, Piece]] = {}
        count = len(loop.inputs)
        whole = zip(loop.inputs, inputs, loop.slots, strict=True)
        for tensor, (of_loop, value, slot) in zip(body.inputs[:count], whole, strict=True):
            if slot is None or start is None:
                emitter.set(tensor, value)
                emitter.views.stand_in(tensor, of_loop)
            else:
                self.sliced[tensor] = (value, Piece(of_loop, tensor, slot))
        for tensor, position in zip(body.inputs[count:], loop.folds, strict=True):
            before = self.results[position]
            if before is not None:  # None for the first chunk of a running top-k
                emitter.set(tensor, before)

    def run(self) -> list[tf.Tensor]:
        """Emit the body and return the updated accumulators."""
        emitter, start = self.emitter, self.start
        outer = emitter.around, emitter.begins
        emitter.around = start
        if any(result.combine == "top_k" for result in self.loop.results):
            emitter.begins = start is None or (start.counter is None and not start.fixed)
        made = self._emit_nodes()
        emitter.around, emitter.begins = outer
        if self.start is None:  # a result that is a part of an operand would keep all of it
            return [emitter.owned(tensor) for tensor in self.body.outputs]
        for tensor in dict.fromkeys(self.body.outputs):
            if tensor not in made:
                self._slice([tensor])
                self._accumulate(tensor)
        return self.results

    def _emit_nodes(self) -> set[Tensor]:
        made = set()
        wanted = set(self.body.outputs) if self.start is not None else set()
        for node in self.body.nodes:
            self._slice(node.inputs)
            self.emitter.node(node)
            for tensor in node.outputs:
                if tensor in wanted:
                    self._accumulate(tensor)
                    made.add(tensor)
        return made

    def _slice(self, tensors: Sequence[Tensor]) -> None:
        for tensor in tensors:
            if tensor in self.sliced:
                assert self.start is not None
                value, piece = self.sliced.pop(tensor)
                part = read_part(self.emitter, self.start, value, piece)
                part.set_shape(tensor.shape)
                self.emitter.set(tensor, part)

    def _accumulate(self, tensor: Tensor) -> None:
        (part,) = self.emitter.values([tensor])
        for position, output in enumerate(self.body.outputs):
            if output is not tensor:
                continue
            result, whole = self.loop.results[position], self.totals[position]
            if result.combine in ARG_REDUCERS and not result.accumulates_in_body:
                self._merge_pair(position, result.combine)
                continue
            if result.accumulates_in_body:
                made = part
            elif result.slot is not None:
                assert self.start is not None
                before = self.results[position]
                piece = Piece(whole, tensor, result.slot)
                made = write_part(self.emitter, self.start, before, part, piece)
            else:
                part = _cast(self.emitter, part, whole.dtype)
                made = self._combined(
                    COMBINING[result.combine], self.results[position], part, whole
                )
            made.set_shape(whole.shape)
            self.results[position] = made

    def _combined(self, kind: str, before: Any, part: tf.Tensor, whole: Tensor) -> tf.Tensor:
        """Emit the op that combines the values of two chunks, in a cluster its form."""
        left, right, made = (whole.fresh_copy() for _ in range(3))
        self.emitter.set(left, before)
        self.emitter.set(right, part)
        self.emitter.node(Node(kind, (left, right), (made,)))
        return self.emitter.values([made])[0]

    def _merge_pair(self, position: int, combine: Combine) -> None:
        """Merge the chunk's values and their positions, once both are emitted."""
        if not self.loop.holds_places(position):
            return
        assert self.start is not None
        pair = slice(position - 1, position + 1)
        tops = self.loop.outputs[pair]
        offset = self.start.scalar(tops[1].dtype, self.loop.results[position].block)
        part = self.emitter.values(self.body.outputs[pair])
        operands = self.emitter, tops, self.results[pair], part, offset
        if combine == "top_k":
            self.results[pair] = merge_top_k(*operands)
        else:
            self.results[pair] = merge_best(*operands, largest=combine == "argmax")


def _index_dtype(loop: Loop) -> str:
    """Return int32 if it holds every position, since a GPU keeps int32 on the host; else int64."""
    sizes = [
        size
        for tensors in (loop.inputs, loop.outputs)
        for tensor in tensors
        if tensor.is_static
        for size in tensor.dims
    ]
    return "int64" if max(sizes, default=0) > _INT32_MAX else "int32"
