"""Scalings leave tensors whose readers all absorb them; readers of one matrix are joined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from core.rewritten import QUIET, Outcome, check_numbers, only, random, t

SCALINGS = only("scalings", "cleanup")
BOTH = only("scalings", "one-pass", "chains", "cleanup")
N, M = 400, 300


def total(x: Any, axis: Any = None) -> Any:
    """Sum the elements of an array, or of what stands for one."""
    return np.sum(x, axis) if isinstance(x, np.ndarray) else x.xp.sum(x, axis)


def large(outcome: Outcome) -> list[str]:
    """Return the ops that make something as large as the matrix, in order."""
    return [
        node.op
        for node in outcome.result.graph.nodes
        for tensor in node.outputs
        if tensor.size >= N * M and node.op not in QUIET
    ]


@pytest.mark.parametrize(
    ("fn", "left"),
    [
        # all readers absorb a scalar, a row, a column
        (
            lambda xp, a, b, c, r: (total(k := 2.0 * xp.exp(a), 0), total(k, 1), k @ r[:, None]),
            ["exp"],
        ),
        (lambda xp, a, b, c, r: (total(t := xp.exp(a) / r, 0), t @ r[:, None]), ["exp"]),
        (lambda xp, a, b, c, r: (total(t := c[:, None] * xp.exp(a), 0), total(t, 1)), ["exp"]),
        (lambda xp, a, b, c, r: (total(t := -xp.exp(a), 0), total(t, 1), total(t)), ["exp"]),
        # through an elementwise product, which is shared
        (
            lambda xp, a, b, c, r: (
                total((a / r) * xp.exp(a), 0),
                total((2.0 * a / r) * xp.exp(a), 1),
            ),
            ["exp", "multiply"],
        ),
        (lambda xp, a, b, c, r: (total(t := (2.0 * a) / (1.0 + a * a), 0), t @ r[:, None]),
         ["multiply", "add", "divide"]),
        # an outer product is a row and a column
        (
            lambda xp, a, b, c, r: (
                total(t := xp.exp(a) * (c[:, None] @ r[None]), 0),
                total(t, 1),
                xp.matmul(t, c[:, None], transpose_a=True),
            ),
            ["exp"],
        ),
        (
            lambda xp, a, b, c, r: total(xp.exp(a) * t(3.0 * (r[:, None] @ c[None])), 1),
            ["exp"],
        ),
        # transposed on the way
        (lambda xp, a, b, c, r: t(2.0 * xp.exp(a) / r) @ c[:, None], ["exp"]),
        # two scalings in a row, whoever reads them
        (lambda xp, a, b, c, r: 2.0 * xp.exp(a) / r, ["exp", "multiply"]),
        (
            lambda xp, a, b, c, r: total(r) * (c[:, None] * (xp.exp(a) / c[:, None])),
            ["exp", "multiply"],
        ),
        (lambda xp, a, b, c, r: xp.exp(a) / total(r) / r, ["exp", "multiply"]),
        (lambda xp, a, b, c, r: xp.exp(a) / r / xp.square(r), ["exp", "divide"]),
    ],
)  # fmt: skip
def test_one_large_tensor_less(fn: Callable[..., Any], left: list[str]) -> None:
    args = random(N, M), random(M, N), random(N) + 5.0, random(M) + 5.0
    outcome = check_numbers(fn, *args, families=SCALINGS)
    assert large(outcome) == left


@pytest.mark.parametrize(
    "fn",
    [
        lambda xp, a, b, c, r: (total(t := 2.0 * a, 0), t),  # an output
        lambda xp, a, b, c, r: (total(t := 2.0 * a, 0), xp.sin(t)),  # a reader that needs it
        lambda xp, a, b, c, r: (2.0 * a) @ b,  # nothing small
        lambda xp, a, b, c, r: xp.max(c[:, None] * a, 1),
        lambda xp, a, b, c, r: total(0.0 * a, 0),  # a static zero may hide what is not
        lambda xp, a, b, c, r: total((xp.exp(a) * a), 0),
        lambda xp, a, b, c, r: total(2.0 / a, 0),
        lambda xp, a, b, c, r: (xp.exp(a) * (a @ b @ a), total(a)),  # no outer product
        lambda xp, a, b, c, r: xp.matmul(t := 2.0 * a, t, transpose_b=True),
        lambda xp, a, b, c, r: r * (c[:, None] * xp.exp(a)),  # a row and a column
        lambda xp, a, b, c, r: (t := 2.0 * xp.exp(a), t / r),
    ],
)
def test_near_misses_keep_what_is_large(fn: Callable[..., Any]) -> None:
    args = random(N, M), random(M, N), random(N), random(M)
    outcome = check_numbers(fn, *args, families=SCALINGS)
    assert large(outcome) == [
        node.op
        for node in outcome.before.nodes
        if node.output.size >= N * M and node.op not in QUIET
    ]


def test_batches() -> None:
    def fn(xp: Any, a: Any, c: Any) -> Any:
        t = (2.0 * xp.exp(a)) * c
        return total(t, -1), xp.matmul(t, c, transpose_a=True), total(t, (1, 2))

    outcome = check_numbers(fn, random(3, N, M), random(3, N, 1), families=SCALINGS)
    assert large(outcome) == ["exp"]


def test_random_gradients_of_scalings() -> None:
    """Scalings and elementwise products in random order, read by sums and products."""
    for seed in range(30):

        def fn(xp: Any, a: Any, b: Any, c: Any, r: Any) -> Any:
            rng = np.random.default_rng(seed)  # noqa: B023
            made = [a, b, xp.cos(a)]
            for _ in range(8):
                x, y = (made[int(rng.integers(len(made)))] for _ in range(2))
                made.append(
                    [
                        lambda: x * y,  # noqa: B023
                        lambda: x / (2.0 + xp.cos(y)),  # noqa: B023
                        lambda: -x,  # noqa: B023
                        lambda: 0.5 * x,  # noqa: B023
                        lambda: x / r,  # noqa: B023
                        lambda: c[:, None] * x,  # noqa: B023
                        lambda: x * (c[:, None] @ r[None]),  # noqa: B023
                        lambda: t(t(x) * r[:, None]),  # noqa: B023
                    ][int(rng.integers(8))]()
                )
            readers: list[Callable[[Any], Any]] = [
                lambda x: total(x, 0),
                lambda x: total(x, 1),
                lambda x: total(x),
                lambda x: x @ r[:, None],
                lambda x: xp.matmul(x, c[:, None], transpose_a=True),
                lambda x: x @ xp.stack([r, r * r], 1),
                t,
            ]
            return [
                readers[int(rng.integers(7))](made[int(rng.integers(3, len(made)))])
                for _ in range(6)
            ]

        args = random(N, M), random(N, M, seed=1), random(N), random(M) + 5.0
        check_numbers(fn, *args, families=BOTH)


# Readers of one large matrix.

ONE_PASS = only("one-pass", "cleanup")


@pytest.mark.parametrize(
    "fn",
    [
        lambda xp, a, c, r: (a @ r, total(a, 1)),
        lambda xp, a, c, r: (a @ r, a @ r[:, :2] * 2.0, total(a, -1)[:, None]),
        lambda xp, a, c, r: (xp.matmul(a, c, transpose_a=True), total(a, 0)),
        lambda xp, a, c, r: (total(a, 0), xp.matmul(c, a, transpose_a=True)),
        lambda xp, a, c, r: (
            xp.matmul(r, a, transpose_a=True, transpose_b=True),
            xp.matmul(r[:, :1], a, transpose_a=True, transpose_b=True),
        ),
    ],
)
def test_one_product_reads_the_matrix(fn: Callable[..., Any]) -> None:
    args = random(N, M), random(N, 3), random(M, 3)
    outcome = check_numbers(fn, *args, families=ONE_PASS)
    assert [n.op for n in outcome.result.graph.nodes if outcome.before.inputs[0] in n.inputs] == [
        "matmul"
    ]


def test_batches_of_readers() -> None:
    outcome = check_numbers(
        lambda xp, a, r: (a @ r, total(a, -1), xp.matmul(r, a, transpose_a=True, transpose_b=True)),
        random(2, N, M),
        random(2, M, 3),
        families=ONE_PASS,
    )
    assert outcome.ops.count("batch_matmul") == 1
    assert "sum" not in outcome.ops


@pytest.mark.parametrize(
    ("fn", "reason"),
    [
        (lambda xp, a, c, r: a @ (t(a) @ (a @ r)), "waits for the result"),
        (lambda xp, a, c, r: (a @ r, a @ xp.cos(xp.matmul(a, c, transpose_a=True))), "waits for"),
        (
            lambda xp, a, c, r: (a @ xp.tile(r, [1, 30]), a @ xp.sin(xp.tile(r, [1, 30]))),
            "not small",
        ),
        (lambda xp, a, c, r: (a[:20] @ r, total(a[:20], 1)), "less"),
        (lambda xp, a, c, r: (xp.exp(a[:90, :90]) @ r[:90], total(xp.exp(a[:90, :90]), 1)), "less"),
    ],
)
def test_readers_stay_apart(fn: Callable[..., Any], reason: str) -> None:
    args = random(N, M), random(N, 3), random(M, 3)
    outcome = check_numbers(fn, *args, families=ONE_PASS)
    assert "one-product" not in outcome.names
    assert reason in outcome.reasons


def test_sums_over_different_axes_stay_apart() -> None:
    outcome = check_numbers(
        lambda xp, a: (total(a, 0), total(a, 1)), random(N, M), families=ONE_PASS
    )
    assert not outcome.result.applications
