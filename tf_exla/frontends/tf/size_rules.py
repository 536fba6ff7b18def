"""Upper bounds of results whose sizes depend on data: from those of the operands.

Most ops decide the shape of their results by the shapes of their operands, and larger operands make
larger results: TensorFlow's own shape inference, on operands of the largest sizes, tells the
bounds. Those that look at the data have a rule here, and those that cut their operand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

from tf_exla.bounds import HANDLES, Most, largest
from tf_exla.frontends.tf.attrs import shape_of
from tf_exla.frontends.tf.emit import DEVICE, emit, emit_const, new_graph, placeholder
from tf_exla.frontends.tf.kernel_memory import ALIASES, ELEMENTWISE
from tf_exla.frontends.tf.rule_builders import words
from tf_exla.frontends.tf.value_rules import largest_value, value_bounds
from tf_exla.graph import Array, Node, Shape, Tensor

Rule = Callable[[Node, Sequence[Most]], Sequence[Most]]


def size_bounds(node: Node, operands: Sequence[Most]) -> list[Most]:
    """Return upper bounds of the sizes of a node's results, and of their integers."""
    rule = _RULES.get(node.op)
    made = list(rule(node, operands)) if rule is not None else _inferred(node, operands)
    values = value_bounds(node, operands)
    return [
        Most(one.dims, one.size, value or one.value)
        for one, value in zip(made, values, strict=True)
    ]


# Sizes.


def _inferred(node: Node, operands: Sequence[Most]) -> list[Most]:
    """Infer the shapes of the results from the largest operands."""
    if all(tensor.is_static or tensor.dtype in HANDLES for tensor in node.outputs):
        return [Most(tensor.shape, tensor.size) for tensor in node.outputs]
    if node.subgraphs:
        return [Most() for _ in node.outputs]
    graph = new_graph("bounds")
    symbols = []
    known = {key: value for key, value in node.attrs.items() if key != DEVICE}
    try:
        for position, (tensor, most) in enumerate(zip(node.inputs, operands, strict=True)):
            value = _shape_value(node, position, tensor, most)
            if value is not None:
                symbols.append(emit_const(graph, value, tensor.dtype))
            else:
                shape = most.within(tensor.shape).dims
                symbols.append(placeholder(graph, tensor.dtype, shape))
        shapes: list[Shape | None] = [
            shape_of(made.shape) for made in emit(graph, node.op, symbols, known).outputs
        ]
    except (ValueError, TypeError, tf.errors.OpError):
        # The largest sizes of operands that fit each other may not.
        shapes = [tensor.shape for tensor in node.outputs]
    made = [Most(shape).within(tensor.shape) for shape, tensor in
            zip(shapes, node.outputs, strict=True)]  # fmt: skip
    if node.op in _NOT_LARGER:
        size = largest(operands[:1])
    elif node.op in _BROADCASTS:
        made = [_broadcast(node, operands, one) for one in made]
        size = None
    else:
        return made
    return [one if size is None else _smaller(one, size).within(tensor.shape) for one, tensor in
            zip(made, node.outputs, strict=True)]  # fmt: skip


def _smaller(most: Most, size: int) -> Most:
    return Most(most.dims, size if most.size is None else min(size, most.size), most.value)


# Results that have at most as many elements as the first operand, whatever their shapes.
_NOT_LARGER = frozenset(
    ALIASES
    | set(words("""
    All Any ArgMax ArgMin Max Mean Min Prod ReverseV2 Sum Transpose ReverseSequence Roll
    SparseReduceSum InvertPermutation Cumsum Cumprod Softmax LogSoftmax ZerosLike OnesLike
    """))
)  # fmt: skip
_BROADCASTS = frozenset(ELEMENTWISE) | {"SelectV2", "Select", "Cast", "ClipByValue", "AddN"}

# Results that no operand has more elements than: what reads an operand bounds it as well.
NOT_SMALLER = (
    _BROADCASTS
    | (ALIASES - {"ReadVariableOp"})
    | set(words("""
    BatchMatrixBandPart BatchMatrixDiag BroadcastTo Cholesky ConcatV2 MatrixBandPart MatrixDiag
    MatrixDiagV2 MatrixDiagV3 MatrixInverse MatrixSetDiag MatrixSetDiagV2 MatrixSetDiagV3 Pack
    ReverseV2 Transpose
    """))
)  # fmt: skip

