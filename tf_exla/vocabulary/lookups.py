"""Rows that ops find by their index: each takes time beside that of moving its bytes.

The numbers are measured, in units of a row that is read. A row that is written takes six, since
TensorFlow adds on one core.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tf_exla.ir.graph import Node
from tf_exla.vocabulary.rules.builders import static_axes

Lookups = Callable[[Node], int]


def gathered(node: Node) -> int:
    """Count the contiguous rows that a gather along an axis reads."""
    params, axis = node.inputs[0], 0
    if len(node.inputs) > 2:
        if node.inputs[2].value is None:
            return node.output.size
        (axis,) = static_axes(node, 2, len(params.dims))
    return node.output.size // max(1, math.prod(params.dims[axis + 1 :]))


def points(node: Node) -> int:
    """Count the points at which an op reads; the last axis of the indices has coordinates."""
    indices = node.inputs[1]
    return indices.size // max(1, indices.dims[-1])


def of_indices(node: Node) -> int:
    """Count the indices of the second operand."""
    return node.inputs[1].size


def written(indices_at: int, data_at: int) -> Lookups:
    """Count the rows that a scatter writes, and a fourth of their elements."""

    def count(node: Node) -> int:
        indices = node.inputs[indices_at]
        return 6 * (indices.size // max(1, indices.dims[-1])) + node.inputs[data_at].size // 4

    return count


def segments(node: Node) -> int:
    """Count the rows that are added to segments, and their elements."""
    rows, places = node.inputs[:2]
    return 5 * places.size + rows.size
