"""Upper bounds of the sizes of results that depend on data or are a part of an operand."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tf_exla.frontends.tf.ops.bounds.infer import infer
from tf_exla.ir.bounds import Most, highest, largest
from tf_exla.ir.graph import Node, Shape, Tensor

Rule = Callable[[Node, Sequence[Most]], Sequence[Most]]


def where(node: Node, operands: Sequence[Most]) -> Sequence[Most]:
    x = operands[0]
    rank = None if x.dims is None else len(x.dims)
    sizes = None if x.dims is None or None in x.dims else [one for one in x.dims if one is not None]
    value = None if sizes is None else (max([*sizes, 1]) - 1,)
    return [Most((x.size, rank), value=value)]


def unique(node: Node, operands: Sequence[Most]) -> Sequence[Most]:
    x = operands[0]
    places = None if x.size is None else (max(0, x.size - 1),)
    along = Most((x.size,), value=places)
    first = Most((x.size,)) if node.op in ("Unique", "UniqueWithCounts") else x
    count = Most((x.size,), value=None if x.size is None else (x.size,))
    value = None if x.top is None else (x.top,)
    return [Most(first.dims, x.size, value, x.below), along, count][: len(node.outputs)]


def partitioned(node: Node, operands: Sequence[Most]) -> Sequence[Most]:
    data, partitions = operands
    value = None if data.top is None else (data.top,)
    if data.dims is None or partitions.dims is None:
        return [Most(None, data.size, value, data.below) for _ in node.outputs]
    rest = data.dims[len(partitions.dims) :]
    most = Most((partitions.size, *rest), value=value, below=data.below)
    return [most for _ in node.outputs]


def stitched(node: Node, operands: Sequence[Most]) -> Sequence[Most]:
    half = len(operands) // 2
    indices, data = operands[:half], operands[half:]
    last = highest([one.top for one in indices])
    first, where = data[0], indices[0]
    if last is None or first.dims is None or where.dims is None:
        return [Most()]
    rows = last + 1
    top = highest([one.top for one in data])
    value = None if top is None else (top,)
    below = highest([one.below for one in data])
    return [Most((rows, *first.dims[len(where.dims) :]), value=value, below=below)]


def segments(ids: int) -> Rule:
    """Bound the number of rows by the largest id; `ids`: the position of the operand with ids."""

    def rule(node: Node, operands: Sequence[Most]) -> Sequence[Most]:
        data, top = operands[0], operands[ids].top
        if data.dims is None or top is None:
            return [Most()]
        return [Most((top + 1, *data.dims[1:]))]

    return rule


def rows_of(position: int) -> Rule:
    """Bound the number of rows of each result by that of an operand."""

    def rule(node: Node, operands: Sequence[Most]) -> Sequence[Most]:
        dims = operands[position].dims
        rows = dims[0] if dims else None
        return [_with_rows(tensor, rows) for tensor in node.outputs]

    return rule


def _with_rows(tensor: Tensor, rows: int | None) -> Most:
    return Most((rows, *tensor.shape[1:]) if tensor.shape else None)


def decoded(node: Node, operands: Sequence[Most]) -> Sequence[Most]:
    """Bound labels decoded from logits [steps, sequences, classes] by one for each step."""
    dims = operands[0].dims
    steps, sequences, _ = dims or (None, None, None)
    most = None if steps is None or sequences is None else steps * sequences
    return [
        Most.of(tensor) if tensor.is_static else _with_rows(tensor, most) for tensor in node.outputs
    ]


def like(position: int) -> Rule:
    """Bound each result by an operand, which has its shape."""
    return lambda node, operands: [Most(operands[position].dims, operands[position].size)]


def gathered(node: Node, operands: Sequence[Most]) -> Sequence[Most]:
    """Bound the rows of a variable by those of the indices."""
    dims, shape = operands[1].dims, node.output.shape
    if dims is None or shape is None:
        return [Most()]
    own = len(dims) - (node.op == "ResourceGatherNd")
    return [Most((*dims[:own], *shape[own:])).within(shape)]


def rows_of_both(left: int, right: int) -> Rule:
    """Bound the number of rows of each result by the sum of those of two operands."""

    def rule(node: Node, operands: Sequence[Most]) -> Sequence[Most]:
        first, second = operands[left].dims, operands[right].dims
        known = first and second and first[0] is not None and second[0] is not None
        rows = (first[0] or 0) + (second[0] or 0) if known and first and second else None
        return [_with_rows(tensor, rows) for tensor in node.outputs]

    return rule


def filled_rows(node: Node, operands: Sequence[Most]) -> Sequence[Most]:
    """Count an entry for each row, since rows without an entry get one."""
    indices, shape = operands[0].dims, operands[2].value
    rows = None
    if indices and indices[0] is not None and shape and shape[0] is not None:
        rows = indices[0] + shape[0]
    top = highest([operands[0].top, operands[2].top])
    value = None if top is None or not shape else (top,)
    first, *others = (_with_rows(tensor, rows) for tensor in node.outputs)
    made = [Most(first.dims, value=value), *others]
    return [Most(t.shape, t.size) if t.is_static else one for t, one in
            zip(node.outputs, made, strict=True)]  # fmt: skip


def dense(node: Node, operands: Sequence[Most]) -> Sequence[Most]:
    """Bound the elements by those of the dense tensor."""
    sizes = operands[2].value
    size = None if sizes is None or None in sizes else math.prod(one or 0 for one in sizes)
    return [Most(node.output.shape).at_most(size).within(node.output.shape)]


def ranged(node: Node, operands: Sequence[Most]) -> Sequence[Most]:
    start, _, delta = (tensor.value for tensor in node.inputs)
    by = None if delta is None else float(delta)
    (_, limit, step), top = operands, operands[1].top
    if start is None or top is None or limit.below is None or by == 0:
        return [Most((None,))] if by is None or by < 0 else infer(node, operands)
    first, below = math.floor(float(start)), max(0, -math.floor(float(start)), limit.below)
    up, down = top - float(start), float(start) + limit.below
    if by is None:  # an integer, above zero or below
        if not node.output.dtype.startswith(("int", "uint")):
            return [Most((None,))]
        count = up if step.top is not None and step.below == 0 else max(up, down)
    else:
        count = up / by if by > 0 else down / -by
    return [Most((max(0, math.ceil(count)),), value=(max(0, top - 1, first),), below=below)]


def sliced(node: Node, operands: Sequence[Most]) -> Sequence[Most]:
    """Bound the sizes by the operand's and by the given ones."""
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
        elif counts is not None and len(counts) == len(made) and operands[2].below == 0:
            count = counts[axis]  # -1 would mean the rest
            made[axis] = count if one is None else one if count is None else min(one, count)
    return [Most(tuple(made))]


