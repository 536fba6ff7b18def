"""What every run has a sample of, and `-m thorough` the rest: seeds, combinations of parameters.

Samples of seeds are those of the first 200 that run the most distinct branches of tf_exla, and
have the most distinct ops, for their time. Where programs of a seed change, they are as good as
any.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import pytest


def batches(sample: Sequence[int], count: int, size: int) -> list[Any]:
    """Return parameters, each up to `size` of the seeds below `count`."""
    rest = sorted(set(range(count)) - set(sample))
    return [
        pytest.param(seeds[k : k + size], id=f"{seeds[k]} and others", marks=marks)
        for seeds, marks in ((sorted(sample), ()), (rest, pytest.mark.thorough))
        for k in range(0, len(seeds), size)
    ]


def but(thorough: Iterable[str], names: Iterable[str]) -> list[Any]:
    """Return names as parameters, some of them for `-m thorough`."""
    return [
        pytest.param(name, marks=pytest.mark.thorough if name in thorough else ()) for name in names
    ]


def keep_each_value(items: Sequence[pytest.Item]) -> None:
    """Mark as thorough what tests marked `each_value` need not run to have each parameter's value.

    Of the combinations of a test's parameters, those are kept that have a value no kept one has:
    the most of them first, then the least frequent values.
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


def _worth(values: set[Any], missing: set[Any], kept: Counter[Any]) -> tuple[int, int]:
    return len(values & missing), -sum(kept[one] for one in values)


def _values(item: Any) -> set[tuple[str, ...]]:
    """Return the row that a test has of each table it is parametrized with."""
    names = [mark.args[0] for mark in item.iter_markers("parametrize")]
    axes = [one.split(",") if isinstance(one, str) else one for one in names]
    return {tuple(f"{name} {item.callspec.params[name]!r}" for name in axis) for axis in axes}
