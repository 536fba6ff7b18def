"""`tf_exla.gpflow.Scipy` behaves as GPflow's, within a limit."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tf_exla

pytest.importorskip("gpflow")

import gpflow

from tf_exla.gpflow import Scipy

Model = gpflow.models.GPModel


def data(num: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(num, 2))
    return X, np.sin(3 * X[:, :1]) + 0.1 * rng.normal(size=(num, 1))


def sgpr(kernel: gpflow.kernels.Kernel | None = None) -> Model:
    X, y = data(2000)
    kernel = kernel or gpflow.kernels.Matern32(lengthscales=[1.0, 1.0])
    return gpflow.models.SGPR(
        (X, y), kernel, X[:20], mean_function=gpflow.functions.Constant(), noise_variance=0.1
    )


def gpr() -> Model:
    return gpflow.models.GPR(data(150), gpflow.kernels.SquaredExponential(), noise_variance=0.1)


def sgpr_with_a_fixed_part() -> Model:
    model = sgpr(gpflow.kernels.SquaredExponential() + gpflow.kernels.Linear())
    gpflow.set_trainable(model.inducing_variable, False)
    return model


# Stock needs about 6 MB for SGPR, and 2.5 MB for GPR, whose Cholesky needs all of K, 180 kB.
@pytest.mark.one_of(2)
@pytest.mark.parametrize(
    ("build", "limit"),
    [(sgpr, "2MB"), (sgpr_with_a_fixed_part, "2MB"), (gpr, "2.4MB"), (gpr, "1GB"), (sgpr, "auto")],
)
def test_same_results_as_gpflow(build: Callable[[], Model], limit: str) -> None:
    expected_model, model = build(), build()
    options = {"track_loss_history": True, "options": {"maxiter": 5}}
    expected = gpflow.optimizers.Scipy().minimize(
        expected_model.training_loss, expected_model.trainable_variables, **options
    )
    optimizer = Scipy(limit)
    result = optimizer.minimize(model.training_loss, model.trainable_variables, **options)
    # float64: sums over chunks add in another order, which five steps amplify.
    np.testing.assert_allclose(result.fun, expected.fun, rtol=1e-7)
    np.testing.assert_allclose(result.x, expected.x, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(result.loss_history, expected.loss_history, rtol=1e-7)
    assert (result.nit, result.nfev, result.message) == (
        expected.nit,
        expected.nfev,
        expected.message,
    )
    for variable, its_value in zip(
        model.trainable_variables, expected_model.trainable_variables, strict=True
    ):
        np.testing.assert_allclose(variable, its_value, rtol=1e-5, atol=1e-7)


def test_report_and_measured_peak_are_of_the_evaluated_function() -> None:
    model, optimizer = sgpr(), Scipy("2MB")
    for early in (lambda: optimizer.report, optimizer.measured_peak):
        with pytest.raises(ValueError, match="call minimize first"):
            early()
    optimizer.minimize(model.training_loss, model.trainable_variables, options={"maxiter": 1})
    report = optimizer.report
    assert report.projected_peak <= report.limit == 2 * 10**6 < report.projected_peak_before
    assert report.loops
    values = [variable.numpy() for variable in model.trainable_variables]
    assert optimizer.measured_peak() > 0
    for variable, value in zip(model.trainable_variables, values, strict=True):
        np.testing.assert_allclose(variable, value, rtol=1e-12)


def test_impossible_limit_is_refused() -> None:
    model = gpr()
    with pytest.raises(tf_exla.MemoryLimitError, match="exceeds the limit 100 kB"):
        Scipy("100kB").minimize(model.training_loss, model.trainable_variables)


def test_step_callback_sees_steps_and_values() -> None:
    model, steps = sgpr(), []
    Scipy("2MB").minimize(
        model.training_loss,
        model.trainable_variables,
        step_callback=lambda step, variables, values: steps.append((step, len(values))),
        options={"maxiter": 3},
    )
    assert steps == [(0, 5), (1, 5), (2, 5)]


def test_a_loss_is_traced_once_for_several_calls() -> None:
    model, optimizer, traces = sgpr(), Scipy("2MB"), []

    def loss() -> tf.Tensor:
        traces.append(1)
        return model.training_loss()

    for _ in range(2):
        optimizer.minimize(loss, model.trainable_variables, options={"maxiter": 1})
    assert len(traces) == 1


def test_report_follows_the_loss_minimized_last() -> None:
    optimizer = Scipy("3MB")
    large, small = sgpr(), gpr()
    peaks = []
    for model in (large, small, large):
        optimizer.minimize(model.training_loss, model.trainable_variables, options={"maxiter": 1})
        peaks.append(optimizer.report.projected_peak_before)
    assert peaks[0] == peaks[2] != peaks[1]


@pytest.mark.parametrize("optimizer", [gpflow.optimizers.Scipy(), Scipy("1GB")])
def test_unused_variables_are_refused_as_by_gpflow(optimizer: gpflow.optimizers.Scipy) -> None:
    model, unused = gpr(), tf.Variable(1.0, dtype=tf.float64, name="unused")
    variables = [*model.trainable_variables, unused]
    with pytest.raises(ValueError, match="Some variables does not have a gradient"):
        optimizer.minimize(model.training_loss, variables)


@pytest.mark.parametrize("optimizer", [gpflow.optimizers.Scipy(), Scipy("1GB")])
def test_unused_variables_are_allowed_as_by_gpflow(optimizer: gpflow.optimizers.Scipy) -> None:
    model, unused = gpr(), tf.Variable(1.0, dtype=tf.float64, name="unused")
    variables = [*model.trainable_variables, unused]
    with pytest.warns(UserWarning, match="Some variables does not have a gradient"):
        optimizer.minimize(
            model.training_loss, variables, allow_unused_variables=True, options={"maxiter": 1}
        )
    assert unused.numpy() == 1.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: Scipy("1GB", compile_cache_size=0), "compile_cache_size=0 is not supported"),
        (lambda m: Scipy("1GB", compile_cache_size=-1), "must be non-negative"),
        (
            lambda m: Scipy("1GB").minimize(m.training_loss, m.trainable_variables, compile=False),
            "limit .here '1GB'. .* compile=False makes none",
        ),
    ],
)
def test_what_cannot_hold_a_limit_is_refused(call: Callable[[Model], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(gpr())


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
def test_copies_work_without_the_traced_functions(clone: Callable[[Scipy], Scipy]) -> None:
    model, optimizer = gpr(), Scipy("1GB")
    optimizer.minimize(model.training_loss, model.trainable_variables, options={"maxiter": 1})
    copied = clone(optimizer)
    assert copied.limit == "1GB"
    with pytest.raises(ValueError, match="call minimize first"):
        _ = copied.report
    copied.minimize(model.training_loss, model.trainable_variables, options={"maxiter": 1})
    assert copied.report.limit == 10**9


def test_import_of_the_package_does_not_need_gpflow() -> None:
    from fresh_process import run_fresh

    code = """
        import sys
        import tf_exla
        send("gpflow" in sys.modules)
    """
    assert run_fresh(code) is False


@pytest.mark.thorough  # `test_limit_errors.py` has others
def test_the_smallest_limit_of_an_error_is_feasible() -> None:
    """Rewrites depend on the limit: at the smallest of 1 byte the program had one node more."""
    rng = np.random.default_rng(0)
    x = rng.random((6000, 2))
    classes = (3 * x[:, :1]).astype(int).clip(0, 2)
    model = gpflow.models.SVGP(
        gpflow.kernels.SquaredExponential() + gpflow.kernels.White(0.01),
        gpflow.likelihoods.MultiClass(3),
        x[:40].copy(),
        num_latent_gps=3,
        q_diag=True,
        num_data=len(x),
    )

    def step(x: tf.Tensor, y: tf.Tensor) -> Any:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(model.trainable_variables)
            loss = model.training_loss((x, y))
        return loss, tape.gradient(loss, model.trainable_variables)

    data = tf.constant(x), tf.constant(classes)
    with pytest.raises(tf_exla.MemoryLimitError) as info:
        tf_exla.explain(step, *data, limit=1000)
    smallest = info.value.smallest_limit
    assert tf_exla.explain(step, *data, limit=smallest).projected_peak <= smallest
