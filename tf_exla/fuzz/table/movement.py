"""Ops that move elements."""

from __future__ import annotations

from hypothesis import strategies as st

from tf_exla.fuzz.table.row import Result, Row, row, square
from tf_exla.fuzz.values import ALL, COMPLEX, FLOATS, WIDE, Draw, Pool, Shape, Step

_MOST_RANK = 4


def _transpose(draw: Draw, pool: Pool) -> Step | None:
    a = pool.pick(draw, least_rank=2)
    if a is None:
        return None
    order = draw(st.permutations(range(len(a.shape))))
    shape = tuple(a.shape[k] for k in order)
    return Step(f"tf.transpose({a.name}, {list(order)})", shape, a.dtype, a.exact)


def _reshape(draw: Draw, pool: Pool) -> Step | None:
    a = pool.pick(draw, least_rank=1)
    if a is None:
        return None
    choices: list[Shape] = [(a.size,), (1, *a.shape), (*a.shape, 1)]
    if len(a.shape) >= 2:
        choices.append((a.shape[0] * a.shape[1], *a.shape[2:]))
    if a.shape[0] % 2 == 0 and a.shape[0]:
        choices.append((2, a.shape[0] // 2, *a.shape[1:]))
    shape = draw(st.sampled_from([one for one in choices if len(one) <= _MOST_RANK]))
    return Step(f"tf.reshape({a.name}, {list(shape)})", shape, a.dtype, a.exact)


def _slice(draw: Draw, pool: Pool) -> Step | None:
    a = pool.pick(draw, least_rank=1)
    if a is None or a.shape[0] < 2:
        return None
    begin = draw(st.integers(0, a.shape[0] - 1))
    step = draw(st.sampled_from([1, 2, 3, -1, -2]))
    rows = len(range(a.shape[0])[begin::step])
    return Step(f"{a.name}[{begin}::{step}]", (rows, *a.shape[1:]), a.dtype, a.exact)


def _concat(draw: Draw, pool: Pool) -> Step | None:
    a = pool.pick(draw, least_rank=1)
    b = None if a is None else pool.pick(draw, (a.dtype,), rank=len(a.shape))
    if a is None or b is None:
        return None
    axis = draw(st.integers(0, len(a.shape) - 1))
    if any(x != y for k, (x, y) in enumerate(zip(a.shape, b.shape, strict=True)) if k != axis):
        return None
    shape = tuple(
        x + y if k == axis else x for k, (x, y) in enumerate(zip(a.shape, b.shape, strict=True))
    )
    code = f"tf.concat([{a.name}, {b.name}], {axis})"
    return Step(code, shape, a.dtype, a.exact and b.exact)


def _pad(draw: Draw, pool: Pool) -> Step | None:
    a = pool.pick(draw, ALL, least_rank=1)
    if a is None or len(a.shape) > _MOST_RANK:
        return None
    mode = draw(st.sampled_from(["CONSTANT", "REFLECT", "SYMMETRIC"]))
    pads = [draw(st.sampled_from([(0, 0), (1, 0), (1, 2)])) for _ in a.shape]
    if mode != "CONSTANT" and (min(a.shape) < 3 or a.dtype in COMPLEX):
        return None
    shape = tuple(size + sum(pad) for size, pad in zip(a.shape, pads, strict=True))
    widths = [list(pad) for pad in pads]
    return Step(f"tf.pad({a.name}, {widths}, '{mode}')", shape, a.dtype, a.exact)


def _times(factor: int, axis: int) -> Result:
    """Return the rule of a result that is `factor` times as long along an axis."""

    def made(shape: Shape, _: int) -> Shape:
        sizes = list(shape)
        sizes[axis] *= factor
        return tuple(sizes)

    return made


def _moved(
    code: str,
    result: Result,
    least: int = 1,
    rank: int | None = None,
    dtypes: tuple[str, ...] = ALL,
) -> Row:
    return row(code, dtypes, result, least=least, rank=rank, exact=True)


_DIAGONAL = (*WIDE, *COMPLEX, "int32", "int64")
_REPEATED = tuple(dtype for dtype in ALL if dtype not in ("uint16", "uint32", "uint64"))


def _halves(shape: Shape, axis: int) -> Shape | None:
    return (*shape[:-1], shape[-1] // 2) if shape[-1] and shape[-1] % 2 == 0 else None


def _long(shape: Shape, axis: int) -> Shape | None:
    return shape[1:] if shape[0] > 0 else None


ROWS: tuple[Row, ...] = (
    _transpose,
    _reshape,
    _slice,
    _concat,
    _pad,
    _moved("tf.expand_dims({a}, 0)", lambda s, _: (1, *s)),
    _moved("tf.squeeze({a}[:1], 0)", _long),
    _moved("tf.broadcast_to({a}, [3] + {shape})", lambda s, _: (3, *s), least=0),
    _moved("tf.stack([{a}, {a}], 1)", lambda s, _: (s[0], 2, *s[1:])),
    _moved("tf.stack([{a}, tf.reverse({a}, [0])], -1)", lambda s, _: (*s, 2)),
    _moved("tf.split({a}, 2, -1)[1]", _halves),
    _moved("tf.split({a}, [1, {n} - 1])[1]", lambda s, _: (s[0] - 1, *s[1:]) if s[0] else None),
    _moved("tf.unstack({a}, {k}, axis=-1)[0]",
           lambda s, _: s[:-1] if 0 < s[-1] <= 8 else None, least=2),
    _moved("tf.tile({a}, [2] + [1] * (len({shape}) - 1))", _times(2, 0), dtypes=_REPEATED),
    _moved("tf.tile({a}, [1] * (len({shape}) - 1) + [3])", _times(3, -1), dtypes=_REPEATED),
    _moved("tf.repeat({a}, 2, 0)", _times(2, 0), dtypes=_REPEATED),
    _moved("tf.repeat({a}, 2, -1)", _times(2, -1), dtypes=_REPEATED),
    _moved("{a}[..., ::-1]", lambda s, _: s),
    _moved("{a}[..., None, :]", lambda s, _: (*s[:-1], 1, s[-1])),
    _moved("{a}[..., 0]", lambda s, _: s[:-1] if s[-1] else None, least=2),
    _moved("tf.slice({a}, [1] + [0] * (len({shape}) - 1), [-1] * len({shape}))",
           lambda s, _: (s[0] - 1, *s[1:]) if s[0] else None),
    _moved("tf.pad({a}, [[1, 2]] + [[0, 0]] * (len({shape}) - 1),"
           " constant_values=3)",
           lambda s, _: (s[0] + 3, *s[1:]), dtypes=WIDE),
    _moved("tf.raw_ops.Reverse(tensor={a}, dims=[True] + [False] * (len({shape}) - 1))",
           lambda s, _: s, dtypes=WIDE),
    _moved("tf.raw_ops.MatrixDiag(diagonal={a})",
           lambda s, _: (*s, s[-1]) if s[-1] <= 8 else None, dtypes=WIDE),
    _moved("tf.raw_ops.MatrixDiagPart(input={a})", lambda s, _: (*s[:-2], min(s[-2:])), least=2,
           dtypes=WIDE),
    _moved("tf.raw_ops.MatrixSetDiag(input={a}, diagonal=tf.linalg.diag_part({a}) * 0.5)",
           lambda s, _: s, least=2, dtypes=WIDE),
    _moved("tf.raw_ops.Concat(concat_dim=0, values=[{a}, {a}])",
           lambda s, _: (2 * s[0], *s[1:]), dtypes=WIDE),
    _moved("tf.linalg.diag({a})",
           lambda s, _: (*s, s[-1]) if s[-1] <= 1000 else None, rank=1),
    _moved("tf.linalg.diag({a})",
           lambda s, _: (*s, s[-1]) if s[-1] <= 8 else None, least=2),
    _moved("tf.linalg.diag_part({a})", lambda s, _: (*s[:-2], min(s[-2:])), least=2),
    _moved("tf.linalg.diag_part({a})", lambda s, _: s[:1] if square(s, 0) else None, rank=2),
    _moved("tf.linalg.tensor_diag({a})",
           lambda s, _: (*s, *s) if s[0] <= 600 else None, rank=1, dtypes=_DIAGONAL),
    _moved("tf.linalg.tensor_diag_part({a})", lambda s, _: s[:1] if square(s, 0) else None,
           rank=2, dtypes=_DIAGONAL),
    _moved("tf.linalg.set_diag({a}, tf.zeros([min({shape})], tf.{dtype}))", lambda s, _: s,
           rank=2),
    row("tf.reverse_sequence({a}, tf.range({n}) % ({k} + 1), 1, 0)", (*FLOATS, "int32", "int64"),
        lambda s, _: s, rank=2, exact=True),
    row("tf.meshgrid({a}, {a}[:3])[0]", FLOATS,
        lambda s, _: (min(s[0], 3), s[0]), rank=1, exact=True),
    row("tf.identity({a})", ALL, exact=True),
    row("tf.ensure_shape({a}, {shape})", ALL, exact=True),
)  # fmt: skip
