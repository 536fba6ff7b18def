"""The releases of TensorFlow that the tests were run with; kernels of others may allocate more."""

from __future__ import annotations

import tensorflow as tf

from tf_exla.caller import warn
from tf_exla.model.allocator import EXACT, MARGIN, Allocator

TESTED = ("2.16", "2.17", "2.18", "2.19", "2.20", "2.21")
"""Minor releases for which the promise holds; the kernels of the last one were recorded."""


def is_tested(version: str = tf.__version__) -> bool:
    """Return whether the tests were run with a release."""
    return ".".join(version.split(".")[:2]) in TESTED


def warn_if_untested(version: str = tf.__version__) -> None:
    """Warn of a release that the tests were not run with."""
    if not is_tested(version):
        warn(
            f"tf_exla was tested with TensorFlow {TESTED[0]} to {TESTED[-1]}, not with {version},"
            f" whose kernels may allocate more: plans leave a {MARGIN.part}th of the memory free"
        )


def exact_allocator(version: str = tf.__version__) -> Allocator:
    """Return the model of an allocator that takes what is requested, with a margin if untested."""
    return EXACT if is_tested(version) else MARGIN
