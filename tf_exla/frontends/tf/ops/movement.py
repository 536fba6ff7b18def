"""Records of ops that move elements: reshape, transpose, slice, join, pad, repeat."""

from __future__ import annotations

from collections.abc import Mapping

from tf_exla.frontends.tf.ops.bounds import sizes, values
from tf_exla.frontends.tf.ops.memory import cpu
from tf_exla.frontends.tf.ops.record import Op, many, moved, view
from tf_exla.frontends.tf.ops.rules.moving import (
    reverse_flags,
    reverse_sequence,
    strided_slice_update,
    unpack,
)
from tf_exla.vocabulary import rebuild
from tf_exla.vocabulary.rules.builders import along, whole
from tf_exla.vocabulary.rules.movement import (
    concat,
    diagonal,
    fill,
    pack,
    reshape,
    resized_axes,
    same_axes,
    split,
    strided_slice,
    strided_slice_grad,
    tile,
    transpose,
)

OPS: Mapping[str, Op] = {
    "BroadcastTo": moved("..., = -> ...", cpu=cpu.broadcast_blocks, view="same", xla="well",
        size="not smaller", values=values.of_operand, shape_operand=1),
    "Concat": Op(concat(0), flops=0),
    "ConcatV2": moved(concat(-1), view="same", xla="well", size="not smaller",
        values=values.largest),
    "ConjugateTranspose": Op(transpose),
    **many(moved(whole), "Diag DiagPart"),
    "ExpandDims": view(same_axes, xla="well"),
    "Fill": moved(fill, xla="well", shape_operand=0),
    "MatrixBandPart": moved("... A B, _, _ -> ... A B", reuses=(0,), xla="well",
        size="not smaller"),
    "MatrixDiag": Op(diagonal("result"), flops=0, size="not smaller"),
    "MatrixDiagPart": Op(diagonal("operand"), flops=0),
    "MatrixDiagPartV2": Op(diagonal("operand", 3), flops=0),
    "MatrixDiagPartV3": moved(diagonal("operand", 3)),
    "MatrixDiagV2": Op(diagonal("result", 5), flops=0, size="not smaller"),
    "MatrixDiagV3": moved(diagonal("result", 5), size="not smaller"),
    "MatrixSetDiag": Op(diagonal("both", 2), flops=0, size="not smaller"),
    "MatrixSetDiagV2": Op(diagonal("both", 3), flops=0, size="not smaller"),
    "MatrixSetDiagV3": moved(diagonal("both", 3), reuses=(0,), size="not smaller"),
    "MirrorPad": moved(resized_axes("_"), shape_operand=1),
    "MirrorPadGrad": Op(resized_axes("_")),
    "Pack": moved(pack, view="same", xla="well", size="not smaller", values=values.largest),
    "Pad": moved(resized_axes("_"), view="same", xla="well", shape_operand=1),
    "PadV2": moved(resized_axes("_", ""), view="same", xla="well", shape_operand=1),
    "Reshape": view(reshape, xla="well", bounds=sizes.reshaped),
    "Reverse": Op(reverse_flags, flops=0),
    "ReverseSequence": Op(reverse_sequence, flops=0, size="not larger"),
    "ReverseV2": moved(along(1, keeps=True), view="same", xla="poorly", size="equal",
        values=values.of_operand),
    "Roll": moved(along(2, keeps=True, others=["_", "_"]), xla="poorly", size="not larger"),
    "Slice": moved(resized_axes("_", "="), view="part", xla="well", bounds=sizes.sliced,
        values=values.of_operand),
    "Split": moved(split(data_at=1, axis_at=0), view="part", xla="poorly"),
    "SplitV": moved(split(data_at=0, axis_at=2), view="part", xla="poorly"),
    "Squeeze": view(same_axes, xla="well", rebuild=rebuild.squeeze),
    "StridedSlice": moved(strided_slice, view="part", xla="well", bounds=sizes.strided,
        values=values.of_operand),
    "StridedSliceGrad": moved(strided_slice_grad, shape_operand=0),
    "TensorStridedSliceUpdate": moved(strided_slice_update, reuses=(0,)),
    "Tile": moved(tile, cpu=cpu.broadcast_blocks, view="same", xla="well", values=values.of_operand,
        shape_operand=1, rebuild=rebuild.tile),
    "Transpose": moved(transpose, view="same", xla="well", size="equal", values=values.of_operand),
    "Unpack": moved(unpack, view="part", xla="poorly"),
}  # fmt: skip
