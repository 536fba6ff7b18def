"""Rules of ops that read, write or move by index."""

from __future__ import annotations

from tf_exla.ir.graph import Node
from tf_exla.vocabulary.rules.builders import (
    Letters,
    arrow,
    integer,
    rank,
    sizes,
    static,
)
from tf_exla.vocabulary.rules.movement import slice_axes


def resource_gather(node: Node) -> str:
    """Read slices of a variable, which is needed whole."""
    indices = rank(node.inputs[1])
    letters = Letters()
    batch = integer(node, "batch_dims", 0)
    names = letters.up(batch) + letters.low(indices - batch)
    return arrow(["_", names], [names + letters.up(rank(node.output) - indices)])


def resource_gather_nd(node: Node) -> str:
    """Read a variable, which is needed whole, at points."""
    points = Letters().low(rank(node.inputs[1]) - 1)
    inner = Letters().up(rank(node.output) - len(points) + 1)
    return arrow(["_", points + inner[:1]], [points + inner[1:]])


def sorted_segments(node: Node) -> str:
    """Combine rows by sorted ids, which determine the rows and the number of results."""
    letters = Letters()
    # TensorFlow's kernel adds short floats in an order that depends on the number of columns: a sum
    # of 997 rows in bfloat16 has an error of 0.12 with 8 or 512 columns, and of 0.66 with one.
    short = node.op == "SegmentSum" and node.output.dtype in ("bfloat16", "float16")
    inner = (letters.up if short else letters.low)(rank(node.output) - 1)
    rows = letters.up(1) + inner
    lists = [letters.up(rank(tensor)) for tensor in node.inputs[1:]]
    return arrow([rows, *lists], [letters.up(1) + inner])


def stitch(node: Node) -> str:
    """Put rows at the places that lists of indices give."""
    letters = Letters()
    inner = letters.low(rank(node.output) - 1)
    half = len(node.inputs) // 2
    indices = [letters.up(rank(tensor)) for tensor in node.inputs[:half]]
    return arrow([*indices, *(names + inner for names in indices)], [letters.up(1) + inner])


def unravel(node: Node) -> str:
    """Convert positions to coordinates along a new first axis."""
    names = Letters().low(rank(node.inputs[0]))
    return arrow([names, "_"], [["A", *names]])


def reverse_sequence(node: Node) -> str:
    """Reverse the first elements of an axis; their number is given for each batch element."""
    letters = Letters()
    names = letters.low(rank(node.inputs[0]))
    names[integer(node, "seq_dim", 0)] = letters.up(1)[0]
    return arrow([names, [names[integer(node, "batch_dim", 0)]]], [names])


def strided_slice_update(node: Node) -> str:
    """Write a part into a tensor; if a scalar fills it, its axes are unknown, so all are whole."""
    if not sizes(node.inputs[4]):
        whole = Letters().up(rank(node.output))
        return arrow([whole, "_", "_", "_", ""], [whole])
    full, part = slice_axes(node, sizes(node.output), sizes(node.inputs[4]))
    return arrow([full, "_", "_", "_", part], [full])


def unpack(node: Node) -> str:
    """Unstack along an axis, which is removed."""
    count = rank(node.inputs[0])
    axis = integer(node, "axis", 0) % count
    names = Letters().low(count - 1)
    return arrow([[*names[:axis], "A", *names[axis:]]], [names] * len(node.outputs))


def reverse_flags(node: Node) -> str:
    """Reverse the axes that operand 1 marks."""
    flags = static(node, 1, "axes")
    names = Letters().low(rank(node.inputs[0]))
    names = [name.upper() if flag else name for name, flag in zip(names, flags, strict=True)]
    return arrow([names, "_"], [names])


def bitcast(node: Node) -> str:
    """Read bytes as another dtype; if the item's size changes, a last axis is added or removed."""
    before, after = rank(node.inputs[0]), rank(node.output)
    if before == after:
        return arrow(["..."], ["..."])
    return "... -> ... A" if before < after else "... A -> ..."
