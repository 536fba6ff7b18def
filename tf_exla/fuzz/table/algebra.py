"""Products, factorizations, transforms."""

from __future__ import annotations

from hypothesis import strategies as st

from tf_exla.fuzz.table.row import Row, row, scalar, square
from tf_exla.fuzz.values import COMPLEX, FLOATS, MOST_ELEMENTS, WIDE, Draw, Pool, Shape, Step, count

_MOST_ORDER = 64
_MOST_FLOPS = 40_000_000


def _matmul(draw: Draw, pool: Pool) -> Step | None:
    a = pool.pick(draw, (*FLOATS, *COMPLEX), least_rank=2)
    b = pool.pick(draw, None if a is None else (a.dtype,), least_rank=2)
    if a is None or b is None or a.shape[:-2] != b.shape[:-2]:
        return None
    left, right = draw(st.booleans()), draw(st.booleans())
    m, k = a.shape[-2:][::-1] if left else a.shape[-2:]
    q, n = b.shape[-2:][::-1] if right else b.shape[-2:]
    shape = (*a.shape[:-2], m, n)
    if k != q or count(shape) > MOST_ELEMENTS or count(shape) * k > _MOST_FLOPS:
        return None
    flags = f"transpose_a={left}, transpose_b={right}"
    if a.dtype in COMPLEX and draw(st.booleans()):
        flags = flags.replace("transpose_b=True", "adjoint_b=True")
    scale = float(max(k, 1)) ** -0.5
    made = f"tf.matmul({a.name}, {b.name}, {flags}) * {scale:.4}"
    code = f"tf.tanh({made})" if a.dtype in FLOATS else f"0.5 * {made}"
    return Step(code, shape, a.dtype, False)


def _outer(draw: Draw, pool: Pool) -> Step | None:
    a, b = pool.pick(draw, FLOATS, rank=1), pool.pick(draw, FLOATS, rank=1)
    if a is None or b is None or a.dtype != b.dtype or a.size * b.size > MOST_ELEMENTS:
        return None
    code = f"tf.tanh({a.name}[:, None] - {b.name}[None, :])"
    return Step(code, (*a.shape, *b.shape), a.dtype, False)


def _distance(draw: Draw, pool: Pool) -> Step | None:
    a, b = pool.pick(draw, FLOATS, rank=2), pool.pick(draw, FLOATS, rank=2)
    if a is None or b is None or a.dtype != b.dtype or a.shape[1] != b.shape[1]:
        return None
    if not a.shape[1] or a.shape[0] * b.shape[0] * a.shape[1] > 4 * MOST_ELEMENTS:
        return None
    difference = f"{a.name}[:, None, :] - {b.name}[None, :, :]"
    code = f"tf.exp(-tf.reduce_mean(tf.square({difference}), -1))"
    return Step(code, (a.shape[0], b.shape[0]), a.dtype, False)


_CONTRACTIONS = (
    ("ij", "kj", "ik"), ("ij", "ij", "i"), ("bij", "ij", "bi"), ("bij", "kj", "bik"),
    ("ij", "i", "j"), ("i", "j", "ij"), ("bij", "bkj", "bik"), ("ij", "ij", ""),
)  # fmt: skip


def _einsum(draw: Draw, pool: Pool) -> Step | None:
    """Draw a contraction of two operands over axes that they share by name."""
    left, right, made = draw(st.sampled_from(_CONTRACTIONS))
    a = pool.pick(draw, (*WIDE, *COMPLEX), rank=len(left))
    b = pool.pick(draw, None if a is None else (a.dtype,), rank=len(right))
    if a is None or b is None:
        return None
    sizes = dict(zip(left, a.shape, strict=True))
    if any(sizes.setdefault(name, size) != size for name, size in zip(right, b.shape, strict=True)):
        return None
    shape = tuple(sizes[name] for name in made)
    summed = count(tuple(size for name, size in sizes.items() if name not in made))
    if count(shape) * summed > _MOST_FLOPS:
        return None
    code = f"tf.einsum('{left},{right}->{made}', {a.name}, {b.name}) / {max(summed, 1)}"
    return Step(code, shape, a.dtype, False)