# Operands whose larger integers make larger results.
_SHAPE_OPERANDS: Mapping[str, tuple[int, ...]] = {
    "BroadcastTo": (1,),
    "Conv2DBackpropFilter": (1,),
    "Conv2DBackpropInput": (0,),
    "Conv3DBackpropFilterV2": (1,),
    "Conv3DBackpropInputV2": (0,),
    "DepthwiseConv2dNativeBackpropFilter": (1,),
    "DepthwiseConv2dNativeBackpropInput": (0,),
    "Empty": (0,),
    "Fill": (0,),
    "LinSpace": (2,),
    "MirrorPad": (1,),
    "OneHot": (1,),
    "Pad": (1,),
    "PadV2": (1,),
    "ParameterizedTruncatedNormal": (0,),
    "RandomStandardNormal": (0,),
    "RandomUniform": (0,),
    "RandomUniformInt": (0,),
    "ScatterNd": (2,),
    "SparseToDense": (1,),
    "StatelessRandomNormalV2": (0,),
    "StatelessRandomUniformFullIntV2": (0,),
    "StatelessRandomUniformIntV2": (0,),
    "StatelessRandomUniformV2": (0,),
    "StatelessTruncatedNormalV2": (0,),
    "StridedSliceGrad": (0,),
    "Tile": (1,),
    "TopKV2": (1,),
    "TruncatedNormal": (0,),
    "UnsortedSegmentMax": (2,),
    "UnsortedSegmentMin": (2,),
    "UnsortedSegmentProd": (2,),
    "UnsortedSegmentSum": (2,),
    **dict.fromkeys(words("IRFFT IRFFT2D IRFFT3D RFFT RFFT2D RFFT3D"), (1,)),
}


def _shape_value(node: Node, position: int, tensor: Tensor, most: Most) -> Array | None:
    """Return what a shape operand is at most; its value where it is static."""
    if tensor.value is not None:
        return tensor.value
    if position not in _SHAPE_OPERANDS.get(node.op, ()) or most.value is None:
        return None
    return largest_value(tensor, most)


def _broadcast(node: Node, operands: Sequence[Most], made: Most) -> Most:
    """Return the larger of the sizes of each axis; of unknown axes, the product of the sizes."""
    pairs = dict(zip(node.inputs, operands, strict=True))
    ranks = [None if one.dims is None else len(one.dims) for one in pairs.values()]
    if None in ranks:
        sizes = [one.size for one in pairs.values()]
        if None in sizes:
            return made
        # A vector beside a column makes a matrix.
        return _smaller(made, math.prod(one for one in sizes if one is not None))
    rank = max((one for one in ranks if one is not None), default=0)
    dims: list[int | None] = []
    for axis in range(-rank, 0):
        sizes = [one.dims[axis] for one in pairs.values() if one.dims and len(one.dims) >= -axis]
        bounded = [one for one in sizes if one is not None]
        dims.append(max(bounded, default=1) if len(bounded) == len(sizes) else None)
    counts = [one.size for one in pairs.values() if one.size != 1]
    return Most(tuple(dims), counts[0] if len(counts) == 1 else None)


def _where(node: Node, operands: Sequence[Most]) -> Sequence[Most]:
    x = operands[0]
    rank = None if x.dims is None else len(x.dims)
    sizes = None if x.dims is None or None in x.dims else [one for one in x.dims if one is not None]
    value = None if sizes is None else (max([*sizes, 1]) - 1,)
    return [Most((x.size, rank), value=value)]


def _unique(node: Node, operands: Sequence[Most]) -> Sequence[Most]:
    x = operands[0]
    places = None if x.size is None else (max(0, x.size - 1),)
    along = Most((x.size,), value=places)
    first = Most((x.size,)) if node.op in ("Unique", "UniqueWithCounts") else x
    count = Most((x.size,), value=None if x.size is None else (x.size,))
    return [Most(first.dims, x.size, None if x.top is None else (x.top,)), along, count][
        : len(node.outputs)
    ]


def _partitioned(node: Node, operands: Sequence[Most]) -> Sequence[Most]:
    data, partitions = operands
    value = None if data.top is None else (data.top,)
    if data.dims is None or partitions.dims is None:
        return [Most(None, data.size, value) for _ in node.outputs]
    rest = data.dims[len(partitions.dims) :]
    return [Most((partitions.size, *rest), value=value) for _ in node.outputs]


def _stitched(node: Node, operands: Sequence[Most]) -> Sequence[Most]:
    half = len(operands) // 2
    indices, data = operands[:half], operands[half:]
    tops = [one.top for one in indices]
    first, where = data[0], indices[0]
    if None in tops or first.dims is None or where.dims is None:
        return [Most()]
    rows = max((one for one in tops if one is not None), default=0) + 1
    values = [one.top for one in data]
    value = None if None in values else (max(one for one in values if one is not None),)
    return [Most((rows, *first.dims[len(where.dims) :]), value=value)]


