"""Gathers, scatters, segments, and results whose sizes depend on data."""

from __future__ import annotations

from hypothesis import strategies as st

from tf_exla.fuzz.table.row import Row, row, scalar
from tf_exla.fuzz.values import ALL, FLOATS, REAL, SIGNED, WIDE, Draw, Pool, Shape, Step, count

_SUMMED = (*WIDE, "int32", "int64")


def _rows(number: int) -> Row:
    code = f"tf.gather({{a}}, tf.range({number}) * 7 % {{n}})"
    return row(code, ALL, lambda s, _: (number, *s[1:]) if s[0] else None, least=1, exact=True)


def _last(number: int) -> Row:
    code = f"tf.gather({{a}}, tf.range({number}) % {{k}}, axis=-1)"
    return row(code, ALL, lambda s, _: (*s[:-1], number) if s[-1] else None, least=1, exact=True)


def _segments(number: int) -> tuple[Row, ...]:
    """Return rows of segment sums, means, products and extremes, with unsorted and sorted ids."""
    ids = f"tf.range({{n}}) * 5 % {number}"
    rows = f"tf.minimum(tf.range({{n}}), {number - 1})"

    def made(shape: Shape, axis: int) -> Shape | None:
        return (number, *shape[1:]) if shape[0] >= number else None

    def one(name: str, dtypes: tuple[str, ...], exact: bool = False, end: str = "") -> Row:
        code = f"tf.math.unsorted_segment_{name}({{a}}, {ids}, {number}){end}"
        return row(code, dtypes, made, least=1, exact=exact)

    def other(name: str, dtypes: tuple[str, ...], exact: bool = False, end: str = "") -> Row:
        code = f"tf.math.segment_{name}({{a}}, {rows}){end}"
        return row(code, dtypes, made, least=1, exact=exact)

    scaled = " / {n}"
    return (
        one("sum", FLOATS, end=scaled), one("sum", ("int32", "int64")),
        one("max", REAL, exact=True), one("min", REAL, exact=True),
        one("mean", WIDE), one("sqrt_n", WIDE, end=" * 0.1"),
        row(f"tf.math.unsorted_segment_prod(1 + 0.001 * {{a}}, {ids}, {number})", WIDE, made,
            least=1),
        other("sum", FLOATS, end=scaled), other("mean", WIDE),
        row(f"tf.math.segment_prod(1 + 0.001 * {{a}}, {rows})", WIDE, made, least=1),
        row(f"tf.sparse.segment_sum({{a}}, tf.range({{n}}), {rows}, num_segments={number}) / {{n}}",
            WIDE, made, least=1),
        row(f"tf.sparse.segment_mean({{a}}, tf.range({{n}}), {rows}, num_segments={number})", WIDE,
            made, least=1),
        other("max", _SUMMED, exact=True), other("min", _SUMMED, exact=True),
        row(f"tf.sparse.segment_sum({{a}}, tf.range({{n}}), {rows}) / {{n}}", WIDE, made, least=1),
        row(f"tf.sparse.segment_mean({{a}}, tf.range({{n}}), {rows})", WIDE, made, least=1),
        row(f"tf.sparse.segment_sqrt_n({{a}}, tf.range({{n}}), {rows}) * 0.1", WIDE, made,
            least=1),
    )  # fmt: skip


def _one_hot(draw: Draw, pool: Pool) -> Step | None:
    a = pool.pick(draw, ("int32", "int64", "uint8"), exact=True)
    if a is None:
        return None
    depth = draw(st.sampled_from([3, 9]))
    return Step(f"tf.one_hot({a.name}, {depth})", (*a.shape, depth), "float32", True)


_SHUFFLED = "(tf.range({n}) * 3 % {n})[:, None]"
_HALF = "{a}[: {n} // 2]"
_PLACES = "tf.range({n} // 2)[:, None] * 2"


def _updated(name: str, exact: bool, dtypes: tuple[str, ...] = _SUMMED) -> Row:
    code = f"tf.tensor_scatter_nd_{name}({{a}}, {_PLACES}, {_HALF})"
    code = f"{code} * 0.5" if name in ("add", "sub") and dtypes == WIDE else code
    return row(code, dtypes, lambda s, _: s if s[0] > 1 else None, least=1, exact=exact)


def _masked(code: str, dtypes: tuple[str, ...] = WIDE) -> Row:
    """Return a row for operands of rank 1: a tensor of data-dependent size, reduced to a scalar."""
    return row(code, dtypes, scalar, rank=1)


