"""Rows computed as read by a loop: `row_read_programs.py` far below the size of their matrices."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf
from fresh_process import run_fresh
from programs_check import difference
from row_read_programs import PROGRAMS, X, Y, distances
from samples import but

import tf_exla


def check_rows(names: list[str], measure: bool) -> list[dict[str, Any]]:
    found = []
    for name in names:
        function, arguments = PROGRAMS[name]()
        stock = tf.function(function, autograph=False)
        with pytest.raises(tf_exla.MemoryLimitError) as info:
            tf_exla.explain(stock, *arguments, limit=1)
        smallest = info.value.smallest_limit
        before = tf_exla.explain(stock, *arguments, limit=10**12).projected_peak_before
        for limit in (smallest, max(2 * smallest, before // 4)):
            optimized = tf_exla.optimize(stock, limit)
            found.append({
                "name": name,
                "before": before,
                "smallest": smallest,
                "limit": limit,
                "projected": optimized.report(*arguments).projected_peak,
                "measured": int(tf_exla.measured_peak(optimized, *arguments)) if measure else 0,
                "worst": difference(stock(*arguments), optimized(*arguments), 1e-9),
            })  # fmt: skip
    return found


@pytest.mark.parametrize("first", but([1], [0, 1]))
def test_rows(first: int) -> None:
    """For every second program of the table."""
    for one in run_fresh(check_rows, list(PROGRAMS)[first::2], False):
        assert one["projected"] <= one["limit"], one
        assert one["worst"] <= 1, one
        # The decoder keeps its path, and stacks it.
        assert one["name"] == "decoded" or 2 * one["smallest"] <= one["before"], one


@pytest.mark.parametrize("name", ["folded", "decoded", "indexed"])
def test_peaks(name: str) -> None:
    """One program per process, so that memory left by earlier ones is not measured."""
    for one in run_fresh(check_rows, [name], True):
        assert one["measured"] <= one["projected"] <= one["limit"], one


@pytest.mark.parametrize("limit", ["1.5MB", "4MB"])
@pytest.mark.parametrize(
    ("index", "size"), [(701, 701), (-702, 701), (-701, 701), (9, 9), (8, 9), (-10, 9)]
)
def test_what_is_out_of_range_fails_as_it_did(index: int, size: int, limit: str) -> None:
    def function(x: tf.Tensor, y: tf.Tensor, i: tf.Tensor) -> Any:
        d = distances(x, y)[:size]
        step = lambda j, v: (j + 1, v + d[i])  # noqa: E731
        return tf.while_loop(lambda j, v: j < 2, step, (tf.constant(0), tf.zeros_like(y[:, 0])))[1]

    outcomes = []
    for one in (tf.function(function), tf_exla.optimize(function, limit)):
        try:
            outcomes.append(one(X, Y, tf.constant(index)).numpy().tolist())
        except tf.errors.InvalidArgumentError:
            outcomes.append([])
    assert outcomes[0] == outcomes[1]
