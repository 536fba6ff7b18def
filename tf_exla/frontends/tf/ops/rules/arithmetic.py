"""Rules of quantized numbers, counts, biases and sparse products."""

from __future__ import annotations

from collections.abc import Callable

from tf_exla.ir.graph import Node
from tf_exla.vocabulary.rules.builders import (
    Letters,
    Part,
    arrow,
    integer,
    rank,
    sizes,
    text_attr,
)


def quantized(node: Node) -> str:
    """Round to few levels between bounds, given for all or by channel, or computed from the data.

    A single channel has scalar bounds, unlike several, so the axis of channels is needed whole.
    """
    axis = integer(node, "axis", -1)
    names = Letters().low(rank(node.inputs[0]))
    rest: list[Part] = ["_"] * (len(node.inputs) - 3)
    given = bool(node.attrs.get("range_given", node.op.endswith("V3")))
    names = [name.upper() if at == axis or not given else name for at, name in enumerate(names)]
    bounds: Part = "_" if axis < 0 or not given else [names[axis]]
    return arrow([names, bounds, bounds, *rest], [names])


def quantized_grad(by_channel: bool = False) -> Callable[[Node], str]:
    """Compute the gradients of rounded numbers and of the bounds of the rounding."""

    def rule(node: Node) -> str:
        names = Letters().low(rank(node.inputs[0]))
        bounds = names[-1:] if by_channel else []
        added = [name for name in names if name not in bounds]
        return arrow([names, names, bounds, bounds], [names, bounds, bounds], "add", added)

    return rule


def sum_all(node: Node) -> str:
    """Add over all axes."""
    names = Letters().low(rank(node.inputs[0]))
    return arrow([names], [""], "add", names)


def histogram(node: Node) -> str:
    """Count all elements by bins; the range of values and the number of bins are not data."""
    names = Letters().low(rank(node.inputs[0]))
    return arrow([names, "_", "_"], [["B"]], "add", names)


def counts(weights_at: int) -> Callable[[Node], str]:
    """Count, or add weights of, each integer of a tensor, or of each row of a matrix.

    With `binary_output`, which only records presence, a tensor is needed whole.
    """

    def rule(node: Node) -> str:
        names = Letters().low(rank(node.inputs[0]))
        by_row = rank(node.output) == 2
        if by_row:
            names = [names[0], "C"]
        elif node.attrs.get("binary_output"):
            names = [name.upper() for name in names]
        parts: list[Part] = [names, "_", "_"]
        if 0 not in sizes(node.inputs[weights_at]):  # else each counts once
            parts[weights_at] = names
        reduced = [] if by_row else [name for name in names if name.islower()]
        return arrow(parts, [[names[0], "B"] if by_row else ["B"]], "add", reduced)

    return rule


def sparse_matmul(node: Node) -> str:
    """Multiply a sparse matrix, a list of points and their values, by a dense matrix."""
    right = "n C" if node.attrs.get("adjoint_b") else "C n"
    return arrow(["p A", "p", "_", right], ["B n"], "add", ["p"])


def select(node: Node) -> str:
    """Choose between two tensors; a condition of rank one chooses rows, a scalar everything."""
    condition, count = rank(node.inputs[0]), rank(node.output)
    if condition == count:
        return arrow(["..."] * 3, ["..."])
    if condition == 0:
        return arrow(["", "...", "..."], ["..."])
    return arrow(["a", "a ...", "a ..."], ["a ..."])


def bias(node: Node) -> str:
    """Add one number for each channel."""
    first = text_attr(node, "data_format", "NHWC").startswith("NC")
    return arrow(["n c ..." if first else "... c", "c"], ["n c ..." if first else "... c"])


def bias_grad(node: Node) -> str:
    """Add over all axes except the channels."""
    names = Letters().low(rank(node.inputs[0]))
    axis = 1 if text_attr(node, "data_format", "NHWC").startswith("NC") else len(names) - 1
    return arrow([names], [[names[axis]]], "add", names[:axis] + names[axis + 1 :])