def _segments(ids: int) -> Rule:
    """Return as many rows as the largest id says."""

    def rule(node: Node, operands: Sequence[Most]) -> Sequence[Most]:
        data, top = operands[0], operands[ids].top
        if data.dims is None or top is None:
            return [Most()]
        return [Most((top + 1, *data.dims[1:]))]

    return rule


def _rows_of(position: int) -> Rule:
    """Return at most as many rows as an operand has, in each result."""

    def rule(node: Node, operands: Sequence[Most]) -> Sequence[Most]:
        dims = operands[position].dims
        rows = dims[0] if dims else None
        return [_with_rows(tensor, rows) for tensor in node.outputs]

    return rule


def _with_rows(tensor: Tensor, rows: int | None) -> Most:
    return Most((rows, *tensor.shape[1:]) if tensor.shape else None)


def _rows_of_both(left: int, right: int) -> Rule:
    def rule(node: Node, operands: Sequence[Most]) -> Sequence[Most]:
        first, second = operands[left].dims, operands[right].dims
        known = first and second and first[0] is not None and second[0] is not None
        rows = (first[0] or 0) + (second[0] or 0) if known and first and second else None
        return [_with_rows(tensor, rows) for tensor in node.outputs]

    return rule


def _filled_rows(node: Node, operands: Sequence[Most]) -> Sequence[Most]:
    """Each row that has no entry gets one."""
    indices, shape = operands[0].dims, operands[2].value
    rows = None
    if indices and indices[0] is not None and shape:
        rows = indices[0] + shape[0]
    top = operands[0].top
    value = None if top is None or not shape else (max(top, *shape),)
    first, *others = (_with_rows(tensor, rows) for tensor in node.outputs)
    made = [Most(first.dims, value=value), *others]
    return [Most(t.shape, t.size) if t.is_static else one for t, one in
            zip(node.outputs, made, strict=True)]  # fmt: skip


def _ranged(node: Node, operands: Sequence[Most]) -> Sequence[Most]:
    start, _, delta = (tensor.value for tensor in node.inputs)
    top = operands[1].top
    if start is None or delta is None or top is None or float(delta) <= 0:
        return _inferred(node, operands)
    count = max(0, math.ceil((top - float(start)) / float(delta)))
    return [Most((count,), value=(max(0, top - 1),))]


def _sliced(node: Node, operands: Sequence[Most]) -> Sequence[Most]:
    """Return at most the operand's sizes, and those that are given."""
    dims = operands[0].dims
    counts = operands[2].value
    begin, size = node.inputs[1].value, node.inputs[2].value
    if dims is None:
        return [Most(counts) if counts and size is not None else Most(None, operands[0].size)]
    made = list(dims)
    for axis in range(len(made)):
        one = made[axis]
        if size is not None and size[axis] >= 0:
            made[axis] = int(size[axis])
        elif size is not None and begin is not None and one is not None:
            made[axis] = max(0, one - int(begin[axis]))
        elif counts is not None and len(counts) == len(made):
            made[axis] = counts[axis] if one is None else min(one, counts[axis])
    return [Most(tuple(made))]


def _strided(node: Node, operands: Sequence[Most]) -> Sequence[Most]:
    """Return at most the operand's elements, and along the first axis what is given."""
    made = _inferred(node, operands)[0] if _plain_slice(node) else Most(node.output.shape)
    dims, shape = operands[0].dims, node.output.shape
    if dims and shape and _first_axis_only(node):
        begin, end, step = (t.value for t in node.inputs[1:])
        last = dims[0] if end is None or int(str(node.attrs.get("end_mask", 0))) & 1 else None
        if end is not None and not int(str(node.attrs.get("end_mask", 0))) & 1 and end[0] >= 0:
            last = int(end[0])
        if last is None and operands[2].value:
            last = operands[2].value[0]
        start = 0 if begin is None else max(0, int(begin[0]))
        if last is not None and step is not None and step[0] > 0:
            rows = max(0, math.ceil((last - start) / int(step[0])))
            rows = rows if dims[0] is None else min(rows, dims[0])
            made = Most((rows, *dims[1:]))
    if operands[0].size is not None:
        made = _smaller(made, operands[0].size)
    return [made.within(shape)]


def _plain_slice(node: Node) -> bool:
    """Whether larger operands make larger results: nothing counts from the end."""
    values = [tensor.value for tensor in node.inputs[1:]]
    return all(value is not None for value in values)


