"""Rules of the ops that read or write by index: gather, scatter, one-hot, segments."""

from __future__ import annotations

from collections.abc import Callable

from tf_exla.ir.graph import Combine, Node
from tf_exla.vocabulary.rules.builders import (
    Letters,
    arrow,
    integer,
    rank,
    sizes,
    static_axes,
)


def gather(node: Node) -> str:
    """Read slices: indices may be split, the axis that is read is needed whole."""
    params, indices = rank(node.inputs[0]), rank(node.inputs[1])
    axis = 0
    if len(node.inputs) > 2:
        (axis,) = static_axes(node, 2, params)
    batch = integer(node, "batch_dims", 0)
    batch += indices if batch < 0 else 0
    letters = Letters()
    outer = letters.low(axis)
    middle = letters.low(indices - batch)
    inner = letters.low(params - axis - 1)
    read = [*outer, *letters.up(1), *inner]
    rest = ["_"] * (len(node.inputs) - 2)
    return arrow([read, outer[:batch] + middle, *rest], [outer + middle + inner])


def gather_nd(node: Node) -> str:
    """Read at points: the last axis of the indices holds coordinates of the data's first axes."""
    depth = sizes(node.inputs[1])[-1]
    letters = Letters()
    points = letters.low(rank(node.inputs[1]) - 1)
    inner = letters.low(rank(node.inputs[0]) - depth)
    return arrow(
        [letters.up(depth) + inner, points + letters.up(1)],
        [points + inner],
    )


def _is_number(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat", "int", "uint", "complex", "half"))


def scatter_nd(node: Node) -> str:
    """Add values at points into zeros: points may be split, and partial results are added."""
    depth = sizes(node.inputs[0])[-1]
    letters = Letters()
    count = rank(node.inputs[0]) - 1
    adds = _is_number(node.output.dtype)
    points = letters.low(count) if adds else letters.up(count)
    inner = letters.low(rank(node.output) - depth)
    return arrow(
        [points + letters.up(1), points + inner, "="],
        [letters.up(depth) + inner],
        "add" if adds else None,
        points,
    )


def scatter_rows(node: Node) -> str:
    """Add values at columns of their own row into zeros: rows may be split, and values too."""
    letters = Letters()
    batch = letters.low(rank(node.inputs[0]) - 1)
    adds = _is_number(node.output.dtype)
    points = letters.low(1) if adds else letters.up(1)
    inner = letters.low(rank(node.output) - len(batch) - 1)
    return arrow(
        [batch + points, batch + points + inner, "="],
        [batch + letters.up(1) + inner],
        "add" if adds else None,
        points,
    )


def update_rows(node: Node) -> str:
    """Write values at columns of their own row into a tensor."""
    letters = Letters()
    batch = letters.low(rank(node.inputs[1]) - 1)
    row, points = letters.up(1), letters.up(1)
    inner = letters.low(rank(node.output) - len(batch) - 1)
    full = batch + row + inner
    return arrow([full, batch + points, batch + points + inner], [full])


def tensor_scatter(node: Node) -> str:
    """Write at points into a tensor: only the axes inside of a point may be split."""
    depth = sizes(node.inputs[1])[-1]
    letters = Letters()
    points = letters.up(rank(node.inputs[1]) - 1)
    inner = letters.low(rank(node.output) - depth)
    full = letters.up(depth) + inner
    return arrow([full, points + letters.up(1), points + inner], [full])


def segments(combine: Combine) -> Callable[[Node], str]:
    """Reduce rows that have the same number; a segment without rows holds the neutral element."""

    def rule(node: Node) -> str:
        letters = Letters()
        rows = letters.low(rank(node.inputs[1]))
        inner = letters.low(rank(node.inputs[0]) - len(rows))
        return arrow([rows + inner, rows, "_"], [letters.up(1) + inner], combine, rows)

    return rule
