"""Reductions, and ops that need an axis whole."""

from __future__ import annotations

from tf_exla.fuzz.table.row import Row, dropped, filled, kept, row, same, scalar
from tf_exla.fuzz.values import ALL, COMPLEX, FLOATS, REAL, SIGNED, WIDE, Shape

_RANKED = (*WIDE, "int32", "int64")


def _three(shape: Shape, axis: int) -> Shape | None:
    return (*shape[:-1], 3) if shape[-1] >= 3 else None


def _reduced(
    code: str, dtypes: tuple[str, ...], exact: bool = False, dtype: str = "", ordered: bool = False
) -> tuple[Row, Row]:
    """Return the rows of a reduction that drops its axis and of one that keeps it."""
    return (
        row(code.format(a="{a}", size="{size}", rest="{axis}"), dtypes, dropped, least=1,
            exact=exact, dtype=dtype, ordered=ordered),
        row(code.format(a="{a}", size="{size}", rest="{axis}, keepdims=True"), dtypes, kept,
            least=1, exact=exact, dtype=dtype, ordered=ordered),
    )  # fmt: skip


# Factors of products differ from 1 by some roundings of float16. By one, all would round alike, and
# the product would be wrong by their number times that, in stock as well.
ROWS: tuple[Row, ...] = (
    *_reduced("tf.reduce_sum({a}, {rest}) / {size}", (*FLOATS, *COMPLEX)),
    *_reduced("tf.reduce_sum({a}, {rest})", ("int32", "int64")),
    *_reduced("tf.reduce_mean({a}, {rest})", (*FLOATS, *COMPLEX)),
    *_reduced("tf.reduce_max({a}, {rest})", REAL, exact=True),
    *_reduced("tf.reduce_min({a}, {rest})", REAL, exact=True),
    *_reduced("tf.reduce_prod(1 + tf.tanh({a}) / 256, {rest})", FLOATS),
    *_reduced("tf.reduce_prod({a}, {rest})", ("int32", "int64")),
    *_reduced("tf.reduce_logsumexp({a}, {rest})", FLOATS),
    *_reduced("tf.sqrt(1 + tf.math.reduce_variance({a}, {rest}))", WIDE),
    *_reduced("tf.math.reduce_euclidean_norm(1 + tf.square({a}), {rest}) / {size}", WIDE),
    *_reduced("tf.math.count_nonzero({a}, {rest})", REAL, True, "int64", ordered=True),
    *_reduced("tf.reduce_any({a}, {rest})", ("bool",)),
    *_reduced("tf.reduce_all({a}, {rest})", ("bool",)),
    row("tf.argmax({a}, {axis})", _RANKED, dropped, least=1, dtype="int64", ordered=True,
        exact=True),
    row("tf.argmin({a}, {axis})", _RANKED, dropped, least=1, dtype="int64", ordered=True,
        exact=True),
    row("tf.nn.l2_loss({a}) / (1 + tf.cast(tf.size({a}), {a}.dtype))", WIDE, scalar),
    row("tf.nn.zero_fraction({a})", WIDE, filled(scalar), ordered=True, dtype="float32"),
    # Along an axis, which is kept.
    row("tf.cumsum({a}, {axis}) / {size}", (*FLOATS, *COMPLEX), least=1),
    row("tf.cumsum({a}, {axis}, exclusive=True, reverse=True)", ("int32", "int64"), least=1),
    row("tf.math.cumprod(1 + tf.tanh({a}) / 256, {axis})", FLOATS, least=1),
    row("tf.math.cumulative_logsumexp({a}, {axis})", WIDE, least=1),
    row("tf.nn.softmax({a}, {axis})", FLOATS, least=1),
    row("tf.nn.log_softmax({a}, {axis}) * 0.1", FLOATS, least=1),
    row("tf.math.l2_normalize({a}, {axis}, epsilon=1.0)", FLOATS, least=1),
    row("tf.sort({a}, {axis})", (*WIDE, "int32", "int64"), least=1, exact=True),
    row("tf.argsort({a}, {axis}, stable=True)", _RANKED, least=1, dtype="int32", exact=True,
        ordered=True),
    # Of all elements in order.
    row("tf.stop_gradient(tf.sort(tf.reshape({a}, [-1]))[tf.size({a}) // 2])", WIDE,
        filled(scalar), least=1, exact=True),
    row("tf.stop_gradient(tf.math.top_k(tf.reshape({a}, [-1]), tf.size({a}))[0][-1])", WIDE,
        filled(scalar), least=1, exact=True),
    row("tf.reverse({a}, [{axis}])", ALL, least=1, exact=True),
    row("tf.roll({a}, 3, {axis})", ALL, least=1, exact=True),
    # Along the last axis.
    row("tf.math.top_k({a}, 3)[0]", _RANKED, _three, least=1, exact=True),
    row("tf.math.top_k({a}, 3)[1]", _RANKED, _three, least=1, exact=True, ordered=True,
        dtype="int32"),
    row("tf.stop_gradient(tf.raw_ops.NthElement(input={a}, n={k} // 2))", WIDE,
        filled(lambda shape, axis: shape[:-1]), least=2, exact=True),
    row("tf.math.in_top_k(tf.zeros([{n}], tf.int32), {a}, 2)", ("float32",),
        filled(lambda shape, axis: shape[:1]), rank=2, dtype="bool", exact=True, ordered=True),
    row("tf.nn.softmax_cross_entropy_with_logits(tf.nn.softmax({a}), {a}) * 0.1", FLOATS,
        filled(lambda shape, axis: shape[:-1]), least=1),
    row("tf.nn.sparse_softmax_cross_entropy_with_logits(tf.range({n}) % {k}, {a}) * 0.1", FLOATS,
        filled(lambda shape, axis: shape[:-1]), rank=2),
    row("tf.searchsorted(tf.sort({a}), tf.reverse({a}, [-1]))", WIDE, filled(same), least=1,
        dtype="int32", exact=True, ordered=True),
    row("tf.searchsorted(tf.sort({a}), {a}, side='right')", WIDE, filled(same), least=1,
        dtype="int32", exact=True, ordered=True),
    row("tf.math.bincount(tf.cast({a} & 7, tf.int32), minlength=8, maxlength=8)", SIGNED,
        lambda shape, axis: (8,), rank=1, dtype="int32"),
    row("tf.math.bincount(tf.cast({a} & 7, tf.int32), minlength=8, maxlength=8, axis=-1)",
        SIGNED, lambda shape, axis: (shape[0], 8), rank=2, dtype="int32"),
    row("tf.histogram_fixed_width({a}, [-2.0, 2.0], 5)", ("float32",),
        lambda shape, axis: (5,), dtype="int32", exact=True, ordered=True),
)  # fmt: skip
