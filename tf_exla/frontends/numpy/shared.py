"""Kernels of ops that are the same in NumPy and in namespaces like it, such as JAX's.

A kernel is a function of a node and its operands. Operands that are known statically (axes, shapes)
are NumPy arrays in all namespaces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tf_exla.frontends.numpy import radix
from tf_exla.ir.graph import Node
from tf_exla.ir.slicing import strided_index
from tf_exla.vocabulary.radix import shift_of
from tf_exla.vocabulary.rules.builders import text_attr, words

X = Any  # an array
Kernel = Callable[..., Any]
"""Called with the node and its operands; returns the result, or a list of several."""
Update = Callable[[X, Any, X], X]
"""Called with an array, an index and values; returns a copy in which these elements are updated."""

_SAME_NAME = words("""
    abs add ceil cos cosh divide equal exp expm1 floor floor_divide greater greater_equal isfinite
    isinf isnan less less_equal log log1p logical_and logical_not logical_or maximum minimum
    multiply negative not_equal ones_like remainder sign sin sinh sqrt square subtract tan tanh
    where zeros_like
""")
_OTHER_NAME = {
    "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan",
    "atan2": "arctan2", "atanh": "arctanh", "pow": "power",
}  # fmt: skip


def plain(function: Callable[..., Any]) -> Kernel:
    return lambda node, *operands: function(*operands)


def same(node: Node, *operands: X) -> X:
    return operands[0] if len(operands) == 1 else list(operands)


def reduction(function: Callable[..., Any]) -> Kernel:
    def kernel(node: Node, x: X, axes: X) -> X:
        keeps = bool(node.attrs.get("keep_dims", False))
        return function(x, axis=ints(axes), keepdims=keeps)

    return kernel


def ints(values: X) -> tuple[int, ...]:
    """Return the integers of a statically known operand."""
    return tuple(int(value) for value in np.ravel(values))


def offset(node: Node, k: X) -> int:
    """Return which diagonal an operand names; raise NotImplementedError if it names several."""
    if np.size(k) != 1:
        raise NotImplementedError(f"several diagonals: {node}")
    return int(np.ravel(k)[0])


def pointwise(xp: Any) -> dict[str, Kernel]:
    """Return the kernels of ops on elements, and of reductions that round nothing."""
    names = {**{name: name for name in _SAME_NAME}, **_OTHER_NAME}
    return {
        **{name: plain(getattr(xp, there)) for name, there in names.items()},
        **dict.fromkeys(words("ensure_shape identity identity_n snapshot"), same),
        "add_n": lambda node, *xs: sum(xs[1:], xs[0]),
        "all": reduction(xp.all),
        "any": reduction(xp.any),
        "radix_step": lambda node, counts, state: radix.step(xp, counts, state, shift_of(node)),
        "radix_values": lambda node, state: radix.values(xp, state),
        "relu": lambda node, x: xp.maximum(x, 0),
        "softplus": lambda node, x: xp.logaddexp(x, xp.zeros((), x.dtype)),
        "squared_difference": lambda node, x, y: xp.square(xp.abs(x - y)),
    }


def products(xp: Any, accuracy: Callable[[Node], Mapping[str, Any]]) -> dict[str, Kernel]:
    """Return the kernels of products; `accuracy`: more arguments of the namespace's functions."""

    def matmul(left: str, right: str) -> Kernel:
        def kernel(node: Node, a: X, b: X) -> X:
            a = xp.swapaxes(a, -1, -2) if node.attrs.get(left) else a
            b = xp.swapaxes(b, -1, -2) if node.attrs.get(right) else b
            if left.startswith("adj"):  # an adjoint is also conjugated
                a = xp.conj(a) if node.attrs.get(left) else a
                b = xp.conj(b) if node.attrs.get(right) else b
            return xp.matmul(a, b, **accuracy(node))

        return kernel

    def einsum(node: Node, *operands: X) -> X:
        return xp.einsum(text_attr(node, "equation"), *operands, **accuracy(node))

    return {
        "batch_matmul": matmul("adj_x", "adj_y"),
        "einsum": einsum,
        "matmul": matmul("transpose_a", "transpose_b"),
    }


