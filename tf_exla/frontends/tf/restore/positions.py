"""Reductions to values and their positions: those of a chunk, merged with the previous chunks'.

`max_with_position` and `min_with_position` are ops of tf_exla: Max and ArgMax, or Min and ArgMin,
of one operand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tf_exla.frontends.tf.nodes.emit import emit_const, is_large
from tf_exla.frontends.tf.restore.emitter import Emitter
from tf_exla.frontends.tf.restore.on_device import restored, unsigned
from tf_exla.frontends.tf.restore.whole_forms import ranked_by
from tf_exla.ir.graph import Node, Tensor


def merge_top_k(
    emitter: Emitter,
    tops: Sequence[Tensor],
    before: Sequence[tf.Tensor | None],
    part: Sequence[tf.Tensor],
    offset: tf.Tensor,
) -> list[tf.Tensor]:
    """Return values and positions after merging a chunk that begins at `offset`.

    `tops`: the loop's results. `before`: values and positions of the previous chunks, None for the
    first. Of equal values TopKV2 takes the first ones, which are those of previous chunks.
    """
    values, places = part
    rank, large = len(tops[0].dims), is_large(*tops)

    def op(name: str, operands: list[tf.Tensor], **attrs: Any) -> list[tf.Tensor]:
        return list(emitter.op(name, operands, attrs, large=large).outputs)

    places, offset, *known = (
        unsigned(emitter, one) for one in (places, offset, before[1]) if one is not None
    )
    (places,) = op("AddV2", [places, offset])
    if before[0] is not None:
        axis = emit_const(emitter.graph, np.asarray(rank - 1, np.int32))
        (values,) = op("ConcatV2", [before[0], values, axis])
        (places,) = op("ConcatV2", [*known, places, axis])
        k = emit_const(emitter.graph, np.asarray(tops[0].dims[-1], np.int32))
        ranked = ranked_by(emitter, values) if emitter.compiled else values
        best, chosen = op("TopKV2", [ranked, k], sorted=True, index_type="int32")
        if emitter.compiled:  # with the NaNs among them
            (best,) = op("GatherV2", [values, chosen, axis], batch_dims=rank - 1)
        values = best
        (places,) = op("GatherV2", [places, chosen, axis], batch_dims=rank - 1)
    places = restored(emitter, places, tops[1].dtype)
    for made, whole in zip((values, places), tops, strict=True):
        made.set_shape(whole.shape)
    return [values, places]


def merge_best(
    emitter: Emitter,
    tops: Sequence[Tensor],
    before: Sequence[tf.Tensor | None],
    part: Sequence[tf.Tensor],
    offset: tf.Tensor,
    largest: bool,
) -> list[tf.Tensor]:
    """Return the best value and its position after merging a chunk that begins at `offset`.

    Only a strictly better value replaces the previous one, so that of equal values the first stays.
    """
    large = is_large(*tops)
    operands = [unsigned(emitter, one) for one in (part[1], offset)]
    places = emitter.op("AddV2", operands, {}, large=large).outputs[0]
    places = restored(emitter, places, tops[1].dtype)
    compare = "Greater" if largest else "Less"
    better = emitter.op(compare, [part[0], before[0]], {}, large=large).outputs[0]
    made = []
    for new, old in ((part[0], before[0]), (places, before[1])):
        made += emitter.op("SelectV2", [better, new, old], {}, large=large).outputs
    for tensor, whole in zip(made, tops, strict=True):
        tensor.set_shape(whole.shape)
    return made


def emit_best(emitter: Emitter, node: Node) -> list[tf.Tensor]:
    """Emit Max and ArgMax (or Min and ArgMin) of one operand.

    NaNs are skipped, as in ArgMax.
    """
    inputs = emitter.values(node.inputs)
    x, axis = inputs
    values, places = node.outputs
    largest = node.op == "max_with_position"

    def op(name: str, operands: list[tf.Tensor], **attrs: Any) -> tf.Tensor:
        return emitter.op(name, operands, attrs, large=is_large(*node.inputs)).outputs[0]

    def without_nans(x: tf.Tensor) -> tf.Tensor:
        if not tf.as_dtype(values.dtype).is_floating:
            return x
        worst = np.asarray(-np.inf if largest else np.inf)
        other = op("NotEqual", [x, x])
        return op("SelectV2", [other, emit_const(emitter.graph, worst, values.dtype), x])

    position = op("ArgMax" if largest else "ArgMin", [x, axis], output_type=places.dtype)
    rank, along = len(node.inputs[0].dims), node.inputs[1].value
    if emitter.compiled or along is None or int(along) % rank != rank - 1:
        return [op("Max" if largest else "Min", [without_nans(x), axis]), position]
    # One element of each row instead of another pass. A row of NaNs has position 0.
    value = op("GatherV2", [x, position, axis], batch_dims=rank - 1)
    return [without_nans(value), position]
