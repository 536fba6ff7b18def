"""Switching rewrites, and the report's table."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

import tf_exla
from rewriting.rewritten import random
from tf_exla.rewrite import DEFAULTS, FAMILIES

gpflow = pytest.importorskip("gpflow")
KERNEL = gpflow.kernels.SquaredExponential()


def matvec(x: tf.Tensor, y: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    return KERNEL(x, y) @ v


ARGS = (random(200, 3), random(150, 3), random(150, 1))


def applied(rewrites: Any) -> set[str]:
    report = tf_exla.optimize(matvec, "1GB", rewrites=rewrites).report(*ARGS)
    return {entry.rewrites for entry in report.rewrites}


def test_each_family_is_switched_by_name() -> None:
    assert applied(None) == {"cleanup", "rank-one-terms", "chains"}
    assert applied({}) == applied(None)
    assert applied({"chains": False}) == {"cleanup", "rank-one-terms", "scalings"}
    assert applied({"rank-one-terms": False, "cleanup": False}) == {"chains"}
    assert applied({"chains": False, "scalings": False}) == {"cleanup", "rank-one-terms"}
    assert applied(False) == set()
    assert applied(True) == applied(None)


def test_only_what_loses_no_accuracy_is_on() -> None:
    assert {name for name in FAMILIES if not DEFAULTS[name]} == {"naive-distance", "solves"}


@pytest.mark.parametrize(
    ("rewrites", "error", "message"),
    [
        ({"chain": False}, ValueError, "rewrites has no 'chain'; there are cleanup, "),
        ("chains", TypeError, "rewrites='chains' is no mapping of names"),
        (["chains"], TypeError, "is no mapping of names"),
    ],
)
def test_a_bad_switch_is_quoted(rewrites: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        tf_exla.optimize(matvec, "1GB", rewrites=rewrites)


def test_the_report_lists_what_was_applied() -> None:
    report = tf_exla.explain(matvec, *ARGS, limit="1GB")
    entry = next(one for one in report.rewrites if one.name == "rank-one-terms")
    assert entry.count == 1
    assert entry.identity == "s a bᵀ + x 1ᵀ + 1 yᵀ = [s a, x, 1] [b, 1, y]ᵀ"
    assert entry.bytes < entry.bytes_before
    assert entry.sources[0].startswith("test_options.py:")
    text = report.details()
    assert "Rewrites" in text
    assert "rank-one-terms" in text
    assert report.to_dict()["rewrites"]


def test_the_report_counts_costly_nodes() -> None:
    def gradient(a: tf.Tensor, g: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(a)
            loss = tf.reduce_sum(tf.sin(tf.matmul(a, a, transpose_b=True)) * g)
        return tape.gradient(loss, a)

    report = tf_exla.explain(gradient, random(100, 900), random(100, 100), limit="1GB")
    (products,) = [one for one in report.costly if one.op == "matmul"]
    assert (products.before, products.after) == (3, 2)
    assert "matmul 3 -> 2" in report.details()


@pytest.mark.parametrize("name", FAMILIES)
def test_every_identity_is_one_line(name: str) -> None:
    for rewrite in FAMILIES[name]:
        assert "=" in rewrite.identity
        assert len(rewrite.identity) < 100
        assert rewrite.family == name


def test_limits_hold_and_numbers_stay_with_and_without() -> None:
    want = matvec(*ARGS)
    for rewrites in (None, True, False):
        made = tf_exla.optimize(matvec, "2MB", rewrites=rewrites)(*ARGS)
        tf.debugging.assert_near(made, want, rtol=1e-12)
