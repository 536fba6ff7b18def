"""Records of ops on lists of tensors; the axes of a list are those of each of its tensors."""

from __future__ import annotations

from collections.abc import Mapping

from tf_exla.frontends.tf.ops import list_effects
from tf_exla.frontends.tf.ops.record import Op, many
from tf_exla.ir.lists import ListEffect
from tf_exla.vocabulary.rebuild import element_shape
from tf_exla.vocabulary.rules.builders import list_rule

OPS: Mapping[str, Op] = {
    **many(Op(list_effect=list_effects.wrapped), "OptionalFromValue RaggedTensorToVariant"),
    "OptionalNone": Op(list_effect=ListEffect()),
    "EmptyTensorList": Op(
        list_rule("_, _ -> ...", 0), list_effect=ListEffect(size=1), rebuild=element_shape(0)),
    **many(Op(list_effect=ListEffect()), "EmptyTensorMap TensorMapErase"),
    "OptionalGetValue": Op(list_effect=ListEffect(takes=True)),
    "TensorListConcatLists": Op(list_effect=ListEffect((1,), appends=True)),
    "TensorListFromTensor": Op(
        list_rule("T ..., _ -> ...", 1), list_effect=ListEffect((0,), rows=True),
        rebuild=element_shape(1)),
    "TensorListGetItem": Op(
        list_rule("..., _, _ -> ...", 2), list_effect=ListEffect(takes=True),
        rebuild=element_shape(2)),
    "TensorListLength": Op("_ -> ", list_effect=ListEffect(counts=True)),
    "TensorListPopBack": Op(
        list_rule("..., _ -> ..., ...", 1), list_effect=ListEffect(takes=True),
        rebuild=element_shape(1)),
    "TensorListPushBack": Op("..., ... -> ...", list_effect=ListEffect((1,), appends=True)),
    "TensorListPushBackBatch": Op(list_effect=ListEffect((1,), rows=True, appends=True)),
    "TensorListReserve": Op(
        list_rule("_, _ -> ...", 0), list_effect=ListEffect(size=1, reserves=True),
        rebuild=element_shape(0)),
    "TensorListResize": Op("..., _ -> ...", list_effect=ListEffect(size=1, reserves=True)),
    **many(Op(list_effect=ListEffect((0,), rows=True, resized=True)), """
        TensorListScatter TensorListScatterV2"""),
    "TensorListScatterIntoExistingList": Op(list_effect=ListEffect((1,), rows=True, resized=True)),
    "TensorListSetItem": Op("..., _, ... -> ...", list_effect=list_effects.set_item),
    "TensorListStack": Op(list_rule("..., _ -> T ...", 1), rebuild=element_shape(1)),
    "TensorListSplit": Op(list_effect=ListEffect((0,), rows=True, pieces=True)),
    "TensorMapInsert": Op(list_effect=ListEffect((1, 2))),
}  # fmt: skip
