"""Clean-up: each rewrite on a small function, and what is nearly one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from core.rewritten import check_numbers, only, random, rewritten, t
from tf_exla.frontends.numpy.kernels import array_dtype
from tf_exla.ir.graph import Tensor

CLEANUP = only("cleanup")


def scalar(value: float, dtype: str = "float64") -> Any:
    return np.array(value, dtype)


@pytest.mark.parametrize(
    ("fn", "ops"),
    [
        (lambda xp, x: xp.mean(x, 1), ["sum", "divide"]),
        (lambda xp, x: xp.mean(x), ["sum", "divide"]),
        (lambda xp, x: xp.mean(x, 0, keepdims=True), ["sum", "divide"]),
        (lambda xp, x: t(t(x)) + x, ["add"]),
        (lambda xp, x: xp.exp(xp.reshape(xp.reshape(x, (-1,)), (12, 20))), ["exp"]),
        (lambda xp, x: xp.exp(xp.squeeze(xp.expand_dims(x, 1), 1)), ["exp"]),
        (lambda xp, x: xp.exp(xp.permute_dims(xp.expand_dims(x, 1), (1, 0, 2))), ["exp"]),
        (lambda xp, x: xp.exp(x * 1.0), ["exp"]),
        (lambda xp, x: xp.exp(x / 1.0), ["exp"]),
        (lambda xp, x: xp.exp(x - 0.0), ["exp"]),
        (
            lambda xp, x: xp.exp(x * xp.tile(x[:1, :1], (12, 20))),
            ["strided_slice", "multiply", "exp"],
        ),
        (lambda xp, x: xp.tile(xp.sum(x, keepdims=True), (12, 20)) / x, ["sum", "divide"]),
        (lambda xp, x: x - xp.broadcast_to(xp.sum(x), (12, 20)), ["sum", "subtract"]),
        (lambda xp, x: xp.exp(xp.tile(scalar(1.0)[None, None], (12, 20)) * x), ["exp"]),
        (lambda xp, x: xp.exp(xp.negative(xp.negative(x))), ["exp"]),
        (lambda xp, x: xp.exp(2.0 * (3.0 * x)), ["multiply", "exp"]),
        (lambda xp, x: xp.exp(-(3.0 * x)), ["multiply", "exp"]),
        (lambda xp, x: xp.matmul(t(x), x), ["matmul"]),
        (lambda xp, x: xp.matmul(x, t(x)), ["matmul"]),
        (lambda xp, x: xp.sum(xp.reshape(x, (-1,))), ["sum"]),
        (lambda xp, x: xp.sum(t(x)), ["sum"]),
        (lambda xp, x: xp.sum(t(x), keepdims=True), ["sum"]),
        (lambda xp, x: xp.exp(xp.sum(xp.expand_dims(x, 1), 1)), ["exp"]),
        (lambda xp, x: xp.exp(xp.max(xp.expand_dims(x, 0), 0, keepdims=True)), ["exp"]),
        (lambda xp, x: xp.exp(xp.mean(xp.reshape(x, (1, 12, 1, 20)), (0, 2))), ["exp"]),
    ],
)
def test_becomes(fn: Callable[..., Any], ops: list[str]) -> None:
    outcome = check_numbers(fn, random(12, 20), families=CLEANUP)
    assert outcome.ops == ops
    assert outcome.result.applications


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_sums_of_equal_integers(axis: int) -> None:
    def fn(xp: Any, x: Any, value: int = 3, dtype: str = "int32") -> Any:
        equal = xp.full((2, 12, 20), value, dtype=dtype)
        return xp.astype(xp.cumsum(equal, axis=axis), "float64") + x

    for other in ({}, {"value": -1, "dtype": "int64"}):
        outcome = check_numbers(partial(fn, **other), random(2, 12, 20), families=CLEANUP)
        assert "cumsum" not in outcome.ops
    rounded = check_numbers(partial(fn, dtype="float64"), random(2, 12, 20), families=CLEANUP)
    assert "cumsum" in rounded.ops


def test_transposed_batches() -> None:
    a, b = random(3, 8, 6), random(3, 8, 5)
    outcome = check_numbers(
        lambda xp, a, b: xp.matmul(xp.permute_dims(a, (0, 2, 1)), b), a, b, families=CLEANUP
    )
    assert outcome.ops == ["batch_matmul"]
    other = check_numbers(
        lambda xp, a, b: xp.matmul(xp.permute_dims(a, (1, 2, 0)), b),
        random(6, 4, 3),
        random(3, 6, 5)[:1],
        families=CLEANUP,
    )
    assert other.ops == ["permute_dims", "batch_matmul"]


def test_a_transpose_that_others_read_stays() -> None:
    def fn(xp: Any, x: Any) -> Any:
        turned = t(x)
        return turned, xp.matmul(turned, x)

    assert check_numbers(fn, random(12, 20), families=CLEANUP).ops == ["permute_dims", "matmul"]


@pytest.mark.parametrize(
    ("fn", "dtype", "reason"),
    [
        (lambda xp, x: xp.mean(x), "float16", "float16 is not rewritten"),
        (lambda xp, x: xp.mean(x), "bfloat16", "bfloat16 is not rewritten"),
        (lambda xp, x: xp.mean(x), "int32", "int32 is not rewritten"),
        (lambda xp, x: x + 0.0, "float64", "adding a zero is not exact"),
        (lambda xp, x: x - scalar(-0.0), "float64", "adding a zero is not exact"),
        (lambda xp, x: scalar(1e200) * (scalar(1e200) * x), "float64", "far from one"),
        (lambda xp, x: scalar(0.0) * (scalar(2.0) * x), "float64", "is zero"),
        (lambda xp, x: scalar(np.inf) * (scalar(2.0) * x), "float64", "far from one"),
    ],
)
def test_refuses(fn: Callable[..., Any], dtype: str, reason: str) -> None:
    x = np.arange(6).reshape(2, 3).astype(array_dtype(Tensor((), dtype)))
    outcome = rewritten(fn, x, families=CLEANUP)
    assert not outcome.result.applications
    assert reason in outcome.reasons


@pytest.mark.parametrize(
    "fn",
    [
        lambda xp, x: x * np.ones((4, 1, 1)),  # another shape
        lambda xp, x: xp.mean(x[:0]),  # NaN
        lambda xp, x: xp.sum(t(x), 0),
        lambda xp, x: xp.permute_dims(xp.permute_dims(x[None], (2, 0, 1)), (2, 0, 1)),
        lambda xp, x: x**3 + xp.abs(x) ** 2.5,
        lambda xp, x: x ** np.array([[[2.0]]]),
        lambda xp, x: xp.astype(xp.astype(x, "float32"), "float64"),
    ],
)
def test_near_misses_keep_their_numbers(fn: Callable[..., Any]) -> None:
    check_numbers(fn, random(3, 4), families=CLEANUP)


def test_signs_of_zero_stay() -> None:
    x = np.array([-0.0, 0.0, 1.0])
    for fn in (
        lambda xp, x: 1 / (x - 0.0),
        lambda xp, x: 1 / (x + scalar(-0.0)),
        lambda xp, x: 1 / (x * 1.0),
    ):
        check_numbers(fn, x, families=CLEANUP)


def test_integers_add_zero() -> None:
    outcome = check_numbers(lambda xp, x: x + 0, np.array([1, 2, 3], "int32"), families=CLEANUP)
    assert outcome.ops == []


def test_shared_scaled_tensor_stays() -> None:
    def fn(xp: Any, x: Any) -> Any:
        y = 2.0 * x
        return y, 3.0 * y

    assert not check_numbers(fn, random(5, 5), families=CLEANUP).result.applications


def test_stateful_nodes_and_bodies() -> None:
    def fn(xp: Any, x: Any) -> Any:
        xp.one("Opaque", [x * 1.0], x.shape, stateful=True)
        _, y = xp.while_loop(
            lambda xp, i, y: i < 3, lambda xp, i, y: (i + 1, xp.mean(y) + 2.0 * (0.25 * y)), (0, x)
        )
        return y + x * 1.0

    outcome = rewritten(fn, random(6, 6), families=CLEANUP)
    body = next(node for node in outcome.result.graph.nodes if "while" in node.op).attrs["body"]
    assert "mean" not in [node.op for node in body.nodes]
    assert [n.op for n in outcome.result.graph.nodes if n.stateful] == [
        n.op for n in outcome.before.nodes if n.stateful
    ]
