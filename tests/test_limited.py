"""`with tf_exla.limit(...)`: functions called inside hold the limit."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function

import tf_exla

X = tf.constant(np.random.default_rng(0).normal(size=(1003, 3)))
PLAIN = Function.__call__


def product(x: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.tanh(tf.matmul(x, x, transpose_b=True)), 1)


@pytest.fixture
def function() -> Any:
    return tf.function(product)


def limits(function: Any, block: Any) -> list[int]:
    return [one.limit for one in block.reports() if one.function == function.__name__]


def test_functions_called_inside(function: Any) -> None:
    expected = function(X)
    with tf_exla.limit("2MB", strict=True) as block:
        tf.debugging.assert_near(function(X), expected, rtol=1e-12)
        (report,) = [one for one in block.reports() if one.function == "product"]
        assert report.projected_peak <= 2_000_000 < report.projected_peak_before
        with pytest.raises(tf_exla.MemoryLimitError), tf_exla.limit(10):
            function(X)
    assert Function.__call__ is PLAIN


def test_the_innermost_counts_and_own_limits_stay(function: Any) -> None:
    own = tf_exla.optimize(product, "2MB")
    with tf_exla.limit("8MB") as outer:
        with tf_exla.limit("3MB") as inner:
            function(X)
            own(X)
            assert limits(function, inner) == [3_000_000]
        assert limits(function, outer) == []
        function(X)
        assert limits(function, outer) == [8_000_000]
    assert [one.limit for one in own.reports()] == [2_000_000]


def test_plans_are_kept_from_block_to_block(function: Any) -> None:
    for _ in range(3):
        with tf_exla.limit("2MB") as block:
            function(X)
    assert limits(function, block) == [2_000_000]
    assert function.experimental_get_tracing_count() == 1
    with tf_exla.limit("2MB", jit_compile=False) as other:  # other options need other plans
        assert limits(function, other) == []


def test_it_decorates(function: Any) -> None:
    block = tf_exla.limit("2.5MB")

    @block
    def train(x: tf.Tensor) -> tf.Tensor:
        """Train."""
        return function(x)

    assert train.__doc__ == "Train."
    train(X)
    assert limits(function, block) == [2_500_000]
    assert Function.__call__ is PLAIN


def test_blocks_of_threads_end_in_any_order() -> None:
    one, two = tf_exla.limit("2MB"), tf_exla.limit("3MB")
    ends = threading.Event()

    def other() -> None:
        with two:
            ends.wait(10)

    with one:
        thread = threading.Thread(target=other)
        thread.start()
    assert Function.__call__ is not PLAIN
    ends.set()
    thread.join()
    assert Function.__call__ is PLAIN


def test_gpflow_called_eagerly() -> None:
    gpflow = pytest.importorskip("gpflow")

    def model() -> Any:
        kernel = gpflow.kernels.SquaredExponential()
        return gpflow.models.SGPR((X, X[:, :1]), kernel, X[:20].numpy(), noise_variance=0.1)

    expected = model().predict_f(X)
    with tf_exla.limit("2MB", strict=True) as block:
        kept = model()  # reports are those of models that are still alive
        found = kept.predict_f(X)
        (report,) = [one for one in block.reports() if one.function == "SGPR.predict_f"]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)
    assert report.projected_peak <= 2_000_000


def test_a_function_that_xla_compiles_stays_so_if_the_limit_leaves_room() -> None:
    compiled, expected = tf.function(product, jit_compile=True), product(X)
    for limit, names in (("1GB", []), ("2.2MB", ["product"])):
        with tf_exla.limit(limit, strict=True) as block:
            np.testing.assert_allclose(compiled(X), expected, rtol=1e-9)
            assert [report.function for report in block.reports()] == names
    with pytest.raises(tf_exla.MemoryLimitError), tf_exla.limit(10):
        compiled(X)


def test_a_failure_is_a_warning() -> None:
    switched = tf.function(lambda x: tf.raw_ops.Switch(data=x, pred=x[0, 0] < 9.0)[1] + 1.0)
    with tf_exla.limit("2MB"):
        with pytest.warns(tf_exla.NotOptimizedWarning, match="control flow of TensorFlow 1"):
            switched(X)
        switched(X)  # it warns once


@pytest.mark.parametrize("bad", [{"limit": "1XB"}, {"limit": "2MB", "rewrites": {"chain": False}}])
def test_bad_arguments(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"1XB|chain"):
        tf_exla.limit(**bad)


def test_a_function_that_makes_a_variable_while_another_is_traced() -> None:
    made: list[tf.Variable] = []

    @tf.function
    def start() -> tf.Tensor:
        return 2.0 * tf.ones([3, 3])

    @tf.function
    def layer(x: tf.Tensor) -> tf.Tensor:
        if not made:
            with tf.init_scope():
                made.append(tf.Variable(start()))
        return x @ made[0]

    with tf_exla.limit("50MB", strict=True):
        np.testing.assert_array_equal(layer(tf.ones([2, 3])), np.full([2, 3], 6.0))


def test_a_sampler_carries_its_number_of_steps_through_its_loops() -> None:
    """Each step selects the number from the accepted or the proposed state: it has a bound."""
    gpflow = pytest.importorskip("gpflow")
    probability = pytest.importorskip("tensorflow_probability")
    mcmc, distributions = probability.mcmc, probability.distributions
    mean = gpflow.mean_functions.Linear(np.ones((3, 1)), np.zeros(1))
    model = gpflow.models.GPR((X[:403], X[:403, :1]), gpflow.kernels.Matern52(), mean)
    for parameter in model.trainable_parameters:
        parameter.prior = distributions.Gamma(np.float64(2.0), np.float64(1.0))
    helper = gpflow.optimizers.SamplingHelper(
        model.log_posterior_density, model.trainable_parameters
    )
    kernel = mcmc.SimpleStepSizeAdaptation(
        mcmc.HamiltonianMonteCarlo(
            helper.target_log_prob_fn, num_leapfrog_steps=2, step_size=np.float64(0.01)
        ),
        num_adaptation_steps=2,
        target_accept_prob=np.float64(0.75),
    )

    @tf.function
    def sample() -> Any:
        return mcmc.sample_chain(
            3,
            helper.current_state,
            kernel=kernel,
            num_burnin_steps=1,
            trace_fn=lambda state, results: results.inner_results.is_accepted,
        )

    before = [tf.identity(one) for one in helper.current_state]
    tf.random.set_seed(0)
    expected = sample()
    for variable, value in zip(helper.current_state, before, strict=True):
        variable.assign(value)
    with tf_exla.limit("8MB", strict=True) as block:
        found = sample()
        (report,) = block.reports()
    for a, b in zip(found[0], expected[0], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7)
    np.testing.assert_array_equal(found[1], expected[1])
    assert report.projected_peak <= 8_000_000 < report.projected_peak_before
