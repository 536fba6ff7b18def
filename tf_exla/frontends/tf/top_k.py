"""Merge the largest values of a chunk with those of the chunks before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tf_exla.frontends.tf.emit import emit_const
from tf_exla.frontends.tf.emitter import Emitter, is_large
from tf_exla.graph import Tensor


def merge_top_k(
    emitter: Emitter,
    tops: Sequence[Tensor],
    before: Sequence[tf.Tensor | None],
    part: Sequence[tf.Tensor],
    offset: tf.Tensor,
) -> list[tf.Tensor]:
    """Return values and positions after a chunk that begins at `offset`.

    `tops`: the loop's results. `before`: what the chunks before left; None for the first one. Of
    equal values TopKV2 takes those that come first: the chunks before this one.
    """
    values, places = part
    kind, index = (tensor.dtype for tensor in tops)
    rank, large = len(tops[0].dims), is_large(*tops)

    def op(name: str, operands: list[tf.Tensor], attrs: dict[str, Any]) -> list[tf.Tensor]:
        return list(emitter.op(name, operands, attrs, large=large).outputs)

    (places,) = op("AddV2", [places, offset], {"T": index})
    if before[0] is not None:
        axis = emit_const(emitter.graph, np.asarray(rank - 1, np.int32))
        attrs: dict[str, Any] = {"N": 2, "Tidx": "int32"}
        (values,) = op("ConcatV2", [before[0], values, axis], {**attrs, "T": kind})
        (places,) = op("ConcatV2", [before[1], places, axis], {**attrs, "T": index})
        k = emit_const(emitter.graph, np.asarray(tops[0].dims[-1], np.int32))
        attrs = {"sorted": True, "T": kind, "Tk": "int32", "index_type": "int32"}
        values, chosen = op("TopKV2", [values, k], attrs)
        attrs = {"batch_dims": rank - 1, "Tparams": index, "Tindices": "int32", "Taxis": "int32"}
        (places,) = op("GatherV2", [places, chosen, axis], attrs)
    for made, whole in zip((values, places), tops, strict=True):
        made.set_shape(whole.shape)
    return [values, places]
