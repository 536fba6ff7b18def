"""Rough numbers of floating-point operations: accurate enough to compare plans.

An op counts as many as take its time, at the rate of pointwise ops.

An addition, a multiplication or a comparison is one. Matrix decompositions are counted as in Golub
and Van Loan, "Matrix Computations" (2013). Moving elements costs none: bytes are counted elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tf_exla.ir.graph import Node, Tensor, item_bytes
from tf_exla.vocabulary.random_rows import are_parts, drawn_together


def per_operand(node: Node) -> int:
    """Count one operation per element of the first operand."""
    return node.inputs[0].size


def searched(node: Node) -> int:
    """Count the operations per element that a search for an extreme value takes: no vectors."""
    return 8 * node.inputs[0].size


def accumulated(node: Node) -> int:
    """Count the operations per element that TensorFlow's scans take: 4 ns on one core."""
    return 200 * node.inputs[0].size


def random_rows(node: Node) -> int:
    """Count one operation per number that is drawn, and those that take as long as each draw."""
    dims, attrs = node.output.dims, node.attrs
    if not are_parts(dims, attrs):
        return node.output.size
    together = drawn_together(dims, attrs, item_bytes(node.output.dtype))
    if not together:
        return node.output.size + _DRAW * dims[0]
    return math.prod((dims[0], int(str(attrs["row"])))) + _DRAW * -(-dims[0] // together)


_DRAW = 300_000
"""Operations in 20 us, at 7e-11 s each."""


def sum_of_list(node: Node) -> int:
    """Count one addition per element of all operands but the first."""
    return node.output.size * (len(node.inputs) - 1)


def matmul(node: Node) -> int:
    """Count two operations per element of the result and of the inner axis."""
    transposed = node.attrs.get("transpose_a") or node.attrs.get("adj_x")
    shape = _shape(node.inputs[0])
    inner = shape[-2 if transposed else -1] if len(shape) > 1 else 1
    return 2 * node.output.size * inner


def einsum(node: Node) -> int:
    """Count as many operations per combination of indices as there are operands."""
    left = str(node.attrs.get("equation", "")).replace(" ", "").partition("->")[0]
    sizes: dict[str, int] = {}
    rest = 1
    for term, tensor in zip(left.split(","), node.inputs, strict=False):
        if not tensor.is_static:
            continue
        shape = tensor.dims
        before, dots, after = term.partition("...")
        named = [*zip(before, shape, strict=False)]
        named += zip(after, shape[len(shape) - len(after) :], strict=True)
        sizes.update(named)
        if dots:
            rest = max(rest, math.prod(shape[len(before) : len(shape) - len(after)]))
    return len(node.inputs) * rest * math.prod(sizes.values())


def _shape(tensor: Tensor) -> Sequence[int]:
    return tensor.dims if tensor.is_static else (0, 0)


def cubic(factor: float) -> Callable[[Node], int]:
    """Count `factor` times rows, columns and the smaller of them, for each matrix of the batch."""

    def count(node: Node) -> int:
        *batch, rows, columns = _shape(node.inputs[0])
        return int(factor * math.prod(batch) * rows * columns * min(rows, columns))

    return count


def solve(factorize: float) -> Callable[[Node], int]:
    """Count a factorization and two triangular solves of all right-hand sides, or one solve."""

    def count(node: Node) -> int:
        rows = _shape(node.inputs[0])[-1]
        solves = node.output.size * rows * (2 if factorize else 1)
        return solves + cubic(factorize)(node)

    return count


def convolution(filter_at: int, result_at: int, summed: int = -1) -> Callable[[Node], int]:
    """Count two operations per pixel and channel of the result, times the numbers of its patch.

    These are the filter's axes before `summed`: -2 if each channel has its own filters.
    """

    def count(node: Node) -> int:
        tensors = (*node.inputs, node.output)
        kernel, result = _shape(tensors[filter_at]), tensors[result_at]
        return 2 * result.size * math.prod(kernel[:summed])

    return count
