"""Solves of few right-hand sides; products of sums that share what the graph has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gpflow
import numpy as np
import pytest
import tensorflow as tf

import tf_exla
from rewriting.rewritten import Outcome, check_numbers, only, random, rewritten, run

SOLVES = only("solves", "cleanup")
M, N = 20, 300
Program = Callable[..., Any]


def t(x: tf.Tensor) -> tf.Tensor:
    return tf.linalg.matrix_transpose(x)


def lower(*shape: int, dtype: str = "float64") -> tf.Tensor:
    """Return well-conditioned triangles."""
    return tf.linalg.band_part(0.1 * random(*shape, dtype=dtype), -1, 0) + 2 * tf.eye(
        shape[-1], dtype=dtype
    )


def solve(left: tf.Tensor, right: tf.Tensor, **how: bool) -> tf.Tensor:
    return tf.linalg.triangular_solve(left, right, **how)


def arguments(dtype: str = "float64") -> tuple[tf.Tensor, ...]:
    return (
        lower(M, M, dtype=dtype),
        random(M, M, dtype=dtype),
        random(M, N, dtype=dtype),
        random(M, 1, dtype=dtype),
        random(N, 1, dtype=dtype),
    )


def widths(outcome: Outcome, op: str = "solve_triangular") -> list[int]:
    """Return the columns of all results of `op`."""
    return [n.output.dims[-1] for n in outcome.result.graph.nodes if n.op == op]


@pytest.mark.parametrize(
    "right",
    [
        lambda s, a, b, e: s @ a,
        lambda s, a, b, e: s @ a + b @ t(e),
        lambda s, a, b, e: s @ a - b @ t(e),
        lambda s, a, b, e: t(t(a) @ s) - 2.0 * (b @ t(e)),
        lambda s, a, b, e: tf.add_n([s @ a, b @ t(e), t(s) @ a]),
        lambda s, a, b, e: (s @ a) * e[:, 0] + (b @ t(e)) / 3.0,
        lambda s, a, b, e: b * (s @ a),
        lambda s, a, b, e: 0.5 * ((s @ (s @ a)) * e[:, 0] - b @ t(e)),
    ],
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("low", "adjoint"), [(True, False), (True, True), (False, True)])
def test_few_right_hand_sides_are_left(
    right: Program, dtype: str, low: bool, adjoint: bool
) -> None:
    def fn(k: tf.Tensor, *rest: tf.Tensor) -> tf.Tensor:
        return solve(k if low else t(k), right(*rest), lower=low, adjoint=adjoint)

    outcome = check_numbers(fn, *arguments(dtype), families=SOLVES)
    assert "solve-of-product" in outcome.names
    assert max(widths(outcome)) <= M
    assert widths(outcome).count(M) == 1


def test_batches() -> None:
    args = (lower(3, M, M), random(3, M, M), random(3, M, N))
    outcome = check_numbers(lambda k, s, a: solve(k, s @ a), *args, families=SOLVES)
    assert widths(outcome) == [M]


@pytest.mark.parametrize(
    ("fn", "shapes", "reason"),
    [
        (lambda k, s, a: solve(k, s @ a), [(M, M), (M, M), (M, M)], "few columns"),
        (lambda k, s, a: solve(k, s @ a), [(M, M), (M, M), (M, M - 5)], "few columns"),
        (lambda k, s, a: solve(k, s @ a), [(M, M), (M, M), (M, M + 1)], "few columns"),
        (lambda k, s, a: solve(k, s @ a), [(M, M), (M, N - 1), (N - 1, N)], "few columns"),
        (lambda k, s, a: solve(k, s @ a + a), [(M, M), (M, M), (M, N)], "few columns"),
        (lambda k, s, a: solve(k, s @ a), [(3, M, M), (M, M), (M, N)], "is broadcast"),
        (lambda k, s, a: solve(k, s @ a), [(3, M, M), (M, M), (3, M, N)], "is broadcast"),
        (lambda k, s, a: solve(k, s @ a), [(M, M), (M, M), (3, M, N)], "is broadcast"),
        (lambda k, s, a: solve(k, s @ a), [(0, 0), (0, 0), (0, N)], ""),
        (lambda k, s, a: solve(k, s @ a), [(M, M), (M, M), (M, 0)], ""),
        (lambda k, s, a: solve(k, s @ a), [(1, 1), (1, 1), (1, 1)], ""),
    ],
)
def test_refusals(fn: Program, shapes: list[tuple[int, ...]], reason: str) -> None:
    first, *rest = shapes
    args = (lower(*first), *(random(*shape, seed=i) for i, shape in enumerate(rest)))
    outcome = check_numbers(fn, *args, families=SOLVES)
    assert not outcome.result.applications
    assert reason in outcome.reasons


@pytest.mark.parametrize("dtype", ["complex64", "complex128", "float16"])
def test_other_dtypes_stay(dtype: str) -> None:
    args = (tf.cast(arg, dtype) for arg in arguments()[:3])
    assert not rewritten(lambda k, s, a: solve(k, s @ a), *args).result.applications


def test_a_product_that_is_read_elsewhere_stays() -> None:
    def fn(k: tf.Tensor, s: tf.Tensor, a: tf.Tensor) -> Any:
        right = s @ a
        return right, solve(k, right)

    outcome = check_numbers(fn, *arguments()[:3], families=SOLVES)
    assert widths(outcome) == [N]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_stays_so(bad: float) -> None:
    def fn(k: tf.Tensor, s: tf.Tensor, a: tf.Tensor) -> tf.Tensor:
        return solve(k, s @ a)

    for position in range(1, 3):
        args = [arg.numpy() for arg in arguments()[:3]]
        args[position][2, 3] = bad
        tensors = tuple(map(tf.constant, args))
        outcome = rewritten(fn, *tensors, families=SOLVES)
        assert outcome.names == ["solve-of-product"]
        (got,), want = run(outcome, outcome.result.graph, tensors), fn(*tensors).numpy()
        np.testing.assert_array_equal(np.isfinite(got), np.isfinite(want))


# Products of sums.


@pytest.mark.parametrize(
    "fn",
    [
        lambda s, a, b, e: (s @ a + b @ t(e)) @ t(a),
        lambda s, a, b, e: tf.matmul(s @ a - 2.0 * b @ t(e), a, transpose_b=True),
        lambda s, a, b, e: a @ t(s @ a + b @ t(e)),
        lambda s, a, b, e: a @ (t(a) @ s - e @ t(b)),
    ],
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_shared_products_are_used(fn: Program, dtype: str) -> None:
    def both(s: tf.Tensor, a: tf.Tensor, b: tf.Tensor, e: tf.Tensor) -> Any:
        return a @ t(a), a @ e, fn(s, a, b, e)

    outcome = check_numbers(both, *arguments(dtype)[1:], families=SOLVES)
    assert outcome.names.count("product-of-sum") == 1
    reads = [n for n in outcome.result.graph.nodes if n.op == "matmul" and _long(n)]
    assert len(reads) == 2
    assert outcome.largest <= M * N


def _long(node: Any) -> bool:
    return any(N in tensor.dims for tensor in (*node.inputs, *node.outputs))


def test_a_sum_that_is_read_elsewhere_is_multiplied_term_by_term() -> None:
    def fn(s: tf.Tensor, a: tf.Tensor, b: tf.Tensor, e: tf.Tensor) -> Any:
        total = s @ a + b @ t(e)
        return a @ t(a), total, total @ t(a)

    outcome = check_numbers(fn, *arguments()[1:], families=SOLVES)
    assert "product-of-sum" in outcome.names
    assert sum(_long(n) for n in outcome.result.graph.nodes if n.op == "matmul") <= 4


@pytest.mark.parametrize(
    ("fn", "shapes"),
    [
        (lambda s, a, b: (s @ a + b) @ t(a), [(M, M), (M, N), (M, N)]),
        (lambda s, a, b: (s @ a + b @ a) @ b, [(N, M), (M, N), (N, M)]),
        (lambda s, a, b: (s @ a + b @ a) @ a, [(3, M, M), (M, M), (M, M)]),
        (lambda s, a, b: (s @ a + b @ a) @ t(a), [(3, M, M), (3, M, N), (3, M, M)]),
        (lambda s, a, b: (s @ a + b @ a) @ t(a), [(M, M), (M, 0), (M, M)]),
        (lambda s, a, b: (s @ a + b @ a) @ t(a), [(1, 1), (1, 1), (1, 1)]),
    ],
)
def test_near_misses_keep_their_numbers(fn: Program, shapes: list[tuple[int, ...]]) -> None:
    args = [random(*shape, seed=i) for i, shape in enumerate(shapes)]
    check_numbers(fn, *args, families=SOLVES)


# A sparse Gaussian process.


def test_the_gradient_of_a_sparse_gp_solves_once() -> None:
    X = np.random.default_rng(0).standard_normal((4_001, 3))
    Y = np.sin(X.sum(1, keepdims=True))
    kernel = gpflow.kernels.Matern32(lengthscales=np.ones(3))
    model = gpflow.models.SGPR((X, Y), kernel, X[:40].copy(), noise_variance=0.1)

    def fn() -> Any:
        with tf.GradientTape() as tape:
            loss = model.training_loss()
        return loss, tape.gradient(loss, model.trainable_variables)

    made = tf_exla.optimize(fn, "2MB", rewrites={"solves": True})
    report = made.report()
    assert {one.name for one in report.rewrites} >= {"solve-of-product", "product-of-sum"}
    assert report.projected_peak <= 2_000_000
    for got, want in zip(tf.nest.flatten(made()), tf.nest.flatten(fn()), strict=True):
        got, want = tf.convert_to_tensor(got).numpy(), tf.convert_to_tensor(want).numpy()
        scale = float(np.max(np.abs(want)))  # gradients of a sum of 4,001 terms that cancel
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-9 * scale)
