"""Records of ops on lists of tensors; the axes of a list are those of each of its tensors."""

from __future__ import annotations

from collections.abc import Mapping

from tf_exla.frontends.tf.ops import list_effects
from tf_exla.frontends.tf.ops.memory.call import Call, copy_of_everything, nothing, tensor_bytes
from tf_exla.frontends.tf.ops.record import Op, many
from tf_exla.ir.lists import ListEffect


def one_item(call: Call) -> int:
    """Count zeros for the places of a list that were not written (core/kernels/list_kernels.h)."""
    stacked = call.outputs[0]
    return tensor_bytes(stacked) // max(1, stacked.shape[0])


OPS: Mapping[str, Op] = {
    **many(Op(list_effect=list_effects.wrapped), "OptionalFromValue RaggedTensorToVariant"),
    "OptionalNone": Op(list_effect=ListEffect()),
    "EmptyTensorList": Op(list_effect=ListEffect(size=1)),
    **many(Op(list_effect=ListEffect()), "EmptyTensorMap TensorMapErase"),
    "OptionalGetValue": Op(list_effect=ListEffect(takes=True)),
    "TensorListConcatLists": Op(list_effect=ListEffect((1,), appends=True)),
    "TensorListFromTensor": Op(cpu=nothing, gpu=copy_of_everything,
                               list_effect=ListEffect((0,), rows=True)),
    "TensorListGetItem": Op(list_effect=ListEffect(takes=True)),
    "TensorListLength": Op("_ -> ", list_effect=ListEffect(counts=True)),
    "TensorListPopBack": Op(list_effect=ListEffect(takes=True)),
    "TensorListPushBack": Op(stores=1, list_effect=ListEffect((1,), appends=True)),
    "TensorListPushBackBatch": Op(list_effect=ListEffect((1,), rows=True, appends=True)),
    "TensorListReserve": Op(list_effect=ListEffect(size=1, reserves=True)),
    "TensorListResize": Op("..., _ -> ...", list_effect=ListEffect(size=1, reserves=True)),
    **many(Op(list_effect=ListEffect((0,), rows=True, resized=True)), """
        TensorListScatter TensorListScatterV2"""),
    "TensorListScatterIntoExistingList": Op(list_effect=ListEffect((1,), rows=True, resized=True)),
    "TensorListSetItem": Op(stores=2, list_effect=list_effects.set_item),
    "TensorListStack": Op(cpu=one_item, gpu=copy_of_everything),
    "TensorListSplit": Op(list_effect=ListEffect((0,), rows=True, pieces=True)),
    "TensorMapInsert": Op(list_effect=ListEffect((1, 2))),
}  # fmt: skip
