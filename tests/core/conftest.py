"""The core's tests need no framework: what imports TensorFlow fails them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest


def _guarded() -> Iterator[None]:
    before = "tensorflow" in sys.modules  # by tests of other folders
    yield
    if not before and "tensorflow" in sys.modules:
        pytest.exit("a test of tests/core imported TensorFlow", returncode=1)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Any:
    guard = _guarded()
    next(guard)
    report = yield
    next(guard, None)
    return report


@pytest.fixture(autouse=True)
def _no_tensorflow() -> Iterator[None]:
    yield from _guarded()
