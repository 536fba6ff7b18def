"""Plans in tests are those of the rates that tf_exla comes with, whatever the user has measured."""

import gc
import os

os.environ["TF_EXLA_RATES"] = ""


def pytest_collection_finish() -> None:
    """Keep what imports made, a million objects, out of the garbage collections of the tests."""
    gc.collect()
    gc.freeze()
