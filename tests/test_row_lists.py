"""Loops over the rows of arguments: rows are read from the argument, not from a list of copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
from fresh_process import run_fresh
from programs import normal, with_gradients
from programs_check import difference

import tf_exla

X, V = normal(503, 211), normal(211, 3, seed=1)
BYTES = 503 * 211 * 8


def mapped(x: tf.Tensor, v: tf.Tensor) -> Any:
    return tf.map_fn(lambda row: tf.linalg.matvec(v, row, transpose_a=True), x)


def of_two(x: tf.Tensor, v: tf.Tensor) -> Any:
    mask = tf.cast(x > 0, x.dtype)
    step = lambda rows: tf.reduce_sum(rows[0] * rows[1])  # noqa: E731
    return tf.map_fn(step, (x, mask), fn_output_signature=x.dtype) + tf.reduce_sum(v)


def scanned(x: tf.Tensor, v: tf.Tensor) -> Any:
    return tf.scan(lambda h, row: tf.tanh(h + tf.linalg.matvec(v, row, transpose_a=True)), x, v[0])


def nested(x: tf.Tensor, v: tf.Tensor) -> Any:
    """The rows of all columns, for each column of `v`."""
    inner = lambda column: tf.map_fn(lambda row: tf.tensordot(row, column, 1), x)  # noqa: E731
    return tf.reduce_sum(tf.map_fn(inner, tf.transpose(v)), 1)


def listed(x: tf.Tensor, v: tf.Tensor) -> Any:
    """A TensorArray that is read backward, and whose size is read."""
    rows = tf.TensorArray(x.dtype, x.shape[0]).unstack(x)

    def step(i: tf.Tensor, total: tf.Tensor) -> Any:
        return i + 1, 0.9 * total + rows.read(rows.size() - 1 - i)

    return tf.while_loop(lambda i, _: i < rows.size(), step, (0, v[:, 0]))[1]


def written(x: tf.Tensor, v: tf.Tensor) -> Any:
    """A list that the loop changes: it must stay one."""
    rows = tf.TensorArray(x.dtype, x.shape[0], clear_after_read=False).unstack(x)

    def step(i: tf.Tensor, rows: tf.TensorArray) -> Any:
        return i + 1, rows.write(i, rows.read(i) + rows.read(i - 1))

    return tf.while_loop(lambda i, _: i < 100, step, (1, rows))[1].stack() + v[0, 0]


def stacked(x: tf.Tensor, v: tf.Tensor) -> Any:
    """A list that is also read as a whole."""
    rows = tf.TensorArray(x.dtype, x.shape[0], clear_after_read=False).unstack(x)
    step = lambda i, total: (i + 1, total + rows.read(i))  # noqa: E731
    return tf.while_loop(lambda i, _: i < 99, step, (0, v[:, 0]))[1], rows.stack()


PROGRAMS = {
    one.__name__: one for one in (mapped, of_two, scanned, nested, listed, written, stacked)
}
NO_COPY = {"mapped", "of_two", "scanned", "nested", "listed"}


def check(name: str, gradients: bool) -> list[dict[str, Any]]:
    function: Callable[..., Any] = PROGRAMS[name]
    stock = tf.function(with_gradients(function) if gradients else function, autograph=False)
    with pytest.raises(tf_exla.MemoryLimitError) as info:
        tf_exla.explain(stock, X, V, limit=1)
    before = tf_exla.explain(stock, X, V, limit=10**12).projected_peak_before
    found = []
    for limit in (info.value.smallest_limit, max(info.value.smallest_limit, before * 2 // 3)):
        optimized = tf_exla.optimize(stock, limit)
        found.append({
            "before": before,
            "limit": limit,
            "projected": optimized.report(X, V).projected_peak,
            "measured": int(tf_exla.measured_peak(optimized, X, V)),
            "worst": difference(stock(X, V), optimized(X, V), 1e-9),
        })  # fmt: skip
    return found


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("gradients", [False, True])
def test_rows_of_arguments(name: str, gradients: bool) -> None:
    found = run_fresh(check, name, gradients)
    for one in found:
        assert one["measured"] <= one["projected"] <= one["limit"], one
        assert one["worst"] <= 1, one
    if name in NO_COPY and not gradients:  # no list
        assert found[0]["limit"] < found[0]["before"] - BYTES, found[0]


def test_a_refusal_says_what_a_list_holds() -> None:
    with pytest.raises(tf_exla.MemoryLimitError, match=r"\(a list of tensors \[211\]\)"):
        tf_exla.explain(lambda x: tf.reduce_sum(tf.map_fn(tf.sort, x), 0), X, limit=1)
