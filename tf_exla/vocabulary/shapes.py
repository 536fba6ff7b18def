"""Result shapes of the ops that rewrites make, from operands and attributes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tf_exla.ir.graph import Tensor

Attrs = Mapping[str, object]
Dims = tuple[int, ...]


def broadcast(inputs: Sequence[Tensor], attrs: Attrs) -> Dims:
    return np.broadcast_shapes(*(tensor.dims for tensor in inputs))


def same(inputs: Sequence[Tensor], attrs: Attrs) -> Dims:
    return inputs[0].dims


def product(left: str, right: str) -> Callable[[Sequence[Tensor], Attrs], Dims]:
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


def solved(inputs: Sequence[Tensor], attrs: Attrs) -> Dims:
    (*batch, rows, again), (*other, inner, columns) = inputs[0].dims, inputs[1].dims
    if not rows == again == inner:
        raise ValueError(f"{inputs[0]} and {inputs[1]} are no system")
    return (*np.broadcast_shapes(tuple(batch), tuple(other)), rows, columns)


def segmented(inputs: Sequence[Tensor], attrs: Attrs) -> Dims:
    return (*_values(inputs[2]), *inputs[0].dims[len(inputs[1].dims) :])


def reduced(inputs: Sequence[Tensor], attrs: Attrs) -> Dims:
    dims = inputs[0].dims
    axes = {axis % len(dims) for axis in _values(inputs[1])}
    if attrs["keep_dims"]:
        return tuple(1 if axis in axes else size for axis, size in enumerate(dims))
    return tuple(size for axis, size in enumerate(dims) if axis not in axes)


def reshaped(inputs: Sequence[Tensor], attrs: Attrs) -> Dims:
    shape = tuple(_values(inputs[1]))
    if math.prod(shape) != inputs[0].size:
        raise ValueError(f"{inputs[0]} cannot be reshaped to {shape}")
    return shape


def transposed(inputs: Sequence[Tensor], attrs: Attrs) -> Dims:
    return tuple(inputs[0].dims[axis] for axis in _values(inputs[1]))


def held_by(position: int) -> Callable[[Sequence[Tensor], Attrs], Dims]:
    """Return the rule of ops that get the shape of their result as an operand."""

    def shape(inputs: Sequence[Tensor], attrs: Attrs) -> Dims:
        return tuple(_values(inputs[position]))

    return shape


def joined(inputs: Sequence[Tensor], attrs: Attrs) -> Dims:
    *parts, where = inputs
    shape = list(parts[0].dims)
    axis = _values(where)[0] % len(shape)
    shape[axis] = sum(part.dims[axis] for part in parts)
    return tuple(shape)


def sliced(inputs: Sequence[Tensor], attrs: Attrs) -> Dims:
    return tuple(_values(inputs[2]))


def counted(inputs: Sequence[Tensor], attrs: Attrs) -> Dims:
    start, limit, delta = (_values(tensor)[0] for tensor in inputs)
    return (len(range(start, limit, delta)),)


def padded(inputs: Sequence[Tensor], attrs: Attrs) -> Dims:
    around = np.reshape(_values(inputs[1]), (-1, 2)).sum(1)
    return tuple(size + int(more) for size, more in zip(inputs[0].dims, around, strict=True))


def taken(inputs: Sequence[Tensor], attrs: Attrs) -> Dims:
    params, indices = inputs[0].dims, inputs[1].dims
    axis, batch = _values(inputs[2])[0] % len(params), attrs["batch_dims"]
    assert isinstance(batch, int)
    return (*params[:axis], *indices[batch:], *params[axis + 1 :])


def diagonal(inputs: Sequence[Tensor], attrs: Attrs) -> Dims:
    *batch, rows, columns = inputs[0].dims
    return (*batch, min(rows, columns))


def dense(inputs: Sequence[Tensor], attrs: Attrs) -> Dims:
    return (*inputs[0].dims, inputs[0].dims[-1])
