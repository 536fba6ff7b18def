"""What a MemoryLimitError reports about the plan with the smallest limit."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from programs import normal, rbf

import tf_exla

X = normal(1501, 3)
SEED = tf.constant([1, 2])
# Numbers that differ, since the program itself makes a constant of equal numbers.
WIDE = tf.reshape(tf.range(200_003 * 5, dtype=tf.float64), [200_003, 5])


def sums(x: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(rbf(x, x), 1)


def whole(x: tf.Tensor) -> tf.Tensor:
    return tf.linalg.cholesky(rbf(x[:501], x[:501]) + tf.eye(501, dtype=x.dtype))


def output(x: tf.Tensor) -> tf.Tensor:
    k = rbf(x, x)
    return k / tf.reduce_sum(k, 1, keepdims=True)


def repeated(x: tf.Tensor) -> tf.Tensor:
    step = lambda i, w: (i + 1, tf.tanh(tf.matmul(rbf(x, x), w)))  # noqa: E731
    return tf.while_loop(lambda i, w: i < 3, step, (0, x))[1]


def small(x: tf.Tensor) -> tf.Tensor:
    return 2.0 * x[:7]


def masked(x: tf.Tensor) -> tf.Tensor:
    return tf.exp(tf.boolean_mask(tf.tile(x, [1, 50]), x[:, 0] > 0))


PROGRAMS: tuple[Callable[..., Any], ...] = (sums, whole, output, repeated, small, masked)


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda one: one.__name__)
def test_parts_explain_the_smallest_limit(function: Callable[..., Any]) -> None:
    with pytest.raises(tf_exla.MemoryLimitError) as info:
        tf_exla.explain(function, X, limit=1)
    error = info.value
    assert error.resident + sum(one.bytes for one in error.parts) == error.smallest_limit
    text = str(error)
    assert text.index(f"{error.smallest_limit} bytes") < text.index("exceeds the limit")
    for one in error.parts:
        if 50 * one.bytes > error.smallest_limit:
            assert one.what in text
    if error.blocker is not None:
        # It is alive in the smallest plan, not a tensor of the program before it was split.
        assert error.blocker.bytes <= error.smallest_limit - error.resident
    report = tf_exla.explain(function, X, limit=error.smallest_limit)
    assert report.projected_peak <= error.smallest_limit


def test_blocker_is_of_the_smallest_plan() -> None:
    """The matrix for which the program was split no longer exists."""
    with pytest.raises(tf_exla.MemoryLimitError) as info:
        tf_exla.explain(sums, X, limit=1)
    error = info.value
    assert error.projected_peak > 8 * 1501**2
    assert error.blocker is not None
    assert error.blocker.bytes < 100_000
    assert "iteration" in str(error)


@pytest.mark.parametrize("held", ["argument", "captured", "variable", "closure"])
def test_largest_residents_are_named(held: str) -> None:
    variable = tf.Variable(WIDE, name="wide")
    array = WIDE.numpy()
    functions: dict[str, Callable[..., Any]] = {
        "argument": lambda x: tf.reduce_sum(x),
        "captured": lambda x: tf.reduce_sum(WIDE) + x[0, 0],
        "variable": lambda x: tf.reduce_sum(variable) + x[0, 0],
        "closure": lambda x: tf.reduce_sum(array) + x[0, 0],
    }
    argument = WIDE if held == "argument" else WIDE[:2]
    for limit in ("1MB", "8.5MB"):
        with pytest.raises(tf_exla.MemoryLimitError) as info:
            tf_exla.explain(functions[held], argument, limit=limit)
        size = "8.00 MB"
        named = "wide" if held == "variable" else "float64[200003, 5]"
        assert info.value.residents[0].bytes == 8 * 5 * 200_003
        assert named in info.value.residents[0].what
        assert f"{info.value.residents[0].what} {size}" in str(info.value)


def descending(x: tf.Tensor) -> tf.Tensor:
    k = tf.sin(3 * x[:600, :1] * x[None, :480, 1]) + x[:600, :1]
    return tf.reduce_sum(tf.sort(k, axis=0, direction="DESCENDING") * x[:600, :1], 0)


def any_far(x: tf.Tensor) -> tf.Tensor:
    return tf.reduce_any(tf.abs(x[:, None] - x[None]) > 4.0, -1)


def ratio(x: tf.Tensor) -> tf.Tensor:
    wide = tf.tile(x[:300], [1, 14])
    norms = tf.reduce_sum((wide * wide)[:, None] + 0 * wide[None], -1)
    return tf.reduce_sum(wide[:, None] * wide[None], -1) / tf.sqrt(norms)


def transcription(x: tf.Tensor) -> tf.Tensor:
    """A loss with contractions inside of loops."""
    logits = tf.cast(tf.reshape(tf.tile(x[:400], [1, 16]), [16, 40, 30]), tf.float32)
    labels = 1 + tf.reshape(tf.range(16 * 12), [16, 12]) % 29
    return tf.nn.ctc_loss(
        labels, logits, tf.fill([16], 12), tf.fill([16], 40), logits_time_major=False, blank_index=0
    )


FEASIBLE = (*PROGRAMS, descending, any_far, ratio, transcription)


@pytest.mark.each_value
@pytest.mark.parametrize("function", FEASIBLE, ids=lambda one: one.__name__)
@pytest.mark.parametrize("rewrites", [None, False])
def test_the_smallest_limit_is_feasible(
    function: Callable[..., Any], rewrites: bool | None
) -> None:
    feasible(function, rewrites, (0, 5000))


@pytest.mark.thorough
@pytest.mark.parametrize("function", FEASIBLE, ids=lambda one: one.__name__)
@pytest.mark.parametrize("rewrites", [None, False])
def test_larger_limits_are_feasible(function: Callable[..., Any], rewrites: bool | None) -> None:
    feasible(function, rewrites, (8, 1000, 20_000, 50_000))


def feasible(function: Callable[..., Any], rewrites: bool | None, larger_by: Sequence[int]) -> None:
    """Check that a plan holds the smallest limit that an error names, and larger ones."""
    with pytest.raises(tf_exla.MemoryLimitError) as info:
        tf_exla.optimize(function, 1, strict=True, rewrites=rewrites)(X)
    limit = info.value.smallest_limit
    assert limit is not None
    for larger in larger_by:
        optimized = tf_exla.optimize(function, limit + larger, strict=True, rewrites=rewrites)
        assert optimized.report(X).projected_peak <= limit + larger


def test_errors_pass_through_functions_that_autograph_converts() -> None:
    optimized = tf_exla.optimize(lambda x: 2 * tf.sort(x), 1000, strict=True)

    @tf.function
    def step(x: tf.Tensor) -> tf.Tensor:
        return 1 + optimized(x)

    with pytest.raises(tf_exla.MemoryLimitError) as info:
        step(tf.ones(100_000))
    assert info.value.smallest_limit is not None


def test_a_slow_smallest_limit_is_called_slow() -> None:
    """Paths of a simulation, one at a time."""

    def paths(seed: tf.Tensor) -> tf.Tensor:
        drawn = tf.random.stateless_normal([20, 20_011], seed, dtype=tf.float64)
        return tf.reduce_mean(tf.exp(tf.cumsum(0.1 * drawn, 0)))

    with pytest.raises(tf_exla.MemoryLimitError, match="times as long as unsplit") as error:
        tf_exla.explain(tf.function(paths), SEED, limit=1)
    assert error.value.slowdown > 10
    assert pickle.loads(pickle.dumps(error.value)).slowdown == error.value.slowdown
    faster = error.value.faster_limit
    assert faster is not None
    assert error.value.smallest_limit < faster < 8 * error.value.smallest_limit
    steps = tf_exla.explain(tf.function(paths), SEED, limit=faster).steps
    assert steps[-1].seconds < 3 * steps[0].seconds_before
    with pytest.raises(tf_exla.MemoryLimitError) as error:
        tf_exla.explain(tf.function(sums), X, limit=1)
    assert str(error.value).count("times as long") == (error.value.slowdown >= 10)


def both_ways(x: tf.Tensor, chances: tf.Tensor) -> tf.Tensor:
    """Forward and backward passes over the rows of an input, each with a list of them."""

    def forth(before: tf.Tensor, row: tf.Tensor) -> tf.Tensor:
        made = tf.linalg.matvec(chances, before, transpose_a=True) * tf.exp(row)
        return made / tf.reduce_sum(made)

    def back(after: tf.Tensor, row: tf.Tensor) -> tf.Tensor:
        made = tf.linalg.matvec(chances, after * tf.exp(row))
        return made / tf.reduce_sum(made)

    forward = tf.scan(forth, x, tf.ones_like(x[0]))
    backward = tf.scan(back, x, tf.ones_like(x[0]), reverse=True)
    both = forward[:-1] * backward[1:]
    return tf.reduce_mean(both / tf.reduce_sum(both, 1, keepdims=True), 0)


def test_a_limit_that_stock_holds_is_not_refused() -> None:
    """The lists of two scans are equal: merged, one list would live for both."""
    rng = np.random.default_rng(0)
    operands = tf.constant(rng.standard_normal((1_501, 211))), tf.constant(rng.random((211, 211)))
    function = tf.function(both_ways)
    stock = tf_exla.explain(function, *operands, limit=10**12).projected_peak_before
    report = tf_exla.explain(function, *operands, limit=stock)
    assert report.projected_peak <= stock
    optimized = tf_exla.optimize(both_ways, stock, strict=True)
    np.testing.assert_allclose(optimized(*operands), function(*operands), rtol=1e-12)


def test_the_faster_limit_is_faster_where_loops_follow() -> None:
    """Chunks of the smallest plan do not grow at once with the limit."""

    @tf.function
    def precision(x: tf.Tensor) -> tf.Tensor:
        x -= tf.reduce_mean(x, 0)
        covariance = tf.matmul(x, x, transpose_a=True) / 20_000
        z = tf.eye(80, dtype=x.dtype)
        for _ in tf.range(4):
            values, vectors = tf.linalg.eigh(z - covariance)
            z = (vectors * tf.sqrt(values**2 + 4)) @ tf.transpose(vectors)
        return z

    x = normal(20_000, 80)
    with pytest.raises(tf_exla.MemoryLimitError) as error:
        tf_exla.explain(precision, x, limit=1000)
    for limit, most in ((error.value.smallest_limit, 1.05 * error.value.slowdown),
                        (error.value.faster_limit, 3)):  # fmt: skip
        if limit is not None:
            steps = tf_exla.explain(precision, x, limit=limit).steps
            assert steps[-1].seconds <= most * steps[0].seconds_before
