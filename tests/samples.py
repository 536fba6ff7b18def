"""Samples of seeds, parameters and rows of tables for every run; `-m thorough` has the rest.

The sampled seeds are those of the first 200 that cover the most branches of tf_exla and the most
ops for their time. If the programs of the seeds change, they are as good as any others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import pytest


def batches(sample: Sequence[int], count: int, size: int) -> list[Any]:
    """Return parameters, each with up to `size` of the seeds below `count`."""
    rest = sorted(set(range(count)) - set(sample))
    return [
        pytest.param(seeds[k : k + size], id=f"{seeds[k]} and others", marks=marks)
        for seeds, marks in ((sorted(sample), ()), (rest, pytest.mark.thorough))
        for k in range(0, len(seeds), size)
    ]


def but(thorough: Iterable[Any], names: Iterable[Any]) -> list[Any]:
    """Return names as parameters, some of them for `-m thorough`."""
    return [
        pytest.param(name, marks=pytest.mark.thorough if name in thorough else ()) for name in names
    ]


def keep_each_value(items: Sequence[pytest.Item]) -> None:
    """Keep combinations of tests marked `each_value` that have each value; mark others thorough.

    Combinations of a test's parameters are kept one by one until they cover all values. The next
    has the most uncovered values, and among equals the values that were kept least often.
    """
    tests: dict[tuple[Any, ...], list[Any]] = {}
    for item in items:
        if item.get_closest_marker("each_value"):
            tests.setdefault((item.path, item.originalname), []).append(item)  # type: ignore[attr-defined]
    for combinations in tests.values():
        values = {item: _values(item) for item in combinations}
        missing = set().union(*values.values())
        kept: Counter[Any] = Counter()
        while missing:
            best = max(combinations, key=lambda item: _worth(values[item], missing, kept))
            missing -= values[best]
            kept.update(values[best])
            combinations.remove(best)
        for item in combinations:
            item.add_marker("thorough")


def keep_some(items: Sequence[pytest.Item]) -> None:
    """Keep one of each n neighbouring cases of tests marked `one_of(n)`; mark others thorough.

    Neighbours in a table are alike. `one_of(n, k)` keeps the k-th of each n, counted from zero.
    """
    tests: dict[tuple[Any, ...], list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("one_of") and not item.get_closest_marker("thorough"):
            tests.setdefault((item.path, item.originalname), []).append(item)  # type: ignore[attr-defined]
    for cases in tests.values():
        mark = cases[0].get_closest_marker("one_of")
        assert mark is not None
        step, first = (*mark.args, 0)[:2]
        for place, item in enumerate(cases):
            if place % step != first:
                item.add_marker("thorough")


def _worth(values: set[Any], missing: set[Any], kept: Counter[Any]) -> tuple[int, int]:
    return len(values & missing), -sum(kept[one] for one in values)


def _values(item: Any) -> set[tuple[str, ...]]:
    """Return the test's row of each table that it is parametrized with."""
    names = [mark.args[0] for mark in item.iter_markers("parametrize")]
    axes = [one.split(",") if isinstance(one, str) else one for one in names]
    return {tuple(f"{name} {item.callspec.params[name]!r}" for name in axis) for axis in axes}
