"""The naive distance in all its spellings, and what is nearly one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from core.rewritten import check_numbers, only, random, rewritten, t
from tf_exla.frontends.numpy import evaluate
from tf_exla.rewrite import DEFAULTS

DISTANCE = only("naive-distance", "cleanup")
N, M, D = 200, 150, 5


def gaps(x: Any, y: Any) -> Any:
    return x[..., :, None, :] - y[..., None, :, :]


def norm(xp: Any, x: Any) -> Any:
    return xp.squeeze(xp.sqrt(xp.sum(x * x, -1, keepdims=True)), -1)


SPELLINGS: list[Callable[..., Any]] = [
    lambda xp, x, y: xp.sum(xp.square(gaps(x, y)), -1),
    lambda xp, x, y: xp.sum(gaps(x, y) ** 2, -1),
    lambda xp, x, y: xp.sum((d := gaps(x, y)) * d, -1),
    lambda xp, x, y: xp.sum(xp.squared_difference(x[:, None], y[None]), 2),
    lambda xp, x, y: xp.sum(xp.squared_difference(y[None], x[:, None]), 2),
    lambda xp, x, y: xp.sum(xp.square(y[None] - x[:, None]), -1),
    lambda xp, x, y: xp.sum(xp.square(x[None] - y[:, None]), -1),
    lambda xp, x, y: xp.sum(xp.square(x[:, None] + y[None]), -1),
    lambda xp, x, y: xp.sum(xp.square(x[:, None] - y), -1, keepdims=True),
    lambda xp, x, y: xp.sum(xp.square(t(x)[:, :, None] - t(y)[:, None]), 0),
    lambda xp, x, y: xp.sum(xp.square(x[:, :, None] - t(y)[None]), 1),
    lambda xp, x, y: xp.sqrt(xp.sum(xp.square(gaps(x, y)), -1)),
    lambda xp, x, y: norm(xp, gaps(x, y)),
    lambda xp, x, y: xp.exp(-0.5 * xp.sum(xp.square(gaps(x, y) / 0.3), -1)),
    lambda xp, x, y: xp.sum(3.0 * xp.square(2.0 * gaps(x, y)), -1),
    lambda xp, x, y: xp.mean(xp.square(gaps(x, y)), -1),
    lambda xp, x, y: xp.sum(xp.square(gaps(x, y) / xp.exp(y[0])), -1),
    lambda xp, x, y: xp.sum(xp.square(gaps(x, y) * xp.exp(y[0])), -1),
    lambda xp, x, y: xp.sum(xp.exp(y[0]) * xp.square(gaps(x, y)), -1),
    lambda xp, x, y: xp.sum(xp.square(x[:20, None, None] - xp.stack([y, y + 1.0])), -1),
    lambda xp, x, y: xp.sum(xp.square(gaps(x[None], y[None])), -1),
]


@pytest.mark.parametrize("fn", SPELLINGS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_spellings(fn: Callable[..., Any], dtype: str) -> None:
    outcome = check_numbers(
        fn, random(N, D, dtype=dtype), random(M, D, dtype=dtype), families=DISTANCE
    )
    assert outcome.names.count("naive-distance") == 1
    assert outcome.largest <= N * M


def test_batches() -> None:
    fn = SPELLINGS[0]
    outcome = check_numbers(fn, random(2, N, D), random(2, M, D), families=DISTANCE)
    assert "naive-distance" in outcome.names


@pytest.mark.parametrize(
    ("fn", "shapes", "reason"),
    [
        (lambda xp, x, y: xp.sum(xp.square(x - y), -1), [(9, 5), (9, 5)], "are no batch"),
        (lambda xp, x, y: xp.sum(xp.square(x - y), -1), [(9, 1, 5), (1, 8, 1)], "is broadcast"),
        (
            lambda xp, x, y: xp.sum(xp.square(x - y), -1),
            [(9, 1, 7, 1, 4), (1, 8, 1, 6, 4)],
            "are no batch",
        ),
        (lambda xp, x, y: xp.sum(xp.square(x - y), -1), [(2, 1, 2), (1, 2, 2)], "saves no"),
    ],
)
def test_refuses(fn: Callable[..., Any], shapes: list[Any], reason: str) -> None:
    args = [random(*shape, seed=i) for i, shape in enumerate(shapes)]
    outcome = check_numbers(fn, *args, families=DISTANCE)
    assert "naive-distance" not in outcome.names
    assert reason in outcome.reasons


@pytest.mark.parametrize(
    "fn",
    [
        lambda xp, x, y: xp.sum(gaps(x, y) ** 3, -1),
        lambda xp, x, y: xp.sum(gaps(x, y) ** 2.5, -1),
        lambda xp, x, y: xp.sum(xp.abs(gaps(x, y)), -1),
        lambda xp, x, y: xp.sum(xp.square(gaps(x, y)), 1),
        lambda xp, x, y: xp.sum(xp.square(gaps(x, y)), (1, 2)),
        lambda xp, x, y: xp.max(xp.square(gaps(x, y)), -1),
        lambda xp, x, y: xp.sum(xp.square(gaps(x, y) / x[:, None, :1]), -1),
        lambda xp, x, y: xp.sum(gaps(x, y) * gaps(y[:, :1], x[:1])[:1, :1], -1),
        lambda xp, x, y: xp.sum(xp.exp(y[0]) / xp.square(gaps(x, y)), -1),
        lambda xp, x, y: xp.sum(xp.square(x[:5, None] - y[:5]), -1)[0],
    ],
)
def test_near_misses_keep_their_numbers(fn: Callable[..., Any]) -> None:
    with np.errstate(invalid="ignore"):
        check_numbers(fn, random(N, D), random(M, D), families=DISTANCE)


def test_a_difference_that_is_read_elsewhere_stays() -> None:
    def fn(xp: Any, x: Any, y: Any) -> Any:
        gap = gaps(x, y)
        return xp.sum(xp.square(gap), -1), xp.sum(xp.sin(gap), -1)

    outcome = check_numbers(fn, random(N, D), random(M, D), families=DISTANCE)
    assert any("subtract" == n.op for n in outcome.result.graph.nodes)


def test_off_unless_asked_for() -> None:
    assert not DEFAULTS["naive-distance"]
    outcome = rewritten(SPELLINGS[0], random(N, D), random(M, D))
    assert "naive-distance" not in outcome.names


def test_integers_stay() -> None:
    x = np.array([[1, 2], [3, 4], [5, 6]], np.int32)
    assert not rewritten(SPELLINGS[0], x, x, families=DISTANCE).names.count("naive-distance")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_far_from_the_origin_and_never_negative(dtype: str, offset: float) -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((N, D)) + offset
    x[1::2] = x[::2] + 1e-3 * rng.standard_normal((N // 2, D))  # close pairs
    x = x.astype(dtype)
    outcome = rewritten(SPELLINGS[0], x, x, families=DISTANCE)
    (got,) = evaluate(outcome.result.graph, x, x)
    exact = np.asarray(x, np.longdouble)
    want = ((exact[:, None] - exact[None]) ** 2).sum(-1)
    assert (got >= 0).all()
    # Of the radius squared: float64's rounding, or float32's of the result.
    radius = float(np.max(want))
    rounding = 1e-7 * want if dtype == "float32" else 1e-15 * want
    assert np.all(np.abs(got - want) <= rounding * 4 + 1e-14 * radius)


def test_a_point_that_is_not_finite_spoils_its_own_distances_only() -> None:
    x = random(N, D)
    x[3, 2] = np.nan
    args = x, random(M, D)
    outcome = rewritten(SPELLINGS[0], *args, families=DISTANCE)
    (got,) = evaluate(outcome.result.graph, *args)
    assert np.isnan(got[3]).all()
    assert np.isfinite(np.delete(got, 3, 0)).all()
