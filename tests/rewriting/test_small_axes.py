"""Small axes: what is unrolled, what is not and why, numbers, memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from fresh_process import run_fresh

import tf_exla
from rewriting.rewritten import check_numbers, only, random, rewritten
from tf_exla.frontends.tf.op_set import TensorFlowOps
from tf_exla.ir.traverse import walk

SMALL = only("small-axes", "cleanup")
N, M, D = 401, 301, 5


def gaps(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return x[..., :, None, :] - y[..., None, :, :]


def columns(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.transpose(x)[:, :, None] - tf.transpose(y)[:, None]


def gradients(loss: Callable[..., tf.Tensor]) -> Callable[..., Any]:
    def both(*arguments: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            value = loss(*arguments)
        return value, tape.gradient(value, arguments)

    return both


def laplace(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.exp(-tf.reduce_sum(tf.abs(gaps(x, y)), -1))


PROGRAMS: dict[str, Callable[..., Any]] = {
    "L1": lambda x, y: tf.reduce_sum(tf.abs(gaps(x, y)), -1),
    "L1 of columns": lambda x, y: tf.reduce_sum(tf.abs(columns(x, y)), 0),
    "L1, kept": lambda x, y: tf.reduce_sum(tf.abs(gaps(x, y)), -1, keepdims=True),
    "L2": lambda x, y: tf.reduce_sum(tf.math.squared_difference(x[:, None], y[None]), -1),
    "weighted": lambda x, y: tf.reduce_sum(y[0] * tf.square(gaps(x, y) / tf.exp(x[0])), -1),
    "mean": lambda x, y: tf.reduce_mean(tf.abs(gaps(x, y)), -1),
    "norm": lambda x, y: tf.norm(gaps(x, y), axis=-1),
    "Chebyshev": lambda x, y: tf.reduce_max(tf.abs(gaps(x, y)), -1),
    "least": lambda x, y: tf.reduce_min(tf.abs(gaps(x, y)), 2),
    "product": lambda x, y: tf.reduce_prod(tf.cos(gaps(x, y)), -1),
    "all": lambda x, y: tf.reduce_all(x[:, None] > y[None] - 1, -1),
    "any": lambda x, y: tf.reduce_any(x[:, None] > y[None] + 1, -1),
    "two sums": lambda x, y: (
        tf.reduce_sum(tf.abs(gap := gaps(x, y)), -1), tf.reduce_max(gap, -1), gap[:2, :3]),
    "all axes": lambda x, y: tf.reduce_sum(tf.sin(gaps(x, y))),
    "sum and rows": lambda x, y: (tf.reduce_sum(e := tf.abs(gaps(x, y)), -1), tf.reduce_sum(e, 0)),
    "Canberra": lambda x, y: tf.reduce_sum(
        tf.abs(gaps(x, y)) / (tf.abs(x[:, None]) + tf.abs(y[None])), -1),
    "where": lambda x, y: tf.reduce_sum(tf.where(gaps(x, y) > 0, x[:, None], y[None]), -1),
    "gradients of Laplace": gradients(lambda x, y: tf.reduce_sum(laplace(x, y))),
    "gradients of a matvec": gradients(
        lambda x, y: tf.reduce_sum(x[:, :1] * tf.matmul(laplace(x, y), y))),
    "gradients of Chebyshev": gradients(
        lambda x, y: tf.reduce_sum(tf.exp(-tf.reduce_max(tf.abs(gaps(x, y)), -1)))),
    "gradients of a norm": gradients(
        lambda x, y: tf.reduce_sum(tf.exp(-tf.reduce_sum(tf.square(gaps(x, y)), -1)))),
    "waves": lambda x, y: tf.reduce_sum(
        tf.cos(tf.reshape(x, [-1])[:, None] * y[0]) * y[1], 1),
}  # fmt: skip
LARGER = {"two sums": "sliced before its sum"}  # the seed is read by what cannot be unrolled


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers(name: str, dtype: str) -> None:
    scale = 20 if name == "waves" else 1
    args = random(scale * N, D, dtype=dtype), random(M, D, dtype=dtype)
    outcome = check_numbers(PROGRAMS[name], *args, families=SMALL)
    if name in LARGER:
        assert "unroll" not in outcome.names
        return
    assert "unroll" in outcome.names, outcome.reasons
    assert outcome.largest <= max(scale * N * D, N * M)


def test_batches_and_shared_points() -> None:
    x, y = random(3, N, D), random(3, M, D)
    for program in (PROGRAMS["L1"], PROGRAMS["Chebyshev"]):
        assert "unroll" in check_numbers(program, x, y, families=SMALL).names
        outcome = check_numbers(lambda x, p=program: p(x, x), random(N, D), families=SMALL)
        assert "unroll" in outcome.names


def test_integers() -> None:
    rng = np.random.default_rng(0)
    x, y = (tf.constant(rng.integers(-99, 99, (n, D)), tf.int32) for n in (4 * N, M))
    for name in ("L1", "Chebyshev", "least", "product"):
        program = PROGRAMS[name]
        if name == "product":
            program = lambda x, y: tf.reduce_prod(gaps(x, y), -1)  # noqa: E731
        assert "unroll" in check_numbers(program, x, y, families=SMALL).names


def test_what_is_no_number_stays_where_it_is() -> None:
    x, y = random(N, D).numpy(), random(M, D).numpy()
    x[3, 2], y[5, 1], y[7] = np.nan, np.inf, -np.inf
    x[4, 1] = np.inf
    for name in ("L1", "Chebyshev", "least", "L2", "gradients of Laplace"):
        outcome = check_numbers(PROGRAMS[name], tf.constant(x), tf.constant(y), families=SMALL)
        assert "unroll" in outcome.names


@pytest.mark.parametrize(
    ("fn", "shapes", "reason"),
    [
        (lambda x, y: tf.reduce_sum(tf.abs(x) * y[0], -1), [(99_999, 5), (5, 5)], ""),
        (lambda x, y: tf.reduce_sum(gaps(x, y) ** 2, -1), [(9, 5), (8, 5)], "saves no time"),
        (lambda x, y: tf.reduce_sum(gaps(x, y) ** 2, -1), [(4, 5), (50_000, 5)], "not small"),
        (lambda x, y: tf.reduce_sum(tf.nn.softmax(gaps(x, y)), -1), [(N, 5), (M, 5)], ""),
        (lambda x, y: (g := gaps(x, y), tf.reduce_sum(g, -1)), [(N, 5), (M, 5)], "whole"),
        (
            lambda x, y: tf.reduce_sum(tf.matmul(tf.abs(gaps(x, y)), y, transpose_b=True), -1),
            [(N, 5), (M, 5)],
            "matmul is done",
        ),
        (
            lambda x, y: tf.reduce_sum(tf.sin(tf.cos(tf.abs(tf.tanh(tf.exp(gaps(x, y)))))), -1),
            [(N, 64), (M, 64)],
            "",
        ),
        (
            lambda x, y: (tf.reduce_sum(
                e := tf.sin(tf.cos(tf.abs(tf.tanh(tf.exp(tf.sin(tf.cos(tf.abs(gaps(x, y)))))))))
                * tf.exp(gaps(x, y)), -1), tf.reduce_max(e, -1)),
            [(N, 64), (M, 64)],
            "nodes",
        ),
    ],
)  # fmt: skip
def test_refuses(fn: Callable[..., Any], shapes: list[Any], reason: str) -> None:
    args = [random(*shape, seed=i) for i, shape in enumerate(shapes)]
    outcome = check_numbers(fn, *args, families=SMALL)
    if reason:
        assert reason in outcome.reasons
        assert "unroll" not in outcome.names


def test_heads_of_attention_stay() -> None:
    q = random(2, 4, 300, 8)

    def attention(q: tf.Tensor) -> tf.Tensor:
        return tf.nn.softmax(tf.matmul(q, q, transpose_b=True)) @ q

    assert "unroll" not in rewritten(attention, q).names


def test_the_naive_distance_goes_first() -> None:
    outcome = check_numbers(PROGRAMS["L2"], random(N, D), random(M, D), families=True)
    assert "naive-distance" in outcome.names
    assert "unroll" not in outcome.names


def test_switched_off() -> None:
    x, y = random(N, D), random(M, D)
    assert "unroll" in rewritten(PROGRAMS["L1"], x, y).names
    assert "unroll" not in rewritten(PROGRAMS["L1"], x, y, families={"small-axes": False}).names


def test_slices_are_made_once_and_contiguous() -> None:
    outcome = rewritten(PROGRAMS["L1"], random(3000, D), random(9000, D), families=SMALL)
    nodes = outcome.result.graph.nodes
    slices = [node for node in nodes if node.op == "slice"]
    assert len(slices) == 2 * D
    assert sum(node.op == "permute_dims" for node in nodes) == 2


def _limited(name: str, compiled: bool | None, fraction: float) -> list[float]:
    x, y = random(700, 8, dtype="float32"), random(3001, 8, dtype="float32")
    program = PROGRAMS[name]
    stock = tf_exla.explain(program, x, y, limit=10**13)
    limit = stock.resident + int(fraction * (stock.projected_peak - stock.resident))
    optimized = tf_exla.optimize(program, limit, jit_compile=compiled)
    report = optimized.report(x, y)
    worst = 0.0
    flat = tf.nest.flatten
    for got, want in zip(flat(optimized(x, y)), flat(program(x, y)), strict=True):
        scale = float(tf.reduce_max(tf.abs(want)))
        worst = max(worst, float(tf.reduce_max(tf.abs(got - want))) / scale)
    measured = tf_exla.measured_peak(optimized, x, y)
    unrolled = any(one.rewrites == "small-axes" for one in report.rewrites)
    return [worst, measured, report.projected_peak, limit, len(report.loops), unrolled]


@pytest.mark.each_value
@pytest.mark.parametrize("compiled", [None, True])
@pytest.mark.parametrize("name", ["gradients of a matvec", "gradients of Chebyshev", "all axes"])
def test_limits_hold(name: str, compiled: bool | None) -> None:
    worst, measured, projected, limit, loops, unrolled = run_fresh(_limited, name, compiled, 0.12)
    assert worst < (1e-3 if compiled else 1e-4)  # sums over 2 million float32, in another order
    assert measured <= projected <= limit
    assert loops
    assert unrolled


def test_no_large_tensor_is_left() -> None:
    outcome = rewritten(PROGRAMS["gradients of a matvec"], random(N, D), random(M, D))
    ops = TensorFlowOps()
    sizes = [t.size for n in walk(outcome.result.graph) if not ops.aliases(n) for t in n.outputs]
    assert max(sizes) <= N * M