def _order(shape: Shape, axis: int) -> Shape | None:
    """Return the shape [..., m, m] for an operand [..., m, n] of moderate order m, else None."""
    fits = 0 < shape[-2] <= _MOST_ORDER and 0 < shape[-1]
    return (*shape[:-1], shape[-2]) if fits else None


def _within(code: str, part: slice | None = None, stop: bool = False) -> Row:
    """Return a row of a function of `gram`, the symmetric positive definite matrix of the operand.

    `part`: the part of the shape [..., m, m] that is the shape of the result. `stop`: the
    function has no gradient, or one that cannot be told from rounding errors.
    """

    def result(shape: Shape, axis: int) -> Shape | None:
        made = _order(shape, axis)
        return None if made is None or part is None else made[part]

    code = code.format(g="gram({a})", a="{a}")
    return row(f"tf.stop_gradient({code})" if stop else code, WIDE, result, least=2, most=40_000)


def _solved(code: str) -> Row:
    return row(
        code.format(g="gram({a})", a="{a}"), WIDE,
        lambda shape, axis: shape if _order(shape, axis) else None, least=2, most=40_000,
    )  # fmt: skip


_WHOLE, _ROWS, _BATCH = slice(None), slice(None, -1), slice(None, -2)


def _spectrum(dtype: str, real: str) -> tuple[Row, ...]:
    return (
        row("tf.signal.rfft({a}) / {k}", (real,), lambda s, _: (*s[:-1], s[-1] // 2 + 1)
            if s[-1] else None, least=1, dtype=dtype),
        row("tf.signal.rfft2d({a}) / {k}", (real,), lambda s, _: (*s[:-1], s[-1] // 2 + 1)
            if count(s) else None, least=2, dtype=dtype),
        row("tf.signal.irfft({a})", (dtype,), lambda s, _: (*s[:-1], 2 * s[-1] - 2)
            if s[-1] > 1 else None, least=1, dtype=real),
    )  # fmt: skip


ROWS: tuple[Row, ...] = (
    _matmul,
    _matmul,
    _outer,
    _distance,
    _einsum,
    row("tf.exp(-tf.square(tf.matmul({a}, {a}, transpose_b=True) / {k}))", (*WIDE, "float16"),
        lambda s, _: (*s[:-1], s[-2]) if s[-1] and count(s) * s[-2] <= 10**7 else None, least=2),
    _within("tf.linalg.cholesky({g})", _WHOLE),
    _within("tf.linalg.inv({g})", _WHOLE),
    _within("tf.linalg.sqrtm({g})", _WHOLE),
    _within("tf.linalg.expm(-{g})", _WHOLE, stop=True),
    _within("tf.linalg.det({g} * 0.5)", _BATCH),
    _within("tf.linalg.logdet({g})", _BATCH),
    _within("tf.linalg.slogdet({g})[1]", _BATCH),
    _within("tf.linalg.trace({g}) / 64", _BATCH),
    _within("tf.linalg.eigvalsh({g})", _ROWS, stop=True),
    _within("tf.linalg.svd({g}, compute_uv=False)", _ROWS, stop=True),
    _within("tf.abs(tf.linalg.qr({g})[1])", _WHOLE, stop=True),
    _within("tf.linalg.lu({g})[0]", _WHOLE, stop=True),
    _within("tf.linalg.pinv({g})", _WHOLE, stop=True),
    _solved("tf.linalg.solve({g}, {a})"),
    _solved("tf.linalg.lstsq({g}, {a})"),
    _solved("tf.linalg.cholesky_solve(tf.linalg.cholesky({g}), {a})"),
    _solved("tf.linalg.triangular_solve({g}, {a})"),
    _solved("tf.linalg.triangular_solve({g}, {a}, lower=False, adjoint=True)"),
    _solved("tf.linalg.matmul({g}, {a}) / 8"),
    row("tf.linalg.cross({a}, tf.reverse({a}, [0]))", WIDE,
        lambda s, _: s if s[-1] == 3 else None, least=1),
    row("tf.linalg.norm(1 + tf.square({a})) / (1 + tf.cast(tf.size({a}), {a}.dtype))", WIDE,
        scalar),
    row("tf.linalg.matvec({a}, tf.ones([{k}], tf.{dtype})) / (1 + {k})", (*WIDE, *COMPLEX),
        lambda s, _: s[:-1], least=2),
    row("tf.tensordot({a}, tf.ones([{k}, 2], tf.{dtype}), 1) / (1 + {k})", WIDE,
        lambda s, _: (*s[:-1], 2), least=2),
    row("tf.linalg.adjoint({a})", COMPLEX, lambda s, _: (*s[:-2], s[-1], s[-2]), least=2,
        exact=True),
    row("tf.signal.fft({a}) / {k}", COMPLEX, lambda s, _: s if s[-1] else None, least=1),
    row("tf.signal.ifft({a})", COMPLEX, lambda s, _: s if s[-1] else None, least=1),
    row("tf.signal.fft2d({a}) / {k}", COMPLEX, lambda s, _: s if count(s) else None, least=2),
    row("tf.signal.ifft2d({a})", COMPLEX, lambda s, _: s if count(s) else None, least=2),
    *_spectrum("complex64", "float32"),
    *_spectrum("complex128", "float64"),
    row("tf.math.real(tf.signal.ifft3d(tf.signal.fft3d(tf.complex({a}, {a}))))", WIDE,
        lambda s, _: s if count(s) else None, least=3),
    row("tf.stop_gradient(tf.signal.irfft3d(tf.signal.rfft3d({a}), {shape}[-3:]))", WIDE,
        lambda s, _: s if count(s) else None, least=3),
    row("tf.stop_gradient(tf.sort(tf.math.real(tf.linalg.eigvals(gram({a})))))", WIDE,
        lambda s, axis: (*s[:-2], s[-2]) if _order(s, axis) else None, least=2, most=4000),
    row("tf.stop_gradient(tf.math.real(tf.linalg.logm(tf.cast(gram({a}), tf.complex128))))",
        ("float64",), _order, least=2, most=4000),
    row("tf.stop_gradient(tf.raw_ops.MatrixSolveLs(matrix=gram({a}), rhs={a},"
        " l2_regularizer=0.0, fast=False))", ("float64",),
        lambda s, axis: s if _order(s, axis) else None, least=2, most=40_000),
    row("tf.stop_gradient(tf.linalg.banded_triangular_solve(tf.ones([2, {n}], tf.{dtype}) * [[2],"
        " [0.5]], {a}))", WIDE, lambda s, _: s if count(s) and s[0] > 2 else None, rank=2),
    row("tf.linalg.band_part({a}, 2, -1)", (*FLOATS, *COMPLEX),
        lambda s, _: s if s[-2] > 2 else None, least=2, exact=True),
    row("tf.linalg.tridiagonal_matmul([tf.ones([{n}], tf.{dtype})] * 3, {a},"
        " diagonals_format='sequence') / 3", WIDE, lambda s, _: s if count(s) else None, rank=2),
    row("tf.linalg.tridiagonal_solve([tf.ones([{n}], tf.{dtype}) * t for t in (1, 3, 1)], {a},"
        " diagonals_format='sequence')", WIDE, lambda s, _: s if count(s) else None, rank=2),
    row("tf.sparse.sparse_dense_matmul(tf.sparse.from_dense(tf.eye({n}, dtype=tf.{dtype})), {a})",
        WIDE, lambda s, _: s if 0 < s[0] <= 64 else None, rank=2),
    row("tf.linalg.set_diag({a}, {a}[:, 0] * 0.5)", (*WIDE, *COMPLEX), square, rank=2),
)  # fmt: skip
