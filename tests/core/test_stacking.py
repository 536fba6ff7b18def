"""Stacking: sums of products in loops, what is stacked and what stays, numbers, memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from core.rewritten import OPS, check_numbers, only, random, t
from tf_exla.frontends.numpy import trace
from tf_exla.ir.control_flow import body_of, is_while
from tf_exla.model.projection import Projector

STACKING = only("stacking")
N, M, TIMES = 401, 307, 7


def repeated(
    xp: Any, body: Callable[..., Any], *start: Any, times: int = TIMES, most: int | None = None
) -> Any:
    """Repeat `variables = body(xp, i, *variables)`, at most `most` times if given."""

    def more(xp: Any, i: Any, *rest: Any) -> Any:
        if most is None:
            return xp.less(i, np.int32(times))
        # A test of numbers: nothing bounds the iterations but `most`.
        return xp.logical_and(
            xp.less(i, np.int32(most)), xp.less(xp.sum(rest[-1]), np.float64(times))
        )

    made = xp.while_loop(
        more, lambda xp, i, *rest: [i + np.int32(1), *body(xp, i, *rest)], [np.int32(0), *start]
    )
    return made[1:]


def outer(xp: Any, i: Any, d: Any, a: Any, b: Any) -> Any:
    return [d + t(a) @ b, xp.sin(a * 3.0), xp.cos(b * 2.0)]


def columns(xp: Any, i: Any, d: Any, a: Any, b: Any) -> Any:
    return [xp.matmul(a, b, transpose_b=True) + d, xp.sin(a * 3.0), xp.cos(b * 2.0)]


def broadcast(xp: Any, i: Any, d: Any, a: Any, b: Any) -> Any:
    return [d + b * a, xp.sin(a * 3.0), xp.cos(b * 2.0)]


def several(xp: Any, i: Any, d: Any, a: Any, b: Any) -> Any:
    one, two = (xp.matmul(a, c, transpose_a=True) for c in (b, xp.exp(b)))
    return [xp.add_n([one, d, two]), xp.sin(a * 3.0), xp.cos(b * 2.0)]


ROWS, COLUMNS = ((2, N), (2, M)), ((N, 2), (M, 2))
PROGRAMS: dict[str, tuple[Callable[..., Any], Any]] = {
    "rows": (outer, ROWS),
    "one row": (outer, ((1, N), (1, M))),
    "columns": (columns, COLUMNS),
    "column times row": (broadcast, ((1, M), (N, 1))),
    "several products": (several, ROWS),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_stacks(name: str, dtype: str) -> None:
    body, shapes = PROGRAMS[name]
    args = random(N, M, dtype=dtype), *(random(*shape, dtype=dtype) for shape in shapes)
    outcome = check_numbers(lambda xp, *args: repeated(xp, body, *args), *args, families=STACKING)
    assert outcome.names == ["stack"]
    (loop,) = filter(is_while, outcome.result.graph.nodes)
    assert all(tensor.shape != (N, M) for tensor in body_of(loop).inputs)


@pytest.mark.parametrize("times", [0, 1, 3, 40])
def test_loops_that_end_before_their_bound(times: int) -> None:
    """Places of the stacks that no iteration reached count nothing."""

    def fn(xp: Any, d: Any, a: Any, b: Any) -> Any:
        def body(xp: Any, i: Any, d: Any, a: Any, b: Any, count: Any) -> Any:
            return [*outer(xp, i, d, a, b), count + 1.0]

        return repeated(xp, body, d, a, b, np.zeros(1), times=times, most=9)

    args = random(N, M), random(2, N), random(2, M)
    assert check_numbers(fn, *args, families=STACKING).names == ["stack"]


def test_nested_loops() -> None:
    """A sum that an outer loop passes to an inner one becomes one product after both."""

    def fn(xp: Any, d: Any, a: Any, b: Any) -> Any:
        def body(xp: Any, i: Any, *args: Any) -> Any:
            return repeated(xp, outer, *args, times=3)

        return repeated(xp, body, d, a, b, times=2)

    outcome = check_numbers(fn, random(N, M), random(1, N), random(1, M), families=STACKING)
    assert outcome.names == ["stack", "stack"]
    for loop in filter(is_while, outcome.result.graph.nodes):
        assert all(tensor.shape != (N, M) for tensor in body_of(loop).inputs)


def read(xp: Any, i: Any, d: Any, a: Any, b: Any) -> Any:
    """The sum is read in the loop."""
    return [d + t(a) @ b, a + t(d @ t(b)) * 1e-3, b]


def scaled(xp: Any, i: Any, d: Any, a: Any, b: Any) -> Any:
    """Each iteration scales the sum."""
    return [0.5 * d + t(a) @ b, xp.sin(a), b]


def twice(xp: Any, i: Any, d: Any, a: Any, b: Any) -> Any:
    """The sum is added to itself."""
    return [d + d + t(a) @ b, xp.sin(a), b]


def no_product(xp: Any, i: Any, d: Any, a: Any, b: Any) -> Any:
    """One of the terms is no product."""
    return [d + t(a) @ b + xp.sin(t(a) @ b), xp.sin(a), b]


def shared(xp: Any, i: Any, d: Any, a: Any, b: Any) -> Any:
    """The product is also read by something else."""
    product = t(a) @ b
    return [d + product, a + t(product @ t(b)) * 1e-3, b]


@pytest.mark.parametrize("body", [read, scaled, twice, no_product, shared])
def test_what_stays(body: Callable[..., Any]) -> None:
    args = random(N, M), random(2, N), random(2, M)
    fn = lambda xp, *args: repeated(xp, body, *args)  # noqa: E731
    assert not check_numbers(fn, *args, families=STACKING).names


def test_stacks_that_are_as_large_as_the_sum_stay() -> None:
    args = random(40, 30), random(2, 40), random(2, 30)
    fn = lambda xp, *args: repeated(xp, outer, *args)  # noqa: E731
    assert not check_numbers(fn, *args, families=STACKING).names


def test_loops_without_a_bound_stay() -> None:
    def fn(xp: Any, d: Any, a: Any, b: Any) -> Any:
        return xp.while_loop(
            lambda xp, d, a, b: xp.less(xp.sum(a), np.float64(1e9)),
            lambda xp, d, a, b: [d + t(a) @ b, a * 1e3, b],
            [d, a, b],
        )

    args = random(N, M), abs(random(2, N)), random(2, M)
    assert not check_numbers(fn, *args, families=STACKING).names


def test_memory() -> None:
    """The sum is read by a reduction after the loop; both can be split."""

    def fn(xp: Any, a: Any, b: Any) -> Any:
        d = repeated(xp, outer, xp.asarray(np.zeros((N, M))), a, b)[0]
        return xp.sum(xp.exp(d), 0)

    args = random(1, N), random(1, M)
    outcome = check_numbers(fn, *args, families=STACKING)
    projector = Projector(OPS)
    before, after = (projector.working_set(g) for g in (outcome.before, outcome.result.graph))
    assert outcome.names == ["stack"]
    assert after < before
    assert trace(fn, *args).outputs[0].shape == outcome.result.graph.outputs[0].shape
