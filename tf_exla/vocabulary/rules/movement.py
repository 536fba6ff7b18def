"""Rules of the ops that move elements: reshape, transpose, slice, pad, join, split, repeat."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tf_exla.ir.graph import Node, Tensor
from tf_exla.ir.refusal import Refusal
from tf_exla.vocabulary.rules.builders import (
    Letters,
    arrow,
    integer,
    rank,
    sizes,
    static,
    static_axes,
)


def reshape(node: Node) -> str:
    """Match axes of equal products; of those that merge or part, the outermost may be split."""
    before, after = sizes(node.inputs[0]), sizes(node.output)
    letters = Letters()
    names = _match_axes(before, after, letters)
    return arrow([names[0], "="], [names[1]])


def _match_axes(
    before: Sequence[int], after: Sequence[int], letters: Letters
) -> tuple[list[str], list[str]]:
    ins, outs = ["1"] * len(before), ["1"] * len(after)
    left = [axis for axis, size in enumerate(before) if size != 1]
    right = [axis for axis, size in enumerate(after) if size != 1]
    if 0 in before:
        left, right = _name_whole(ins, left, letters), _name_whole(outs, right, letters)
    while left:
        group_in, group_out = [left.pop(0)], [right.pop(0)]
        many_in, many_out = before[group_in[0]], after[group_out[0]]
        while many_in != many_out:
            if many_in < many_out:
                group_in.append(left.pop(0))
                many_in *= before[group_in[-1]]
            else:
                group_out.append(right.pop(0))
                many_out *= after[group_out[-1]]
        _name_group(ins, group_in, outs, group_out, letters)
    return ins, outs


def _name_group(
    ins: list[str], group_in: list[int], outs: list[str], group_out: list[int], letters: Letters
) -> None:
    if len(group_in) > 1 and len(group_out) > 1:
        _name_whole(ins, group_in, letters)
        _name_whole(outs, group_out, letters)
        return
    parts = letters.low(1) + letters.up(max(len(group_in), len(group_out)) - 1)
    merged = f"({' '.join(parts)})"
    for names, group in ((ins, group_in), (outs, group_out)):
        for axis, name in zip(group, parts if len(group) == len(parts) else [merged], strict=True):
            names[axis] = name


def _name_whole(names: list[str], axes: Sequence[int], letters: Letters) -> list[int]:
    for axis in axes:
        names[axis] = letters.up(1)[0]
    return []


def same_axes(node: Node) -> str:
    """Add or remove axes of size one; the others stay in order."""
    before, after = sizes(node.inputs[0]), sizes(node.output)
    letters = Letters()
    names = letters.low(sum(size != 1 for size in before))
    fill_in, fill_out = iter(names), iter(names)
    return arrow(
        [["1" if size == 1 else next(fill_in) for size in before], *["_"] * (len(node.inputs) - 1)],
        [["1" if size == 1 else next(fill_out) for size in after]],
    )


def transpose(node: Node) -> str:
    """Permute the axes as operand 1 says."""
    count = rank(node.inputs[0])
    names = Letters().low(count)
    if count < 2:
        return arrow([names, "_"], [names])
    order = [int(axis) % count for axis in static(node, 1, "permutation")]
    return arrow([names, "_"], [[names[axis] for axis in order]])


def fill(node: Node) -> str:
    """Repeat a scalar."""
    return arrow(["=", ""], [Letters().low(rank(node.output))])


def tile(node: Node) -> str:
    """Repeat axes: an axis of size one is broadcast, a longer one is needed whole."""
    letters = Letters()
    ins: list[str] = []
    outs: list[str] = []
    for before, after in zip(sizes(node.inputs[0]), sizes(node.output), strict=True):
        if before == after:
            name = letters.low(1)
            ins, outs = ins + name, outs + name
        elif before == 1:
            ins, outs = [*ins, "1"], outs + letters.low(1)
        else:
            ins, outs = ins + letters.up(1), outs + letters.up(1)
    return arrow([ins, "_"], [outs])


def resized_axes(*operands: str) -> Callable[[Node], str]:
    """Need whole the axes whose size changes; the others stay (slice, pad).

    `operands`: the operands after the first one. The ops of this rule cannot permute or shift the
    elements of an axis whose size stays.
    """

    def rule(node: Node) -> str:
        letters = Letters()
        ins: list[str] = []
        outs: list[str] = []
        for before, after in zip(sizes(node.inputs[0]), sizes(node.output), strict=True):
            same = before == after
            ins += letters.low(1) if same else letters.up(1)
            outs += ins[-1:] if same else letters.up(1)
        return arrow([ins, *operands], [outs])

    return rule


def slice_axes(node: Node, full: Sequence[int], part: Sequence[int]) -> tuple[list[str], list[str]]:
    """Name the axes of a strided slice: those of the full tensor, those of the part.

    An axis that is taken whole with stride one keeps its letter: begin and end are clipped to the
    size of a chunk just as to the size of the whole.
    """
    strides = [int(stride) for stride in static(node, 3, "strides")]
    masks = {key: integer(node, key, 0) for key in (*_AXIS_MASKS, "begin_mask", "end_mask")}
    letters = Letters()
    ins: list[str] = []
    outs: list[str] = []
    explicit = sum(not masks["new_axis_mask"] >> i & 1 for i in range(len(strides)))
    explicit -= masks["ellipsis_mask"] != 0

    def take(stride: int) -> None:
        whole_axis = stride == 1 and full[len(ins)] == part[len(outs)]
        ins.extend(letters.low(1) if whole_axis else letters.up(1))
        outs.extend(ins[-1:] if whole_axis else letters.up(1))

    for i, stride in enumerate(strides):
        bit = {key: bool(mask >> i & 1) for key, mask in masks.items()}
        if bit["ellipsis_mask"]:
            for _ in range(len(full) - explicit):
                take(1)
        elif bit["new_axis_mask"]:
            outs.append("1")
        elif bit["shrink_axis_mask"]:
            ins.extend(letters.up(1))
        else:
            take(stride)
    while len(ins) < len(full):
        take(1)
    return ins, outs


_AXIS_MASKS = ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


def whole_axis_masks(node: Node) -> dict[str, int]:
    """Return the masks of a strided slice, its gradient or an update, whole axes without ends.

    An explicit end is the size of the whole tensor. A chunk may have more indices along that axis:
    those of an axis that is several times as long, such as a `tile` of it.
    """
    reads = node.op == "strided_slice"  # its gradient and updates write the part
    whole, part = (node.inputs[0], node.output) if reads else (node.output, node.inputs[4])
    names, _ = slice_axes(node, sizes(whole), sizes(part))
    masks = {key: integer(node, key, 0) for key in ("begin_mask", "end_mask")}
    axis, count = 0, len(static(node, 3, "strides"))
    ellipsis, new, shrink = (integer(node, key, 0) for key in _AXIS_MASKS)
    explicit = sum(not new >> i & 1 for i in range(count)) - (ellipsis != 0)
    for i in range(count):
        if ellipsis >> i & 1:
            axis += len(names) - explicit
        elif not new >> i & 1:
            if names[axis].islower() and not shrink >> i & 1:
                masks = {key: mask | 1 << i for key, mask in masks.items()}
            axis += 1
    return masks


def strided_slice(node: Node) -> str:
    """Take a part: `x[begin:end:strides]`."""
    full, part = slice_axes(node, sizes(node.inputs[0]), sizes(node.output))
    return arrow([full, "_", "_", "_"], [part])


def strided_slice_grad(node: Node) -> str:
    """Put a part into zeros of the shape that operand 0 holds."""
    full, part = slice_axes(node, sizes(node.output), sizes(node.inputs[4]))
    return arrow(["=", "_", "_", "_", part], [full])


def _parts(node: Node, axis_at: int, whole: Tensor) -> Callable[[], list[str]]:
    """Return a function that names the axes of each part of a tensor, which differ along one."""
    (axis,) = static_axes(node, axis_at, rank(whole))
    letters = Letters()
    names = letters.low(rank(whole))
    return lambda: names[:axis] + letters.up(1) + names[axis + 1 :]


def concat(axis_at: int) -> Callable[[Node], str]:
    """Concatenate along an axis that is needed whole; operand `axis_at` holds it."""

    def rule(node: Node) -> str:
        at = axis_at % len(node.inputs)
        part = _parts(node, at, node.output)
        return arrow(["_" if k == at else part() for k in range(len(node.inputs))], [part()])

    return rule


def pack(node: Node) -> str:
    """Stack along a new axis."""
    count = rank(node.output)
    axis = integer(node, "axis", 0) % count
    names = Letters().low(count - 1)
    return arrow([names] * len(node.inputs), [[*names[:axis], "A", *names[axis:]]])


def split(data_at: int, axis_at: int) -> Callable[[Node], str]:
    """Split along an axis that is needed whole."""

    def rule(node: Node) -> str:
        part = _parts(node, axis_at, node.inputs[data_at])
        operands = [part() if k == data_at else "_" for k in range(len(node.inputs))]
        return arrow(operands, [part() for _ in node.outputs])

    return rule


def diagonal(matrix_at: str, operands: int = 1) -> Callable[[Node], str]:
    """Make matrices from their diagonals, or back: their two axes are needed whole.

    `matrix_at`: "result", "operand" or "both" (the diagonal is operand 1 then). `operands`: how
    many there are; those that hold data come first, a padding value is a scalar and comes last.
    """

    def rule(node: Node) -> str:
        part = node.inputs[0] if matrix_at == "result" else node.output
        if matrix_at == "both":
            part = node.inputs[1]
        matrix = node.output if matrix_at == "result" else node.inputs[0]
        bands = rank(part) - rank(matrix) + 2
        if bands not in (1, 2):
            raise Refusal(f"the diagonals of {node.op} {node.name} have an unexpected rank")
        letters = Letters()
        full = ["...", *letters.up(2)]
        diagonals = ["...", *letters.up(bands)]
        data = {"result": [diagonals], "operand": [full], "both": [full, diagonals]}[matrix_at]
        rest = ["_"] * (operands - len(data))
        if rest and matrix_at != "both":
            rest[-1] = ""
        return arrow([*data, *rest], [diagonals if matrix_at == "operand" else full])

    return rule


def one_hot(node: Node) -> str:
    """Mark indices along a new axis, which is needed whole."""
    count = rank(node.inputs[0])
    axis = integer(node, "axis", -1) % (count + 1)
    names = Letters().low(count)
    return arrow([names, "_", "", ""], [[*names[:axis], "A", *names[axis:]]])
