"""Plans in tests are those of the rates that tf_exla comes with, whatever the user has measured."""

import gc
import os

import pytest
from samples import keep_each_value

os.environ["TF_EXLA_RATES"] = ""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Choose what the marks select from."""
    keep_each_value(items)


def pytest_collection_finish() -> None:
    """Keep what imports made, a million objects, out of the garbage collections of the tests."""
    gc.collect()
    gc.freeze()