def _first_axis_only(node: Node) -> bool:
    masks = ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    return node.inputs[1].size == 1 and not any(node.attrs.get(key) for key in masks)


def _reshaped(node: Node, operands: Sequence[Most]) -> Sequence[Most]:
    made = _inferred(node, operands)[0]
    size = operands[0].size
    shape = operands[1].value
    if shape is not None and len(shape) == node.inputs[1].size and node.inputs[1].is_static:
        made = Most(shape)  # a size that is not known, -1, is not among them
    return [Most(made.dims, size).within(node.output.shape)]


def _picked(node: Node, operands: Sequence[Most]) -> Sequence[Most]:
    """Return at most so many boxes as are asked for, and as there are."""
    boxes, count = operands[0].dims, operands[2].top
    rows = [one for one in (boxes[0] if boxes else None, count) if one is not None]
    made = _with_rows(node.outputs[0], min(rows) if rows else None)
    return [made if not t.is_static else Most(t.shape, t.size) for t in node.outputs]


def _counted(node: Node, operands: Sequence[Most]) -> Sequence[Most]:
    count = operands[1].top
    dims = operands[0].dims
    if dims is not None and len(dims) == 2:
        return [Most((dims[0], count))]
    return [Most((count,))]


def _set_operation(*sizes: int) -> Rule:
    """Return at most all elements of both sets."""

    def rule(node: Node, operands: Sequence[Most]) -> Sequence[Most]:
        counts = [operands[position].size for position in sizes]
        rows = None if None in counts else sum(one for one in counts if one is not None)
        indices, _, shape = node.outputs
        return [_with_rows(indices, rows), Most((rows,)), Most(shape.shape, shape.size)]

    return rule


def _padded(node: Node, operands: Sequence[Most]) -> Sequence[Most]:
    """Pad each row of a ragged tensor to the longest, which may have all its values."""
    values, partition = operands[1], operands[3:]
    kinds = [str(kind) for kind in node.attrs.get("row_partition_types", ())]  # type: ignore[attr-defined]
    rows = partition[0].top
    if any("ROW_SPLITS" in kind for kind in kinds):
        rows = None if partition[0].size is None else max(0, partition[0].size - 1)
    if len(kinds) > 1 + ("FIRST_DIM_SIZE" in kinds[0]) or not values.dims:
        return [Most()]
    made = Most((rows, *values.dims)).within(node.output.shape)
    return [made]


def _axes(node: Node, operands: Sequence[Most]) -> Sequence[Most]:
    """Return at most one number for each axis."""
    rank = largest(operands)
    return [Most((rank,)) for _ in node.outputs]


_RULES: Mapping[str, Rule] = {
    "Bincount": _counted,
    "BroadcastArgs": _axes,
    "BroadcastGradientArgs": _axes,
    "DenseBincount": _counted,
    "DenseToDenseSetOperation": _set_operation(0, 1),
    "DenseToSparseSetOperation": _set_operation(0, 2),
    "DynamicPartition": _partitioned,
    "DynamicStitch": _stitched,
    "ListDiff": _rows_of(0),
    "NonMaxSuppression": _picked,
    "NonMaxSuppressionV2": _picked,
    "NonMaxSuppressionV3": _picked,
    "NonMaxSuppressionV4": _picked,
    "NonMaxSuppressionV5": _picked,
    "ParallelDynamicStitch": _stitched,
    "RaggedTensorToTensor": _padded,
    "Range": _ranged,
    "Reshape": _reshaped,
    **dict.fromkeys(words("SegmentMax SegmentMean SegmentMin SegmentProd SegmentSum"),
                    _segments(1)),
    "Slice": _sliced,
    "SparseAdd": _rows_of_both(0, 3),
    "SparseFillEmptyRows": _filled_rows,
    **dict.fromkeys(words("SparseSegmentMean SparseSegmentSqrtN SparseSegmentSum"), _segments(2)),
    "SparseReduceSumSparse": _rows_of(0),
    "SparseReduceMaxSparse": _rows_of(0),
    "SparseSlice": _rows_of(0),
    "SparseToSparseSetOperation": _set_operation(1, 4),
    "SparseSparseMaximum": _rows_of_both(0, 3),
    "SparseSparseMinimum": _rows_of_both(0, 3),
    "StridedSlice": _strided,
    "Unique": _unique,
    "UniqueV2": _unique,
    "UniqueWithCounts": _unique,
    "UniqueWithCountsV2": _unique,
    "Where": _where,
}  # fmt: skip
