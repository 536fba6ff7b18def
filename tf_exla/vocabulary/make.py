"""The few ops that rewrites make, with their attributes and the shapes of their results."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tf_exla.ir.graph import Node, Tensor

Attrs = Mapping[str, object]
Dims = tuple[int, ...]


@dataclass(frozen=True)
class Maker:
    """`shape(inputs, attrs)` of the result; `attrs`: what is not said otherwise."""

    shape: Callable[[Sequence[Tensor], Attrs], Dims]
    attrs: Attrs = field(default_factory=dict)


def make(op: str, inputs: Sequence[Tensor], attrs: Attrs, name: str) -> Node | None:
    """Make a node; None where rewrites have no use for `op`. Shapes must be static."""
    maker = MAKERS.get(op)
    if maker is None:
        return None
    merged = {**maker.attrs, **attrs}
    dtype = str(attrs.get("dtype", inputs[1 if op == "full" else 0].dtype))
    if op in ("any", "isfinite", "isnan") or op in _COMPARISONS:
        dtype = "bool"
    elif op == "where":
        dtype = inputs[1].dtype
    output = Tensor(maker.shape(inputs, merged), dtype, name)
    return Node(op, tuple(inputs), (output,), merged, name=name)


_COMPARISONS = ("equal", "greater_equal", "less_equal", "not_equal")


def _broadcast(inputs: Sequence[Tensor], attrs: Attrs) -> Dims:
    return np.broadcast_shapes(*(tensor.dims for tensor in inputs))


def _same(inputs: Sequence[Tensor], attrs: Attrs) -> Dims:
    return inputs[0].dims


def _product(left: str, right: str) -> Callable[[Sequence[Tensor], Attrs], Dims]:
    def shape(inputs: Sequence[Tensor], attrs: Attrs) -> Dims:
        (*batch, a, b), (*other, c, d) = inputs[0].dims, inputs[1].dims
        rows, inner = (b, a) if attrs[left] else (a, b)
        again, columns = (d, c) if attrs[right] else (c, d)
        if inner != again:
            raise ValueError(f"{inputs[0]} and {inputs[1]} do not multiply")
        return (*np.broadcast_shapes(tuple(batch), tuple(other)), rows, columns)

    return shape


def _values(tensor: Tensor) -> list[int]:
    if tensor.value is None:
        raise ValueError(f"{tensor} must be static")
    return [int(value) for value in np.ravel(tensor.value)]


def _solved(inputs: Sequence[Tensor], attrs: Attrs) -> Dims:
    (*batch, rows, again), (*other, inner, columns) = inputs[0].dims, inputs[1].dims
    if not rows == again == inner:
        raise ValueError(f"{inputs[0]} and {inputs[1]} are no system")
    return (*np.broadcast_shapes(tuple(batch), tuple(other)), rows, columns)


def _reduced(inputs: Sequence[Tensor], attrs: Attrs) -> Dims:
    dims = inputs[0].dims
    axes = {axis % len(dims) for axis in _values(inputs[1])}
    if attrs["keep_dims"]:
        return tuple(1 if axis in axes else size for axis, size in enumerate(dims))
    return tuple(size for axis, size in enumerate(dims) if axis not in axes)


def _reshaped(inputs: Sequence[Tensor], attrs: Attrs) -> Dims:
    shape = tuple(_values(inputs[1]))
    if math.prod(shape) != inputs[0].size:
        raise ValueError(f"{inputs[0]} cannot be reshaped to {shape}")
    return shape


def _transposed(inputs: Sequence[Tensor], attrs: Attrs) -> Dims:
    return tuple(inputs[0].dims[axis] for axis in _values(inputs[1]))


def _named(inputs: Sequence[Tensor], attrs: Attrs) -> Dims:
    return tuple(_values(inputs[1]))


def _filled(inputs: Sequence[Tensor], attrs: Attrs) -> Dims:
    return tuple(_values(inputs[0]))


def _joined(inputs: Sequence[Tensor], attrs: Attrs) -> Dims:
    *parts, where = inputs
    shape = list(parts[0].dims)
    axis = _values(where)[0] % len(shape)
    shape[axis] = sum(part.dims[axis] for part in parts)
    return tuple(shape)


def _sliced(inputs: Sequence[Tensor], attrs: Attrs) -> Dims:
    return tuple(_values(inputs[2]))


def _counted(inputs: Sequence[Tensor], attrs: Attrs) -> Dims:
    start, limit, delta = (_values(tensor)[0] for tensor in inputs)
    return (len(range(start, limit, delta)),)


def _gathered(inputs: Sequence[Tensor], attrs: Attrs) -> Dims:
    params, indices = inputs[0].dims, inputs[1].dims
    axis, batch = _values(inputs[2])[0], attrs["batch_dims"]
    assert isinstance(batch, int)
    return (*params[:axis], *indices[batch:], *params[axis + 1 :])


def _diagonal(inputs: Sequence[Tensor], attrs: Attrs) -> Dims:
    *batch, rows, columns = inputs[0].dims
    return (*batch, min(rows, columns))


def _dense(inputs: Sequence[Tensor], attrs: Attrs) -> Dims:
    return (*inputs[0].dims, inputs[0].dims[-1])


_COMPARE = Maker(_broadcast)
_REDUCE = Maker(_reduced, {"keep_dims": False})

MAKERS: Mapping[str, Maker] = {
    "add_n": Maker(_same),
    "add": Maker(_broadcast),
    "any": Maker(_reduced, {"keep_dims": False}),
    "batch_matmul": Maker(
        _product("adj_x", "adj_y"),
        {"adj_x": False, "adj_y": False},
    ),
    "broadcast_to": Maker(_named),
    "astype": Maker(_same),
    "concat": Maker(_joined),
    "equal": _COMPARE,
    "exp": Maker(_same),
    "full": Maker(_filled),
    "floor_divide": Maker(_broadcast),
    "take": Maker(_gathered, {"batch_dims": 0}),
    "greater_equal": Maker(_broadcast),
    "isfinite": Maker(_same),
    "isnan": Maker(_same),
    "less_equal": Maker(_broadcast),
    "log": Maker(_same),
    "logical_and": Maker(_broadcast),
    "logical_or": Maker(_broadcast),
    "matmul": Maker(
        _product("transpose_a", "transpose_b"),
        {"transpose_a": False, "transpose_b": False},
    ),
    "band_part": Maker(_same),
    "matrix_diag_part": Maker(_diagonal, {"align": "RIGHT_LEFT"}),
    "matrix_diag": Maker(_dense, {"align": "RIGHT_LEFT"}),
    "matrix_set_diag": Maker(_same, {"align": "RIGHT_LEFT"}),
    "solve_triangular": Maker(_solved, {"lower": True, "adjoint": False}),
    "max": _REDUCE,
    "maximum": Maker(_broadcast),
    "min": _REDUCE,
    "minimum": Maker(_broadcast),
    "multiply": Maker(_broadcast),
    "negative": Maker(_same),
    "not_equal": _COMPARE,
    "arange": Maker(_counted),
    "divide": Maker(_broadcast),
    "reciprocal": Maker(_same),
    "reshape": Maker(_reshaped),
    "where": Maker(_broadcast),
    "slice": Maker(_sliced),
    "square": Maker(_same),
    "subtract": Maker(_broadcast),
    "sum": _REDUCE,
    "truncate_divide": Maker(_broadcast),
    "permute_dims": Maker(_transposed),
}