def movement(xp: Any) -> dict[str, Kernel]:
    """Return the kernels of ops that only move elements."""

    def pad(node: Node, x: X, paddings: X, value: X = 0) -> X:
        return xp.pad(x, np.asarray(paddings), constant_values=value)

    def mirror_pad(node: Node, x: X, paddings: X) -> X:
        return xp.pad(x, np.asarray(paddings), mode=text_attr(node, "mode").lower())

    def strided_slice(node: Node, x: X, begin: X, end: X, strides: X) -> X:
        return xp.asarray(x)[strided_index(node, *map(ints, (begin, end, strides)))]

    return {
        "broadcast_to": lambda node, x, shape: xp.broadcast_to(x, ints(shape)),
        "concat": lambda node, *xs: xp.concatenate(xs[:-1], int(xs[-1])),
        "expand_dims": lambda node, x, axis: xp.expand_dims(x, *ints(axis)),
        "flip": lambda node, x, axes: xp.flip(x, ints(axes)),
        "matrix_diag_part": lambda node, x, k, *fill: xp.diagonal(x, offset(node, k), -2, -1),
        "mirror_pad": mirror_pad,
        "pad": pad,
        "pad_with": pad,
        "permute_dims": lambda node, x, axes: xp.transpose(x, ints(axes)),
        "reshape": lambda node, x, shape: xp.reshape(x, ints(shape)),
        "roll": lambda node, x, shift, axis: xp.roll(x, ints(shift), ints(axis)),
        "shape": lambda node, x: np.asarray(np.shape(x), node.output.dtype),
        "size": lambda node, x: np.asarray(np.size(x), node.output.dtype),
        "split": lambda node, axis, x: xp.split(x, len(node.outputs), int(axis)),
        "squeeze": lambda node, x: xp.reshape(x, node.output.dims),
        "stack": lambda node, *xs: xp.stack(xs, int(str(node.attrs.get("axis", 0)))),
        "strided_slice": strided_slice,
        "tile": lambda node, x, counts: xp.tile(x, ints(counts)),
    }


def updates(xp: Any, by_name: Mapping[str, Update]) -> dict[str, Kernel]:
    """Return the kernels of ops that update elements; `by_name`: the kinds of updates."""
    add, assign = by_name["scatter_add"], by_name["scatter_update"]

    def scatter(update: Update) -> Kernel:
        return lambda node, x, indices, values: update(
            xp.asarray(x), tuple(xp.moveaxis(indices, -1, 0)), values
        )

    def by_rows(x: X, columns: X, values: X, update: Update) -> X:
        return update(x, (*np.indices(columns.shape)[:-1], columns), values)

    def set_diagonal(node: Node, x: X, d: X, k: X) -> X:
        at, rows = offset(node, k), np.arange(d.shape[-1])
        return assign(xp.asarray(x), (..., rows + max(-at, 0), rows + max(at, 0)), d)

    def strided_slice_grad(node: Node, shape: X, begin: X, end: X, strides: X, part: X) -> X:
        index = strided_index(node, *map(ints, (begin, end, strides)))
        return assign(xp.zeros(ints(shape), part.dtype), index, part)

    def zeros(values: X, shape: X) -> X:
        return xp.zeros(ints(shape), values.dtype)

    return {
        **{name: scatter(update) for name, update in by_name.items()},
        "matrix_set_diag": set_diagonal,
        "scatter_nd": lambda node, indices, values, shape: scatter(add)(
            node, zeros(values, shape), indices, values
        ),
        "scatter_rows": lambda node, columns, values, shape: by_rows(
            zeros(values, shape), columns, values, add
        ),
        "strided_slice_grad": strided_slice_grad,
        "update_rows": lambda node, x, columns, values: by_rows(
            xp.asarray(x), columns, values, by_name[text_attr(node, "scatter")]
        ),
    }
