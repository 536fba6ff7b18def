"""Every plan of programs with ties: limits from the smallest to the unsplit peak."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from programs_check import difference, limits_of
from tie_programs import PROGRAMS, points

import tf_exla
from tf_exla.frontends.tf.capture import capture
from tf_exla.frontends.tf.op_set import TensorFlowOps
from tf_exla.ir.clean import clean
from tf_exla.ir.traverse import walk
from tf_exla.moves.user_loops.sinking import sink
from tf_exla.split.regions.origins import clash

OPS = TensorFlowOps()

ROWS, COLUMNS = 211, 193
STEP = 1 / 128
"""Intervals of limits are halved down to this relative width: chunks have a few dozen sizes."""


def sweep(
    name: str, dtype: str, jit: bool | None, most: int = 10**6
) -> Iterator[tuple[int, float]]:
    """Yield a limit of each distinct plan, and the error in units of what is allowed."""
    stock = tf.function(PROGRAMS[name], autograph=False)
    x, y = points(name, ROWS, 0, dtype), points(name, COLUMNS, 1, dtype)
    expected = stock(x, y)
    for limit, optimized in distinct_plans(stock, (x, y), jit, most):
        try:
            worst = difference(expected, optimized(x, y), 1e-9 if dtype == "float64" else 1e-4)
        except AssertionError:
            worst = np.inf
        yield limit, worst


def distinct_plans(
    stock: Any, arguments: tuple[Any, ...], jit: bool | None, most: int
) -> Iterator[tuple[int, Any]]:
    """Yield the smallest limit and others, each with a plan that differs from all before it."""
    smallest, unsplit = limits_of(stock, arguments, jit)
    seen: set[str] = set()

    @functools.cache
    def plan(limit: int) -> tuple[str, Any]:
        optimized = tf_exla.optimize(stock, limit, jit_compile=jit)
        return describe(optimized, arguments), optimized

    work = [(smallest, unsplit)]
    for limit in (smallest, unsplit):
        text, optimized = plan(limit)
        if text not in seen:
            seen.add(text)
            yield limit, optimized
    while work and len(seen) < most:
        low, high = work.pop(0)
        if plan(low)[0] == plan(high)[0] or high - low <= max(1, int(STEP * low)):
            continue
        middle = (low + high) // 2
        text, optimized = plan(middle)
        if text not in seen:
            seen.add(text)
            yield middle, optimized
        work += [(low, middle), (middle, high)]


def describe(optimized: Any, arguments: tuple[Any, ...]) -> str:
    """Return the plan that a call would run, in words."""
    plan = optimized._planned(arguments, {}).plan
    return str(plan.graph)


EVERY = bool(os.environ.get("TF_EXLA_TIE_SWEEP"))
"""Set it to see every plan of every program, in both dtypes, compiled and not: some hours."""
SAMPLE = [
    "both axes, far",
    "rows and all",
    "rows and all, decayed",
    "order and all",
    "max pool, far",
    "segment min",
    "column median",
    "mapped alone",
    "mapped choice",
    "looked up after",
]


@pytest.mark.each_value
@pytest.mark.parametrize("jit", [None, True] if EVERY else [None])
@pytest.mark.parametrize("dtype", ["float32", "float64"] if EVERY else ["float32"])
@pytest.mark.parametrize("name", PROGRAMS if EVERY else SAMPLE)
def test_ties_in_every_plan(name: str, dtype: str, jit: bool | None) -> None:
    """A sample has the plans of the smallest limit, of the unsplit peak, and of one between."""
    found = list(sweep(name, dtype, jit, 10**6 if EVERY else 3))
    assert max(worst for _, worst in found) <= 1, found


def test_least_of_segments_in_loops_inside_of_a_loop() -> None:
    """The rows of segments are taken in the chunks whose numbers are compared with them."""
    x = points("segments of products", 997, 0, "float32")
    y = points("segments of products", 301, 1, "float32")
    stock = tf.function(PROGRAMS["segments of products"], autograph=False)
    expected = stock(x, y)
    found = []
    for limit, optimized in distinct_plans(stock, (x, y), None, 3):
        loops = optimized.report(x, y).loops
        found.append((limit, len(loops), difference(expected, optimized(x, y), 1e-4)))
    assert max(count for _, count, _ in found) >= 3
    assert max(worst for _, _, worst in found) <= 1, found


@pytest.mark.parametrize("name", ["mapped alone", "mapped alone, columns", "mapped choice"])
def test_a_gradient_reads_the_numbers_whose_maxima_are_in_a_list(name: str) -> None:
    """The loop and its gradient do not both compute the matrix."""
    x, y = points(name, ROWS, 0, "float64"), points(name, COLUMNS, 1, "float64")
    stock = tf.function(PROGRAMS[name], autograph=False)
    graph = clean(capture(stock.get_concrete_function(x, y)).graph, OPS)
    sunk = sink(graph, OPS, x.dtype.size * ROWS * COLUMNS // 2)
    loops = [node for node in sunk.nodes if node.op == "while"]
    making = [node for node in loops if any(one.op == "sqrt" for one in walk(node.attrs["body"]))]
    assert len(loops) == 2
    assert len(making) < 2
    assert clash(sunk, OPS) is None