def parted(node: Node, operands: Sequence[Most]) -> Sequence[Most]:
    """Bound each part by its given size and by the operand's."""
    (data, given, _), axis = operands, node.inputs[2].value
    if node.inputs[1].value is not None:
        return infer(node, operands)
    if data.dims is None or axis is None:
        return [Most(None, data.size).within(tensor.shape) for tensor in node.outputs]
    at, made = int(axis) % len(data.dims), []
    counts = given.value if given.below == 0 and given.value else (None,)  # -1 would mean the rest
    for k, tensor in enumerate(node.outputs):
        count = counts[k] if len(counts) == len(node.outputs) else counts[0]
        known = [one for one in (data.dims[at], count) if one is not None]
        dims = (*data.dims[:at], min(known, default=None), *data.dims[at + 1 :])
        made.append(Most(dims, data.size).within(tensor.shape))
    return made


def strided(node: Node, operands: Sequence[Most]) -> Sequence[Most]:
    """Bound the elements by the operand's, and the first axis by the given range."""
    made = infer(node, operands)[0] if _plain_slice(node) else Most(node.output.shape)
    dims, shape = operands[0].dims, node.output.shape
    if dims and shape and _first_axis_only(node):
        begin, end, step = (t.value for t in node.inputs[1:])
        last = dims[0] if end is None or int(str(node.attrs.get("end_mask", 0))) & 1 else None
        if end is not None and not int(str(node.attrs.get("end_mask", 0))) & 1 and end[0] >= 0:
            last = int(end[0])
        if last is None and operands[2].value:  # below zero it counts from the end
            last = operands[2].value[0] if operands[2].below == 0 else dims[0]
        masked = int(str(node.attrs.get("begin_mask", 0))) & 1
        start = 0 if begin is None or masked else max(0, int(begin[0]))
        if last is not None and step is not None and step[0] > 0:
            rows = max(0, math.ceil((last - start) / int(step[0])))
            rows = rows if dims[0] is None else min(rows, dims[0])
            made = Most((rows, *dims[1:]))
    return [made.at_most(operands[0].size).within(shape)]


def _plain_slice(node: Node) -> bool:
    """Return whether begin, end and strides are static, and larger operands make larger results.

    A counterexample is `x[-5:3]`, whose size becomes smaller if that of `x` becomes larger.
    """
    begin, end, strides = (tensor.value for tensor in node.inputs[1:])
    if begin is None or end is None or strides is None:
        return False
    masks = ("begin_mask", "end_mask", "shrink_axis_mask", "new_axis_mask", "ellipsis_mask")
    at_begin, at_end, *single = (int(str(node.attrs.get(mask, 0))) for mask in masks)
    for k, (first, last, step) in enumerate(zip(begin, end, strides, strict=True)):
        if any(mask >> k & 1 for mask in (at_begin, at_end, *single)):
            continue
        if (first < 0 <= last) if step > 0 else (last < 0 <= first):
            return False
    return True


