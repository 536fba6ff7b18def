"""The same program traced again: neither planned nor restored again, with its own numbers."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tf_exla
from tf_exla.frontends.tf.planning import planner

RNG = np.random.default_rng(0)
N = 1501
LIMIT = "3MB"


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the functions that were planned."""
    names: list[str] = []
    real = planner.optimize_graph

    def counted(*args: Any, **kwargs: Any) -> Any:
        names.append(kwargs["function"])
        return real(*args, **kwargs)

    monkeypatch.setattr(planner, "optimize_graph", counted)
    return names


def points(rows: int = N) -> Any:
    return tf.constant(RNG.normal(size=(rows, 3)))


def kernel(x: Any, y: Any) -> Any:
    squares = tf.reduce_sum(x**2, 1)[:, None] + tf.reduce_sum(y**2, 1)[None]
    return tf.exp(-0.5 * (squares - 2.0 * tf.matmul(x, y, transpose_b=True)))


def captured(x: Any) -> Any:
    """A function that captures a constant, whose norms are computed once."""
    return tf.function(lambda v: tf.matmul(kernel(x, x), v), autograph=False)


def of_variable(x: Any) -> Any:
    scale = tf.Variable(tf.reduce_mean(x))

    def function(v: Any) -> Any:
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(tf.matmul(kernel(x * scale, x), v))
        return value, tape.gradient(value, scale), scale.assign_add(1.0)

    return tf.function(function, autograph=False)


def looped(x: Any) -> Any:
    def function(v: Any) -> Any:
        def step(k: Any, v: Any) -> Any:
            return k + 1, tf.matmul(kernel(x, x), v) / N

        return tf.while_loop(lambda k, _: k < 3, step, (0, v))[1]

    return tf.function(function, autograph=False)


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "constant": captured,
    "variable": of_variable,
    "loop": looped,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_trace_has_its_own_numbers(name: str, planned: list[str]) -> None:
    v = points()[:, :1]
    counts = []
    for x in (points(), points(), points()):
        stock, optimized = PROGRAMS[name](x), tf_exla.optimize(PROGRAMS[name](x), LIMIT)
        for _ in range(2):  # the second call of one function as well
            for a, b in zip(tf.nest.flatten(optimized(v)), tf.nest.flatten(stock(v)), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-9)
        assert optimized.report(v).projected_peak <= 3_000_000
        counts.append(len(planned))
    assert counts[0] > 0
    assert counts == counts[:1] * 3


def test_gradients_of_an_outer_tape(planned: list[str]) -> None:
    counts = []
    for x in (points(), points()):
        v = points()[:, :1]
        optimized = tf_exla.optimize(captured(x), LIMIT)
        found = []
        for function in (captured(x), optimized):
            with tf.GradientTape() as tape:
                tape.watch(v)
                value = tf.reduce_sum(function(v) ** 2)
            found.append(tape.gradient(value, v))
        np.testing.assert_allclose(found[1], found[0], rtol=1e-9)
        counts.append(len(planned))
    assert counts[0] == counts[1]


def test_what_makes_another_plan(planned: list[str]) -> None:
    v, x = points()[:, :1], points()

    def plans(x: Any, v: Any, limit: str = LIMIT, **options: Any) -> int:
        before = len(planned)
        tf_exla.optimize(captured(x), limit, **options).report(v)
        return len(planned) - before

    assert plans(x, v) > 0
    assert plans(x, v) == 0
    assert plans(x, v, limit="4MB") > 0
    assert plans(points(N + 2), points(N + 2)[:, :1]) > 0
    assert plans(tf.cast(x, tf.float32), tf.cast(v, tf.float32)) > 0
    assert plans(x, v, rewrites={"triangles": False}) > 0
    assert plans(x, v, jit_compile=False) > 0


def test_a_refusal_is_not_kept(planned: list[str]) -> None:
    v, x = points()[:, :1], points()
    for _ in range(2):
        before = len(planned)
        with pytest.raises(tf_exla.MemoryLimitError):
            tf_exla.explain(captured(x), v, limit="60kB")
        assert len(planned) > before


def test_random_numbers_of_a_seed_begin_anew() -> None:
    """The state of a seeded op belongs to the function, so it is not shared."""

    def make() -> Any:
        return tf.function(lambda x: x + tf.random.normal([3], seed=5, dtype=x.dtype))

    x = tf.zeros(3, tf.float64)
    draws = []
    for optimize in (lambda f: f, lambda f: tf_exla.optimize(f, "2MB")):
        tf.random.set_seed(1)
        functions = [optimize(make()), optimize(make())]
        draws.append(np.stack([f(x) for f in (*functions, *functions)]))
    np.testing.assert_array_equal(draws[0], draws[1])


def test_python_functions_are_each_ones_own() -> None:
    def make(factor: float) -> Any:
        return tf.function(lambda x: tf.numpy_function(lambda a: a * factor, [x], tf.float64) + 1.0)

    x = points(5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for factor in (2.0, 3.0):
            optimized = tf_exla.optimize(make(factor), "10MB", unbounded="warn")
            np.testing.assert_allclose(optimized(x), x * factor + 1.0)


def segments(x: Any) -> Any:
    """Their number is known to a call, not to a graph that calls the function."""
    return tf.math.segment_sum(x, tf.sort(tf.cast(tf.abs(x[:, 0]), tf.int32)))


def test_warnings_are_repeated(planned: list[str]) -> None:
    x = points(7)
    for k in range(2):
        optimized = tf_exla.optimize(tf.function(segments), 10**9, unbounded="warn")
        before = len(planned)
        with pytest.warns(tf_exla.UnboundedMemoryWarning, match="not counted"):
            found = tf.function(lambda x: tf.exp(optimized(x)))(x)  # noqa: B023
        np.testing.assert_allclose(found, tf.exp(segments(x)))
        assert (len(planned) > before) == (k == 0)


def test_threads_share_a_plan() -> None:
    x = [points() for _ in range(8)]
    v = points()[:, :1]
    expected = [captured(one)(v).numpy() for one in x]
    found: list[Any] = [None] * len(x)

    def work(k: int) -> None:
        optimized = tf_exla.optimize(captured(x[k]), LIMIT)
        found[k] = [optimized(v).numpy() for _ in range(3)]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(len(x))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for a, b in zip(found, expected, strict=True):
        for one in a:
            np.testing.assert_allclose(one, b, rtol=1e-9)
