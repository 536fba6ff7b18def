"""Tests plan with the rates that tf_exla comes with, not with those that the user has measured."""

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from needs import LeftOut, missing
from samples import keep_each_value, keep_some

os.environ["TF_EXLA_RATES"] = ""
CORE = Path(__file__).parent / "core"


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> LeftOut | None:
    """Skip a file whose folder needs a package that is missing."""
    return LeftOut.from_parent(parent, path=module_path) if missing(module_path) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that only `-m thorough` runs, and put long ones first, after `tests/core`.

    A worker of xdist keeps the next tests in its queue: if a long test is among the last, the other
    workers wait for it.
    """
    keep_each_value(items)
    keep_some(items)
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    if CORE in item.path.parents:
        return 0
    starts_processes = {"run_fresh", "subprocess"} & vars(item.module).keys()  # type: ignore[attr-defined]
    return 1 if starts_processes else 2


@pytest.fixture(autouse=True, scope="module")
def _what_a_file_leaves() -> Iterator[None]:
    """Exclude what the tests of a file leave behind, such as caches, from later collections.

    At the end of a worker these are millions of objects: one `gc.collect()` of a test took 40 s.
    """
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _no_plans_of_other_tests() -> None:
    """Forget plans of the tests before: a test may count them, or make a pass fail."""
    kept = sys.modules.get("tf_exla.frontends.tf.planning.kept_plans")
    if kept is not None:
        kept.KEPT_PLANS.clear()


def pytest_collection_finish() -> None:
    """Exclude the objects that imports made, a million, from garbage collections of the tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)  # a sixth of the time, since graphs have many objects