def _first_axis_only(node: Node) -> bool:
    masks = ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    return node.inputs[1].size == 1 and not any(node.attrs.get(key) for key in masks)


def reshaped(node: Node, operands: Sequence[Most]) -> Sequence[Most]:
    made = infer(node, operands)[0]
    size = operands[0].size
    shape = operands[1].value
    if shape is not None and len(shape) == node.inputs[1].size and node.inputs[1].is_static:
        made = Most(shape)
    return [Most(made.dims, size).within(node.output.shape)]


def picked(node: Node, operands: Sequence[Most]) -> Sequence[Most]:
    """Bound the number of boxes by the requested and by the available number."""
    boxes, count = operands[0].dims, operands[2].top
    padded = bool(node.attrs.get("pad_to_max_output_size"))  # then all rows are there
    available = boxes[0] if boxes and not padded else None
    rows = [one for one in (available, count) if one is not None]
    made = _with_rows(node.outputs[0], min(rows) if rows else None)
    return [made if not t.is_static else Most(t.shape, t.size) for t in node.outputs]


def counted(node: Node, operands: Sequence[Most]) -> Sequence[Most]:
    count = operands[1].top
    dims = operands[0].dims
    if dims is not None and len(dims) == 2:
        return [Most((dims[0], count))]
    return [Most((count,))]


def set_operation(*sizes: int) -> Rule:
    """Bound the result by all elements of both sets."""

    def rule(node: Node, operands: Sequence[Most]) -> Sequence[Most]:
        counts = [operands[position].size for position in sizes]
        rows = None if None in counts else sum(one for one in counts if one is not None)
        indices, _, shape = node.outputs
        return [_with_rows(indices, rows), Most((rows,)), Most(shape.shape, shape.size)]

    return rule


def crossed(node: Node, operands: Sequence[Most]) -> Sequence[Most]:
    """Bound the crosses of a row by the product of its features; all sparse ones may be in one."""
    sparse, dense = (len(node.attrs[key]) for key in ("sparse_types", "dense_types"))  # type: ignore[arg-type]
    first = 3 * sparse
    shapes, matrices = operands[2 * sparse : first], operands[first : first + dense]
    batches = [(one.value or (None,))[0] for one in shapes]
    batches += [(one.dims or (None,))[0] for one in matrices]
    rows = min((one for one in batches if one is not None), default=None)
    features = [one.size for one in operands[sparse : 2 * sparse]]
    features += [(one.dims or (None,))[-1] for one in matrices]
    most = None if None in features else math.prod(one for one in features if one is not None)
    times = 1 if sparse else rows
    total = None if most is None or times is None else times * most
    return [Most((total, 2)), Most((total,)), Most((2,), value=(rows, most))]


def padded(node: Node, operands: Sequence[Most]) -> Sequence[Most]:
    """Pad each row of a ragged tensor to the longest row, which may have all values.

    A size that is computed may also be larger than all rows; -1 stands for the longest.
    """
    values, partition = operands[1], operands[3:]
    kinds = [str(kind) for kind in node.attrs.get("row_partition_types", ())]  # type: ignore[attr-defined]
    rows = partition[0].top
    if any("ROW_SPLITS" in kind for kind in kinds):
        rows = None if partition[0].size is None else max(0, partition[0].size - 1)
    if len(kinds) > 1 + ("FIRST_DIM_SIZE" in kinds[0]) or not values.dims:
        return [Most()]
    dims: Shape = (rows, *values.dims)
    if node.inputs[0].value is None:
        given = operands[0].value or (None,)
        given = given * len(dims) if len(given) == 1 else given
        dims = tuple(highest(pair) for pair in zip(dims, given, strict=False))
    return [Most(dims).within(node.output.shape)]


def of_total(node: Node, operands: Sequence[Most]) -> Sequence[Most]:
    """Bound the number of rows of the last result by the last operand, which is that number."""
    shape, total = node.outputs[-1].shape, operands[-1].top
    rows = None if shape is None else (total, *shape[1:])
    return [*(Most() for _ in node.outputs[1:]), Most(rows).within(shape)]


def axes(node: Node, operands: Sequence[Most]) -> Sequence[Most]:
    """Bound the result by one number for each axis."""
    rank = largest(operands)
    return [Most((rank,)) for _ in node.outputs]