_MASK = "({a} > 0.5)"

ROWS: tuple[Row, ...] = (
    _rows(1), _rows(5), _rows(64), _rows(301), _last(2), _last(64),
    *_segments(1), *_segments(3), *_segments(64),
    _one_hot,
    row("tf.gather({a}, tf.argsort({a}, -1, stable=True), batch_dims=-1)", WIDE,
        lambda s, _: s if count(s) else None, least=1, exact=True, ordered=True),
    row("tf.gather({a}, tf.tile(tf.range(2)[None] % {k}, [{n}, 1]), batch_dims=1)", ALL,
        lambda s, _: (s[0], 2) if s[1] else None, rank=2, exact=True),
    row("tf.gather_nd({a}, tf.stack([tf.range({n}), tf.range({n}) % {k}], -1))", ALL,
        lambda s, _: s[:1] if s[1] else None, rank=2, exact=True),
    row("tf.gather_nd({a}, " + _SHUFFLED + ")", ALL, lambda s, _: s if s[0] else None, least=1,
        exact=True),
    row("tf.scatter_nd(" + _SHUFFLED + ", {a}, {shape}) * 0.5", FLOATS,
        lambda s, _: s if s[0] else None, least=1),
    row("tf.scatter_nd(tf.range({n})[:, None] % 3, {a}, [3] + {shape}[1:]) / (1 + {n})", WIDE,
        lambda s, _: (3, *s[1:]), least=1),
    _updated("add", False, WIDE), _updated("sub", False, WIDE), _updated("update", True),
    _updated("max", True), _updated("min", True),
    row("tf.nn.embedding_lookup({a}, tf.range(64) * 5 % {n})", WIDE,
        lambda s, _: (64, *s[1:]) if s[0] else None, rank=2, exact=True),
    row("tf.math.invert_permutation(tf.argsort({a}, stable=True))", (*WIDE, "int32"), rank=1,
        dtype="int32", ordered=True, exact=True),
    row("tf.unravel_index({a} & 7, [3, 5])[0]", ("int32", "int64"), rank=1),
    # Sizes that depend on data.
    _masked("tf.reduce_sum(tf.boolean_mask({a}, " + _MASK + ")) / (1 + {n})"),
    _masked("tf.reduce_sum(tf.boolean_mask(tf.tanh({a}), {a} > 0)) / (1 + {n})"),
    _masked("tf.reduce_sum(tf.gather({a}, tf.where(" + _MASK + ")[:, 0])) / (1 + {n})"),
    _masked("tf.size(tf.unique({a} & 3)[0], {a}.dtype)", ("int32", "int64")),
    _masked("tf.reduce_sum(tf.unique({a})[0])", ("int32", "int64")),
    _masked("tf.reduce_sum(tf.unique_with_counts({a})[2])", ("int32",)),
    _masked("tf.reduce_sum(tf.repeat({a}, {a} & 1))", SIGNED[2:]),
    _masked("tf.reduce_sum(tf.dynamic_partition({a}, tf.cast(" + _MASK + ", tf.int32), 2)[0])"
            " / (1 + {n})"),
    row("tf.dynamic_stitch(tf.dynamic_partition(tf.range({n}), tf.range({n}) % 3, 3),"
        " tf.dynamic_partition({a}, tf.range({n}) % 3, 3))", WIDE,
        lambda s, _: s if s[0] > 2 else None, least=1, exact=True),
    row("tf.reduce_sum(tf.boolean_mask({a}, tf.range({n}) % 3 > 0), 0) / (1 + {n})", WIDE,
        lambda s, _: s[1:], least=2),
    row("tf.reduce_sum(tf.sparse.to_dense(tf.sparse.from_dense(tf.nn.relu({a}))), 0) / (1 + {n})",
        WIDE, lambda s, _: s[1:] if count(s) else None, rank=2),
    row("tf.reduce_sum(tf.RaggedTensor.from_row_splits({a}, [0, 2, 2, {n}]), 1) / (1 + {n})", WIDE,
        lambda s, _: (3, *s[1:]) if s[0] > 2 else None, least=2),
    row("tf.RaggedTensor.from_row_lengths({a}, [1, {n} - 1]).to_tensor()[1]",
        WIDE, lambda s, _: (s[0] - 1, *s[1:]) if s[0] > 2 else None, least=2),
)  # fmt: skip
