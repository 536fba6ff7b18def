"""The op table of random programs: a row draws the next line, or None where nothing fits.

Rows keep values near one, so that programs of many steps compare to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hypothesis import strategies as st

from tf_exla.fuzz.values import (
    COMPLEX,
    FLOATS,
    INTEGERS,
    MOST_ELEMENTS,
    Draw,
    Pool,
    Shape,
    Step,
    broadcast,
)

Row = Callable[[Draw, Pool], Step | None]

NUMBERS = (*FLOATS, *INTEGERS, *COMPLEX)
REAL = (*FLOATS, *INTEGERS)


def _unary(code: str, dtypes: tuple[str, ...], exact: bool = False) -> Row:
    def row(draw: Draw, pool: Pool) -> Step | None:
        a = pool.pick(draw, dtypes)
        if a is None:
            return None
        return Step(code.format(a=a.name), a.shape, a.dtype, exact and a.exact)

    return row


def _binary(code: str, dtypes: tuple[str, ...], exact: bool = False, compares: bool = False) -> Row:
    def row(draw: Draw, pool: Pool) -> Step | None:
        a = pool.pick(draw, dtypes, exact=compares)
        b = pool.pick(draw, None if a is None else (a.dtype,), exact=compares)
        if a is None or b is None:
            return None
        shape = broadcast(a.shape, b.shape)
        if shape is None or _count(shape) > MOST_ELEMENTS:
            return None
        dtype = "bool" if compares else a.dtype
        # Sums and products of integers are exact whatever the order.
        kept = exact or a.dtype in INTEGERS or a.dtype == "bool"
        return Step(code.format(a=a.name, b=b.name), shape, dtype, kept and a.exact and b.exact)

    return row


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
    if a.shape[0] * b.shape[0] * a.shape[1] > 4 * MOST_ELEMENTS:
        return None
    difference = f"{a.name}[:, None, :] - {b.name}[None, :, :]"
    code = f"tf.exp(-tf.reduce_mean(tf.square({difference}), -1))"
    return Step(code, (a.shape[0], b.shape[0]), a.dtype, False)


def _matmul(draw: Draw, pool: Pool) -> Step | None:
    a = pool.pick(draw, (*FLOATS, *COMPLEX), least_rank=2)
    b = pool.pick(draw, None if a is None else (a.dtype,), least_rank=2)
    if a is None or b is None or a.shape[:-2] != b.shape[:-2]:
        return None
    left, right = draw(st.booleans()), draw(st.booleans())
    m, k = a.shape[-2:][::-1] if left else a.shape[-2:]
    q, n = b.shape[-2:][::-1] if right else b.shape[-2:]
    shape = (*a.shape[:-2], m, n)
    if k != q or _count(shape) > MOST_ELEMENTS or _count(shape) * k > 40_000_000:
        return None
    flags = f"transpose_a={left}, transpose_b={right}"
    scale = float(max(k, 1)) ** -0.5
    code = f"tf.tanh(tf.matmul({a.name}, {b.name}, {flags}) * {scale:.4})"
    return Step(code, shape, a.dtype, False)


def _reduce(name: str, dtypes: tuple[str, ...], exact: bool = False) -> Row:
    def row(draw: Draw, pool: Pool) -> Step | None:
        a = pool.pick(draw, dtypes, least_rank=1)
        if a is None:
            return None
        axis = draw(st.integers(0, len(a.shape) - 1))
        keep = draw(st.booleans())
        shape = tuple(
            1 if k == axis else size for k, size in enumerate(a.shape) if keep or k != axis
        )
        if a.shape[axis] == 0:
            return None
        scale = "" if name != "reduce_sum" or a.dtype in INTEGERS else f" / {a.shape[axis]}"
        code = f"tf.{name}({a.name}, {axis}, keepdims={keep}){scale}"
        kept = exact or (a.dtype in INTEGERS and name == "reduce_sum")
        return Step(code, shape, a.dtype, kept and a.exact)

    return row


def _argmax(draw: Draw, pool: Pool) -> Step | None:
    a = pool.pick(draw, ("float32", "float64", "int32"), least_rank=1, exact=True)
    if a is None:
        return None
    axis = draw(st.integers(0, len(a.shape) - 1))
    if a.shape[axis] == 0:
        return None
    name = draw(st.sampled_from(["argmax", "argmin"]))
    shape = tuple(size for k, size in enumerate(a.shape) if k != axis)
    return Step(f"tf.{name}({a.name}, {axis})", shape, "int64", True)


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
    shape = draw(st.sampled_from([one for one in choices if len(one) <= 4]))
    return Step(f"tf.reshape({a.name}, {list(shape)})", shape, a.dtype, a.exact)


def _slice(draw: Draw, pool: Pool) -> Step | None:
    a = pool.pick(draw, least_rank=1)
    if a is None or a.shape[0] < 2:
        return None
    begin = draw(st.integers(0, a.shape[0] - 1))
    step = draw(st.integers(1, 3))
    rows = len(range(begin, a.shape[0], step))
    return Step(f"{a.name}[{begin}::{step}]", (rows, *a.shape[1:]), a.dtype, a.exact)


def _gather(draw: Draw, pool: Pool) -> Step | None:
    a = pool.pick(draw, least_rank=1)
    if a is None or not a.shape[0]:
        return None
    rows = draw(st.sampled_from([1, 5, 64, 301]))
    shape = (rows, *a.shape[1:])
    if _count(shape) > MOST_ELEMENTS:
        return None
    code = f"tf.gather({a.name}, tf.range({rows}) * 7 % {a.shape[0]})"
    return Step(code, shape, a.dtype, a.exact)


def _concat(draw: Draw, pool: Pool) -> Step | None:
    a = pool.pick(draw, least_rank=1)
    b = None if a is None else pool.pick(draw, (a.dtype,), rank=len(a.shape))
    if a is None or b is None or a.size + b.size > MOST_ELEMENTS:
        return None
    axis = draw(st.integers(0, len(a.shape) - 1))
    if any(x != y for k, (x, y) in enumerate(zip(a.shape, b.shape, strict=True)) if k != axis):
        return None
    shape = tuple(
        x + y if k == axis else x for k, (x, y) in enumerate(zip(a.shape, b.shape, strict=True))
    )
    code = f"tf.concat([{a.name}, {b.name}], {axis})"
    return Step(code, shape, a.dtype, a.exact and b.exact)


def _along(code: str, dtypes: tuple[str, ...], exact: bool = False, ordered: bool = False) -> Row:
    """A row for ops that keep the shape and work along one axis."""

    def row(draw: Draw, pool: Pool) -> Step | None:
        a = pool.pick(draw, dtypes, least_rank=1, exact=ordered)
        if a is None:
            return None
        axis = draw(st.integers(0, len(a.shape) - 1))
        if a.shape[axis] == 0:
            return None
        kept = exact or a.dtype in INTEGERS
        scaled = code.format(a=a.name, axis=axis, size=a.shape[axis])
        return Step(scaled, a.shape, a.dtype, kept and a.exact)

    return row


def _where(draw: Draw, pool: Pool) -> Step | None:
    a = pool.pick(draw, NUMBERS)
    c = None if a is None else pool.pick(draw, ("bool",))
    b = None if a is None else pool.pick(draw, (a.dtype,))
    if a is None or b is None or c is None:
        return None
    shape = broadcast(a.shape, b.shape)
    shape = None if shape is None else broadcast(shape, c.shape)
    if shape is None or _count(shape) > MOST_ELEMENTS:
        return None
    code = f"tf.where({c.name}, {a.name}, {b.name})"
    return Step(code, shape, a.dtype, a.exact and b.exact and c.exact)


def _cast(draw: Draw, pool: Pool) -> Step | None:
    a = pool.pick(draw, (*REAL, "bool"), exact=True)
    if a is None:
        return None
    to = draw(st.sampled_from(["float32", "float64", "int32", "int64"]))
    return Step(f"tf.cast({a.name}, tf.{to})", a.shape, to, True)


def _top_k(draw: Draw, pool: Pool) -> Step | None:
    a = pool.pick(draw, ("float32", "float64", "int32"), least_rank=1, exact=True)
    if a is None or a.shape[-1] < 3:
        return None
    which = draw(st.integers(0, 1))
    dtype = "int32" if which else a.dtype
    return Step(f"tf.math.top_k({a.name}, 3)[{which}]", (*a.shape[:-1], 3), dtype, True)


def _boolean_mask(draw: Draw, pool: Pool) -> Step | None:
    a = pool.pick(draw, ("float32", "float64"), rank=1)
    c = None if a is None else pool.pick(draw, ("bool",), rank=1)
    if a is None or c is None or a.shape != c.shape:
        return None
    code = f"tf.reduce_sum(tf.boolean_mask({a.name}, {c.name})) / {max(a.size, 1)}"
    return Step(code, (), a.dtype, False)


def _segment_sum(draw: Draw, pool: Pool) -> Step | None:
    a = pool.pick(draw, ("float32", "float64", "int32"), least_rank=1)
    if a is None or not a.shape[0]:
        return None
    count = draw(st.sampled_from([1, 3, 64]))
    ids = f"tf.range({a.shape[0]}) * 5 % {count}"
    name = draw(st.sampled_from(["sum", "max"]))
    code = f"tf.math.unsorted_segment_{name}({a.name}, {ids}, {count})"
    if a.dtype != "int32" and name == "sum":
        code += f" / {a.shape[0]}"
    elif a.shape[0] < count:
        return None  # the largest negative number for an empty segment
    exact = a.exact and (name == "max" or a.dtype == "int32")
    return Step(code, (count, *a.shape[1:]), a.dtype, exact)


def _random(draw: Draw, pool: Pool) -> Step | None:
    a = pool.pick(draw, ("float32", "float64"))
    if a is None:
        return None
    name = draw(st.sampled_from(["normal", "uniform"]))
    seed = draw(st.integers(0, 3))
    noise = f"tf.random.stateless_{name}({list(a.shape)}, [{seed}, 1], dtype='{a.dtype}')"
    return Step(f"{a.name} * tf.cast({noise}, {a.name}.dtype)", a.shape, a.dtype, False)


def _state(draw: Draw, pool: Pool) -> Step | None:
    a = pool.pick(draw, ("float64",))
    if a is None:
        return None
    how = draw(st.sampled_from(["assign_add(0.25)", "assign(0.5)", "read_value()"]))
    return Step(f"{a.name} * state.{how}", a.shape, "float64", False)


def _solve(draw: Draw, pool: Pool) -> Step | None:
    a = pool.pick(draw, ("float32", "float64"), rank=2)
    if a is None or not 0 < a.shape[0] <= 64 or not a.shape[1]:
        return None
    gram = f"tf.matmul({a.name}, {a.name}, transpose_b=True) / {a.shape[1]}"
    root = f"tf.linalg.cholesky({gram} + tf.eye({a.shape[0]}, dtype=tf.{a.dtype}))"
    return Step(f"tf.linalg.triangular_solve({root}, {a.name})", a.shape, a.dtype, False)


def _map(draw: Draw, pool: Pool) -> Step | None:
    a = pool.pick(draw, ("float32", "float64"), least_rank=2)
    if a is None or not 0 < a.shape[0] <= 64 or a.size == 0:
        return None
    which = draw(st.sampled_from(["map", "scan", "max"]))
    if which == "map":
        code = f"tf.map_fn(lambda row: tf.tanh(row) * 0.5, {a.name})"
        return Step(code, a.shape, a.dtype, False)
    if which == "max":
        code = f"tf.map_fn(lambda row: tf.reduce_max(row, 0), {a.name})"
        return Step(code, (a.shape[0], *a.shape[2:]), a.dtype, a.exact)
    code = f"tf.scan(lambda c, row: tf.tanh(c + row), {a.name}, tf.zeros_like({a.name}[0]))"
    return Step(code, a.shape, a.dtype, False)


def _constant(values: list[str]) -> Row:
    def row(draw: Draw, pool: Pool) -> Step | None:
        a = pool.pick(draw, FLOATS)
        if a is None:
            return None
        return Step(draw(st.sampled_from(values)).format(a=a.name), a.shape, a.dtype, False)

    return row


ROWS: Mapping[str, Row] = {
    "abs": _unary("tf.abs({a})", REAL, exact=True),
    "add": _binary("({a} + {b}) * 0.5", (*FLOATS, *COMPLEX)),
    "argmax": _argmax,
    "boolean_mask": _boolean_mask,
    "cast": _cast,
    "concat": _concat,
    "cond": _constant(
        [
            "tf.cond(flag, lambda: tf.sin({a}), lambda: tf.tanh({a}))",
            "tf.switch_case(tf.cast(flag, tf.int32), [lambda: {a}, lambda: tf.sin({a})])",
        ]
    ),
    "cumsum": _along("tf.cumsum({a}, {axis}) / {size}", FLOATS),
    "distance": _distance,
    "equal": _binary("tf.equal({a}, {b})", (*REAL, "bool"), compares=True, exact=True),
    "exp": _unary("tf.exp(-tf.square({a}))", FLOATS),
    "gather": _gather,
    "greater": _binary("tf.greater({a}, {b})", REAL, compares=True, exact=True),
    "log_softmax": _unary("tf.nn.log_softmax({a}[None])[0] * 0.1", FLOATS),
    "logical": _binary("tf.logical_or({a}, tf.logical_not({b}))", ("bool",)),
    "logsumexp": _reduce("reduce_logsumexp", FLOATS),
    "map": _map,
    "matmul": _matmul,
    "max": _reduce("reduce_max", REAL, exact=True),
    "maximum": _binary("tf.maximum({a}, {b})", REAL, exact=True),
    "mean": _reduce("reduce_mean", FLOATS),
    "min": _reduce("reduce_min", REAL, exact=True),
    "multiply": _binary("{a} * {b}", (*FLOATS, *COMPLEX)),
    "nested": _unary("nested({a})", FLOATS),
    "norm": _unary("tf.sqrt(1 + tf.square({a})) - 1", FLOATS),
    "outer": _outer,
    "pad": _along("tf.reverse({a}, [{axis}])", NUMBERS, exact=True),
    "random": _random,
    "reshape": _reshape,
    "roll": _along("tf.roll({a}, 3, {axis})", NUMBERS, exact=True),
    "segment": _segment_sum,
    "sigmoid": _unary("tf.sigmoid({a})", FLOATS),
    "slice": _slice,
    "softmax": _along("tf.nn.softmax({a}, {axis})", ("float32", "float64")),
    "solve": _solve,
    "sort": _along("tf.sort({a}, {axis})", ("float32", "float64", "int32"), exact=True),
    "state": _state,
    "subtract": _binary("{a} - 0.5 * {b}", FLOATS),
    "sum": _reduce("reduce_sum", (*FLOATS, *COMPLEX, "int32", "int64")),
    "tanh": _unary("tf.tanh({a})", FLOATS),
    "top_k": _top_k,
    "transpose": _transpose,
    "where": _where,
    "while": _constant(
        ["tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, tf.tanh(v)), (0, {a}))[1]"]
    ),
}


def _count(shape: Shape) -> int:
    made = 1
    for size in shape:
        made *= size
    return made
