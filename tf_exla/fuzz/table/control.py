"""Control flow, lists, side effects, variables, iterators."""

from __future__ import annotations

from tf_exla.fuzz.table.row import Row, row
from tf_exla.fuzz.values import FLOATS, WIDE, Shape, count

_FEW = 40_000  # elements of a tensor that is read row by row


def _few(shape: Shape, axis: int) -> Shape | None:
    return shape if 0 < shape[0] <= 64 and count(shape) else None


def _by_rows(code: str) -> Row:
    return row(code, WIDE, _few, least=2, most=_FEW)


def _reduced_rows(code: str, exact: bool = False) -> Row:
    return row(code, WIDE, lambda s, _: (s[0], *s[2:]) if _few(s, 0) else None, least=2,
               most=_FEW, exact=exact)  # fmt: skip


_CALLED = (
    # choices
    "tf.cond(flag, lambda: tf.sin({a}), lambda: tf.tanh({a}))",
    "tf.cond(tf.size({a}) > 5, lambda: tf.sin({a}), lambda: {a} * 0.5)",
    "tf.switch_case(tf.cast(flag, tf.int32), [lambda: {a}, lambda: tf.sin({a})])",
    "tf.switch_case(tf.constant({seed}), [lambda: {a} * 0.5, lambda: tf.sin({a}),"
    " lambda: tf.cos({a})])",
    "tf.cond(flag, lambda: tf.cond(flag, lambda: tf.sin({a}), lambda: {a}), lambda: {a})",
    # loops
    "tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, tf.tanh(v)), (0, {a}))[1]",
    "tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, tf.tanh(v + 0.1 * {a})), (0, {a}))[1]",
    "tf.while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, tf.cond(i > 0, lambda: tf.sin(v),"
    " lambda: tf.tanh(v))), (0, {a}))[1]",
    "tf.while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, tf.while_loop(lambda j, w: j < i + 1,"
    " lambda j, w: (j + 1, tf.tanh(w)), (0, v))[1]), (0, {a}))[1]",
    # side effects
    "(tf.print('shown', {a}), {a} * 0.5)[1]",
    "(tf.debugging.assert_less(tf.abs(tf.tanh({a})), tf.cast(2, {a}.dtype)), {a} * 0.5)[1]",
    "{a} * tf.cast(state.assign_add(0.25), {a}.dtype)",
    "{a} * tf.cast(state.assign(0.5), {a}.dtype)",
    "{a} * tf.cast(state.read_value(), {a}.dtype)",
    "{a} * tf.cast(tf.cond(flag, lambda: state.assign_add(0.25), lambda: state * 1.0), {a}.dtype)",
    "{a} * tf.cast(tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, state.assign_add(0.1)"
    " * 0.5), (0, state * 1.0))[1], {a}.dtype)",
    "tf.recompute_grad(lambda v: tf.tanh(v) * tf.sin(v))({a})",
    "tf.custom_gradient(lambda v: (tf.tanh(v), lambda up: up * 0.5))({a})",
    "tf.grad_pass_through(tf.tanh)({a})",
)

ROWS: tuple[Row, ...] = (
    *[row(code, FLOATS) for code in _CALLED],
    _by_rows("tf.map_fn(lambda r: tf.tanh(r) * 0.5, {a})"),
    _by_rows("tf.map_fn(lambda r: tf.cond(flag, lambda: tf.sin(r), lambda: r), {a})"),
    _by_rows("tf.map_fn(lambda r: tf.while_loop(lambda i, v: i < 2, lambda i, v: (i + 1,"
             " tf.tanh(v)), (0, r))[1], {a})"),
    _by_rows("tf.while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, tf.map_fn(tf.tanh, v)),"
             " (0, {a}))[1]"),
    _by_rows("tf.cond(flag, lambda: tf.map_fn(tf.tanh, {a}), lambda: {a})"),
    _by_rows("tf.map_fn(lambda r: r * tf.cast(tf.random.stateless_uniform([], [1, {seed}], dtype="
             "'{dtype}'), r.dtype), {a})"),
    _by_rows("tf.scan(lambda c, r: tf.tanh(c + r), {a}, tf.zeros_like({a}[0]))"),
    _by_rows("tf.scan(lambda c, r: tf.tanh(c + r), {a}, tf.zeros_like({a}[0]), reverse=True)"),
    _by_rows("tf.vectorized_map(lambda r: tf.tanh(r) * 0.5, {a})"),
    _by_rows("tf.stack([tf.tanh(r) for r in tf.unstack({a}, {n})])"),
    _by_rows("tf.while_loop(lambda i, l: i < {n}, lambda i, l: (i + 1, l.write(i,"
             " tf.tanh({a}[i]))),"
             " (0, tf.TensorArray(tf.{dtype}, {n}, element_shape={shape}[1:])))[1].stack()"),
    row("tf.foldl(lambda c, r: tf.tanh(c + r), {a}, tf.zeros_like({a}[0]))", WIDE,
        lambda s, _: s[1:] if _few(s, 0) else None, least=2, most=_FEW),
    _reduced_rows("tf.map_fn(lambda r: tf.reduce_max(r, 0), {a})", exact=True),
    _reduced_rows("tf.map_fn(lambda r: tf.reduce_logsumexp(r, 0), {a})"),
    _reduced_rows("tf.vectorized_map(lambda r: tf.reduce_sum(r, 0) / {n}, {a})"),
    row("tf.map_fn(lambda r: tf.exp(-tf.reduce_sum(tf.square({a} - r), -1) / {k}), {a})", WIDE,
        lambda s, _: (s[0], s[0]) if _few(s, 0) else None, rank=2, most=_FEW),
    row("tf.map_fn(lambda r: tf.reduce_sum(tf.exp(-tf.square({a} - r))) / {n}, {a})", WIDE,
        lambda s, _: s[:1] if count(s) and s[0] <= 1000 and s[1] <= 8 else None, rank=2),
    row("rows() * tf.reduce_max(tf.cast({a}, tf.float64))", WIDE,
        lambda s, _: (7, 3) if count(s) else None, dtype="float64"),
    row("tf.reduce_sum(tf.exp(-tf.square(batch()[:, None] - tf.cast({a}, tf.float64))), 0) / 50",
        WIDE, lambda s, _: s, rank=1, dtype="float64"),
)  # fmt: skip
