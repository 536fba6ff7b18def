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
from tf_exla.vocabulary.rules.builders import whole
from tf_exla.vocabulary.rules.movement import (
    concat,
    diagonal,
    resized_axes,
    split,
    transpose,
)

OPS: Mapping[str, Op] = {
    "BroadcastTo": moved(cpu=cpu.broadcast_blocks, view="same", xla="well",
        size="not smaller", values=values.of_operand, shape_operand=1),
    "Concat": Op(concat(0), flops=0),
    "ConcatV2": moved(view="same", xla="well", size="not smaller",
        values=values.largest),
    "ConjugateTranspose": Op(transpose),
    **many(moved(whole), "Diag DiagPart"),
    "ExpandDims": view(xla="well"),
    "Fill": moved(xla="well", shape_operand=0),
    "MatrixBandPart": moved(reuses=(0,), xla="well",
        size="not smaller"),
    "MatrixDiag": Op(diagonal("result"), flops=0, size="not smaller"),
    "MatrixDiagPart": Op(diagonal("operand"), flops=0),
    "MatrixDiagPartV2": Op(diagonal("operand", 3), flops=0),
    "MatrixDiagPartV3": moved(),
    "MatrixDiagV2": Op(diagonal("result", 5), flops=0, size="not smaller"),
    "MatrixDiagV3": moved(size="not smaller"),
    "MatrixSetDiag": Op(diagonal("both", 2), flops=0, size="not smaller"),
    "MatrixSetDiagV2": Op(diagonal("both", 3), flops=0, size="not smaller"),
    "MatrixSetDiagV3": moved(reuses=(0,), size="not smaller"),
    "MirrorPad": moved(shape_operand=1),
    "MirrorPadGrad": Op(resized_axes("_")),
    "Pack": moved(view="same", xla="well", size="not smaller", values=values.largest),
    "Pad": moved(view="same", xla="well", shape_operand=1),
    "PadV2": moved(view="same", xla="well", shape_operand=1),
    "Reshape": view(xla="well", bounds=sizes.reshaped),
    "Reverse": Op(reverse_flags, flops=0),
    "ReverseSequence": Op(reverse_sequence, flops=0, size="not larger"),
    "ReverseV2": moved(view="same", xla="poorly", size="equal",
        values=values.of_operand),
    "Roll": moved(xla="poorly", size="not larger"),
    "Slice": moved(view="part", xla="well", bounds=sizes.sliced,
        values=values.of_operand),
    "Split": moved(view="part", xla="poorly", values=values.sections),
    "SplitV": moved(split(data_at=0, axis_at=2), view="part", xla="poorly", bounds=sizes.parted,
        values=values.sections),
    "Squeeze": view(xla="well"),
    "StridedSlice": moved(view="part", xla="well", bounds=sizes.strided,
        values=values.of_operand),
    "StridedSliceGrad": moved(shape_operand=0),
    "TensorStridedSliceUpdate": moved(strided_slice_update, reuses=(0,),
        rebuild=rebuild.strided_slice),
    "Tile": moved(cpu=cpu.broadcast_blocks, view="same", xla="well", values=values.of_operand,
        shape_operand=1),
    "Transpose": moved(view="same", xla="well", size="equal", values=values.of_operand),
    "Unpack": moved(unpack, view="part", xla="poorly", values=values.parts),
}  # fmt: skip
