"""After a failure of tf_exla itself a function runs unchanged, with one warning; strict raises."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from fresh_process import run_fresh

import tf_exla
from tf_exla.errors import Blocker
from tf_exla.frontends.tf import capture, restore
from tf_exla.frontends.tf.calls import program
from tf_exla.frontends.tf.gradients import saved_values
from tf_exla.frontends.tf.planning import planner
from tf_exla.pipeline import choice
from tf_exla.pipeline import optimize as pipeline

# The functions that a call goes through, from the traced function to the restored graph.
CAPTURE = ((program, "capture"), (capture, "settle"), (capture, "normalize"))
PASSES = tuple(
    (pipeline, name)
    for name in (
        "check_graph",
        "clean",
        "mirror",
        "rewrite_graph",
        "Forms",
        "_steps",
        "Plan",
    )
) + tuple((choice, name) for name in ("split", "finish", "split_in_cache"))
RESTORE = (
    (planner, "optimize_graph"),
    (planner, "restore"),
    (restore, "define"),
    (restore, "Emitter"),
)
GRADIENT = (
    (program, "substitute"),
    (saved_values, "without_dead"),
    (saved_values, "_check_defined"),
)
ROWS = 701


class Injected(Exception):
    """An exception that no part of tf_exla raises."""


def affinities(x: tf.Tensor, scale: tf.Variable) -> tf.Tensor:
    return tf.reduce_sum(tf.exp(-scale * tf.square(x[:, None] - x[None, :])), 1)


def fail(*args: Any, **kwargs: Any) -> Any:
    raise Injected("as asked for")


def arguments() -> tuple[tf.Tensor, tf.Variable]:
    x = tf.constant(np.random.default_rng(0).standard_normal(ROWS))
    return x, tf.Variable(0.5, dtype=tf.float64)


def value_and_gradient(function: Callable[..., tf.Tensor]) -> list[tf.Tensor]:
    x, scale = arguments()
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = function(x, scale)
    return [value, *tape.gradient(value, (x, scale))]


@pytest.mark.each_value
@pytest.mark.parametrize("limit", ["2MB", "50MB"])
@pytest.mark.parametrize(("module", "name"), [*CAPTURE, *PASSES, *RESTORE])
def test_a_failure_in_the_forward_pass(
    module: Any, name: str, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    want = value_and_gradient(tf.function(affinities))
    monkeypatch.setattr(module, name, fail)
    with pytest.raises(Injected):
        tf_exla.optimize(affinities, limit, strict=True)(*arguments())
    optimized = tf_exla.optimize(affinities, limit)
    with pytest.warns(tf_exla.NotOptimizedWarning) as told:
        got, again = (value_and_gradient(optimized) for _ in range(2))
    names = [str(one.message).split()[0] for one in told]
    # Once for the function, and once for its gradient if the forward pass was rewritten after all.
    assert names.count("affinities") == 1
    assert len(names) <= 2
    assert "Injected: as asked for" in str(told[0].message)
    assert "strict=True" in str(told[0].message)
    assert {one.filename for one in told} == {__file__}
    for one, two, three in zip(want, got, again, strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-12)
        np.testing.assert_allclose(three, one, rtol=1e-12)


@pytest.mark.one_of(3)
@pytest.mark.parametrize(("module", "name"), [*CAPTURE, *PASSES, *RESTORE, *GRADIENT])
def test_a_failure_in_the_gradient(module: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, scale = arguments()
    want = value_and_gradient(tf.function(affinities))[1:]
    for strict in (True, False):
        optimized = tf_exla.optimize(affinities, "6MB", strict=strict)
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = optimized(x, scale)
        with monkeypatch.context() as patched:
            patched.setattr(module, name, fail)
            if strict:
                with pytest.raises(Injected):
                    tape.gradient(value, (x, scale))
                continue
            with pytest.warns(tf_exla.NotOptimizedWarning, match="gradient of affinities"):
                got = tape.gradient(value, (x, scale))
        for one, two in zip(want, got, strict=True):
            np.testing.assert_allclose(two, one, rtol=1e-12)


def test_a_gradient_that_cannot_run_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    x, scale = arguments()
    assigned = tf_exla.optimize(lambda x, s: affinities(x, s.assign_add(0.1)), "6MB")
    plain = tf_exla.optimize(affinities, "6MB")
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        first = plain(x, scale)
        second = assigned(x, scale)
    monkeypatch.setattr(program, "substitute", fail)
    with (
        pytest.warns(tf_exla.NotOptimizedWarning),
        pytest.raises(
            tf.errors.InvalidArgumentError, match="was assigned between the call and its gradient"
        ),
    ):
        tape.gradient(first, x)
    with pytest.warns(tf_exla.NotOptimizedWarning), pytest.raises(Injected) as raised:
        tape.gradient(second, x)
    told = [*getattr(raised.value, "__notes__", ()), str(raised.value.__cause__)]
    assert any("would run twice" in note for note in told)


def test_errors_of_the_user_are_the_users() -> None:
    calls = []

    def wrong(x: tf.Tensor) -> tf.Tensor:
        calls.append(1)
        raise ValueError("mine")

    def refuses(x: tf.Tensor) -> tf.Tensor:
        tf.debugging.assert_positive(x, "must be positive")
        return affinities(x, tf.constant(0.5, tf.float64))

    with warnings.catch_warnings():
        warnings.simplefilter("error", tf_exla.NotOptimizedWarning)
        with pytest.raises(ValueError, match="mine"):
            tf_exla.optimize(wrong, "50MB")(tf.ones(3))
        assert len(calls) == 1
        with pytest.raises(tf.errors.InvalidArgumentError, match="must be positive"):
            tf_exla.optimize(refuses, "3MB")(arguments()[0])
        with pytest.raises(tf_exla.MemoryLimitError):
            tf_exla.optimize(affinities, 10)(*arguments())


def test_shapes_that_do_not_fit_are_the_users() -> None:
    @tf.function(reduce_retracing=True)
    def distance(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean((x - y) ** 2)

    optimized = tf_exla.optimize(distance, "50MB")
    with warnings.catch_warnings():
        warnings.simplefilter("error", tf_exla.NotOptimizedWarning)
        for count in (10, 11, 12):
            optimized(tf.ones([count, 1]), tf.ones([count, 1]))
        with pytest.raises(tf.errors.InvalidArgumentError):
            optimized(tf.ones([10, 1]), tf.ones([9, 1]))
        assert float(optimized(tf.ones([13, 1]), tf.zeros([13, 1]))) == 1.0
    assert len(optimized.reports()) == 4  # the later call too


def replicas_that_meet() -> dict[str, Any]:
    """Sum over two replicas on devices of the processor, of which each waits for the other."""
    (device,) = tf.config.list_physical_devices("CPU")
    halves = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(device, halves)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

    def replica(x: tf.Tensor) -> tf.Tensor:
        here = tf.distribute.get_replica_context()
        total = tf.reduce_sum(tf.exp(-tf.square(x[:, None] - x[None, :])), 1)
        return here.all_reduce(tf.distribute.ReduceOp.SUM, total)

    def function(x: tf.Tensor) -> tf.Tensor:
        return strategy.experimental_local_results(strategy.run(replica, (x,)))[1]

    x, _ = arguments()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", tf_exla.NotOptimizedWarning)
        got = tf_exla.optimize(function, "50MB")(x)
    told = [str(one.message) for one in told if one.category is tf_exla.NotOptimizedWarning]
    return {"told": told, "got": got.numpy().tolist()}


def test_replicas_that_wait_for_each_other() -> None:
    x, _ = arguments()
    found = run_fresh(replicas_that_meet, timeout=60)
    assert "waits for one on another device" in found["told"][0]
    want = 2 * affinities(x, tf.constant(1, tf.float64))
    np.testing.assert_allclose(found["got"], want, rtol=1e-12)


BLOCKER = Blocker("K", (3, None), "float64", 24, 0, "cholesky", "it needs it whole", "a.py:3 in f")


@pytest.mark.parametrize(
    "error",
    [
        tf_exla.MemoryLimitError(
            "f", limit=1, resident=2, projected_peak=3, smallest_limit=4, blocker=BLOCKER
        ),
        tf_exla.UnboundedMemoryError("f", node="while", op="while", source="a.py:3", bytes=8),
        tf_exla.UnboundedMemoryError("f", node="where", op="nonzero", source=""),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_survive_copies(error: Exception) -> None:
    for made in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(made) is type(error)
        assert str(made) == str(error)
        assert made.__dict__ == error.__dict__
