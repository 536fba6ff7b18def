"""Products, Cholesky factors, triangular solves and singular values."""

from __future__ import annotations

import dataclasses
import string
from collections.abc import Mapping, Sequence
from typing import Any

from tf_exla.frontends.jax.jaxprs.inlining import apply
from tf_exla.frontends.jax.jaxprs.writer import Call, Writer
from tf_exla.frontends.jax.primitives.pointwise import kind_of
from tf_exla.ir.graph import Tensor


def _dot_general(w: Writer, call: Call) -> Sequence[Tensor] | None:
    """Convert to a product of matrices if possible, else to a product of elements or an einsum."""
    a, b = call.inputs
    if not _is_plain(call):
        return None
    (left, right), (batch_a, batch_b) = call.params["dimension_numbers"]
    free_a = _rest(a, left, batch_a)
    free_b = _rest(b, right, batch_b)
    if not left:
        return [_outer(w, a, b, (*batch_a, *free_a), (*batch_b, *free_b), len(batch_a))]
    leading = tuple(range(len(batch_a)))
    few = len(left) == 1 and len(free_a) <= 1 and len(free_b) <= 1
    if few and tuple(batch_a) == tuple(batch_b) == leading:
        turn_a = bool(free_a) and left[0] < free_a[0]
        turn_b = bool(free_b) and right[0] > free_b[0]
        if not (leading and kind_of(call.dtype) == "c" and (turn_a or turn_b)):
            return [_matrices(w, call, turn_a, turn_b, bool(free_a), bool(free_b))]
    return [_einsum(w, call, free_a, free_b)]


def _is_plain(call: Call) -> bool:
    """Return whether the vocabulary has a product: it has one dtype and the default precision.

    The precision does not matter for the dtypes in `_ONE_WAY`, for which there is only one.
    """
    a, b = call.inputs
    if not a.dtype == b.dtype == call.dtype or not kind_of(a.dtype) or a.dtype == "bool":
        return False
    if call.params.get("out_sharding") is not None:
        return False
    return call.params["precision"] is None or a.dtype in _ONE_WAY


_ONE_WAY = ("float64", "complex128", "int32", "int64")


def _rest(x: Tensor, *used: Sequence[int]) -> tuple[int, ...]:
    taken = {axis for axes in used for axis in axes}
    return tuple(axis for axis in range(len(x.dims)) if axis not in taken)


def _outer(
    w: Writer, a: Tensor, b: Tensor, order_a: Sequence[int], order_b: Sequence[int], batch: int
) -> Tensor:
    """Return all products of elements of two tensors that share their first axes."""
    a, b = w.transpose(a, order_a), w.transpose(b, order_b)
    free_a, free_b = len(a.dims) - batch, len(b.dims) - batch
    if free_b and a.dims:
        a = w.insert(a, range(batch + free_a, batch + free_a + free_b))
    if free_a and b.dims:
        b = w.insert(b, range(batch, batch + free_a))
    return w.op("multiply", a, b)


def _matrices(
    w: Writer, call: Call, turn_a: bool, turn_b: bool, rows: bool, columns: bool
) -> Tensor:
    """Return a product of matrices; vectors become matrices with one row or column."""
    a, b = call.inputs
    if not rows:
        a = w.insert(a, [len(a.dims) - 1])
    if not columns:
        b = w.insert(b, [len(b.dims)])
    if len(a.dims) == 2:
        made = w.op("matmul", a, b, transpose_a=turn_a, transpose_b=turn_b)
    else:
        made = w.op("batch_matmul", a, b, adj_x=turn_a, adj_y=turn_b)
    gone = [len(made.dims) - 2] * (not rows) + [len(made.dims) - 1] * (not columns)
    if not gone:
        return made
    return w.op("squeeze", made, shape=call.shape, dtype=made.dtype, squeeze_dims=gone)


def _einsum(w: Writer, call: Call, free_a: Sequence[int], free_b: Sequence[int]) -> Tensor:
    a, b = call.inputs
    (left, right), (batch_a, batch_b) = call.params["dimension_numbers"]
    letters = iter(string.ascii_lowercase)
    of_a = {axis: next(letters) for axis in range(len(a.dims))}
    of_b = {axis: of_a[other] for axis, other in zip(batch_b, batch_a, strict=True)}
    of_b |= {axis: of_a[other] for axis, other in zip(right, left, strict=True)}
    of_b |= {axis: next(letters) for axis in free_b}
    result = [of_a[axis] for axis in (*batch_a, *free_a)] + [of_b[axis] for axis in free_b]
    terms = ("".join(names[axis] for axis in sorted(names)) for names in (of_a, of_b))
    equation = f"{','.join(terms)}->{''.join(result)}"
    return w.op("einsum", a, b, shape=call.shape, dtype=call.dtype, equation=equation)


def _cholesky(w: Writer, call: Call) -> Sequence[Tensor] | None:
    (x,) = call.inputs
    return [w.op("cholesky", x, shape=x.dims)]


def _triangular_solve(w: Writer, call: Call) -> Sequence[Tensor] | None:
    """Solve from the left; a system from the right is transposed."""
    a, b = call.inputs
    params = call.params
    turned, conjugate = bool(params["transpose_a"]), bool(params["conjugate_a"])
    if params["unit_diagonal"]:
        return None
    if not params["left_side"]:
        turned = not turned
    if kind_of(a.dtype) == "c" and turned != conjugate:
        return None
    lower = bool(params["lower"])
    if params["left_side"]:
        return [w.op("solve_triangular", a, b, lower=lower, adjoint=turned)]
    swap = [*range(len(b.dims) - 2), len(b.dims) - 1, len(b.dims) - 2]
    made = w.op("solve_triangular", a, w.transpose(b, swap), lower=lower, adjoint=turned)
    return [w.transpose(made, swap)]


def _svd(w: Writer, call: Call) -> Sequence[Tensor] | None:
    """Compute only singular values without allocating full matrices of singular vectors.

    XLA would allocate these, although LAPACK never writes to them.
    """
    if call.params["compute_uv"] or not call.params["full_matrices"]:
        return None
    thin = {**call.params, "full_matrices": False}
    return apply(w, dataclasses.replace(call, params=thin))


CONVERTERS: Mapping[str, Any] = {
    "cholesky": _cholesky,
    "dot_general": _dot_general,
    "svd": _svd,
    "triangular_solve": _triangular_solve,
}
