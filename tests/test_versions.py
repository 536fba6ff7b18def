"""Releases of TensorFlow that were not tested give a warning and a margin."""

from __future__ import annotations

import dataclasses
import warnings

import pytest
import tensorflow as tf

import tf_exla
from tf_exla.frontends.tf import versions
from tf_exla.frontends.tf.calls import request


def test_this_release_was_tested() -> None:
    """If this fails, run the suite with the release, and add it to `TESTED`."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        versions.warn_if_untested()
    assert versions.exact_allocator().taken(10**9) == 10**9


@pytest.mark.parametrize("version", ["2.15.1", "2.22.0-rc1", "3.0.0"])
def test_another_release_gives_a_warning(version: str) -> None:
    with pytest.warns(UserWarning, match=f"not with {version}.*10th of the memory free"):
        versions.warn_if_untested(version)
    assert versions.exact_allocator(version).taken(10**9) == 11 * 10**8


def test_plans_leave_a_margin(monkeypatch: pytest.MonkeyPatch) -> None:
    x = tf.ones([2003, 3], tf.float64)

    @tf.function
    def function(x: tf.Tensor) -> tf.Tensor:
        squares = tf.reduce_sum(x**2, 1)
        return tf.reduce_sum(tf.exp(squares[:, None] + squares - 2 * x @ tf.transpose(x)), 1)

    exact = tf_exla.explain(function, x, limit="3MB")
    margin = versions.exact_allocator("2.22.0")
    monkeypatch.setattr(request, "exact_allocator", lambda: margin)
    report = tf_exla.explain(function, x, limit="3MB")
    assert report.projected_peak <= 3e6
    assert max(one.chunk for one in report.loops) < max(one.chunk for one in exact.loops)
    assert dataclasses.asdict(margin) == {"part": 10, "most": 1 << 62, "least": 0}
