"""`optimize` and `explain`: a function keeps its signature, results, effects and sharing."""

from __future__ import annotations

import gc
import inspect
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tf_exla
from tf_exla import MemoryLimitError, explain, optimize
from tf_exla.frontends.tf.calls import optimized as optimized_module

RNG = np.random.default_rng(0)


def test_the_package_exports_exactly_its_api() -> None:
    assert sorted(tf_exla.__all__) == [
        "Cluster",
        "DeviceError",
        "MemoryLimitError",
        "MemoryReport",
        "NotOptimizedWarning",
        "OptimizedFunction",
        "UnboundedMemoryError",
        "UnboundedMemoryWarning",
        "explain",
        "limit",
        "measured_peak",
        "optimize",
        "sharded",
        "to_tensorboard",
    ]
    for name in tf_exla.__all__:
        assert getattr(tf_exla, name).__name__ == name
    with pytest.raises(AttributeError, match="nothing"):
        tf_exla.nothing  # noqa: B018


def test_the_core_does_without_tensorflow() -> None:
    code = "import sys, tf_exla.pipeline.optimize; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_decorators() -> None:
    @optimize
    def plain(x: Any) -> Any:
        return x + 1

    @optimize(limit="1GB")
    def limited(x: Any) -> Any:
        """Doubles."""
        return x * 2

    @optimize(limit="1GB")
    @tf.function
    def graph(x: Any) -> Any:
        return x * 3

    assert [int(f(tf.constant(1))) for f in (plain, limited, graph)] == [2, 2, 3]
    assert (limited.__name__, limited.__doc__) == ("limited", "Doubles.")
    assert limited.python_function(3) == 6
    assert str(inspect.signature(limited)) == "(x: 'Any') -> 'Any'"


def test_nested_structures_python_values_and_defaults() -> None:
    calls = []

    def fn(pair: Any, *rest: Any, scale: float = 2.0, options: Any = None, **more: Any) -> Any:
        calls.append(scale)
        a, b = pair["a"], pair["b"][0]
        total = a * scale + b + sum(rest)
        if options:
            total = -total
        return {"total": total, "none": None, "pair": (a, [b, *more.values()])}

    f = optimize(fn, "1GB")
    a, b = tf.constant([1.0, 2.0]), tf.constant(3.0)
    arguments: list[tuple[Any, dict[str, Any]]] = [
        (({"a": a, "b": (b,)},), {}),
        (({"a": a, "b": (b,)}, b, 4.0), {"scale": 5.0}),
        (({"a": a, "b": (b,)},), {"options": True, "extra": b}),
        (({"a": np.ones(2, np.float32), "b": [b]},), {}),
    ]
    for args, kwargs in arguments:
        expected, got = tf.function(fn)(*args, **kwargs), f(*args, **kwargs)
        tf.nest.assert_same_structure(expected, got)
        tf.nest.map_structure(
            lambda x, y: x is None or np.testing.assert_array_equal(x, y), expected, got
        )
        assert type(got["pair"]) is type(expected["pair"])
    # Python effects happen at tracing only.
    count = len(calls)
    f(*arguments[0][0], **arguments[0][1])
    assert len(calls) == count


def test_results_keep_dtypes_and_static_shapes() -> None:
    f = optimize(lambda x: (tf.cast(x, tf.int8), x[:1], tf.strings.as_string(x)), "1GB")
    seen = []

    @tf.function
    def outer(x: Any) -> Any:
        seen.extend(f(x))
        return seen[0]

    outer.get_concrete_function(tf.TensorSpec([3, 4]))
    assert [(t.dtype, t.shape.as_list()) for t in seen] == [
        (tf.int8, [3, 4]),
        (tf.float32, [1, 4]),
        (tf.string, [3, 4]),
    ]


def test_composite_tensors() -> None:
    ragged = tf.ragged.constant([[1.0, 2.0], [3.0]])
    got = optimize(lambda r: r * 2, "1GB")(ragged)
    assert got.to_list() == [[2, 4], [6]]


def test_methods() -> None:
    class Model(tf.Module):
        def __init__(self, scale: float) -> None:
            super().__init__()
            self.scale = tf.Variable(scale)

        @optimize(limit="1GB")
        def call(self, x: Any, y: float = 1.0) -> Any:
            return self.scale * x + y

        @optimize
        @tf.function
        def other(self, x: Any) -> Any:
            return self.scale - x

    one, two = Model(2.0), Model(3.0)
    assert [float(m.call(tf.constant(5.0))) for m in (one, two)] == [11, 16]
    assert float(one.call(tf.constant(5.0), y=0.0)) == 10
    assert float(two.other(tf.constant(1.0))) == 2
    assert one.call is one.call


def test_variables_are_shared() -> None:
    v = tf.Variable(1.0)
    f = optimize(lambda x: x * v, "1GB")
    assert f(tf.constant(2.0)) == 2
    v.assign(5.0)
    assert f(tf.constant(2.0)) == 10


def test_variables_as_arguments() -> None:
    f = optimize(lambda v, x: v.assign_add(x) * 2, "1GB")
    one, two = tf.Variable(1.0), tf.Variable(10.0)
    assert [float(f(one, 1.0)), float(f(two, 1.0)), float(f(one, 1.0))] == [4, 22, 6]
    assert [one.numpy(), two.numpy()] == [3, 11]


def test_variables_made_in_the_first_call() -> None:
    class Counter:
        value = None

        def __call__(self, x: Any) -> Any:
            if self.value is None:
                self.value = tf.Variable(0.0)
            return self.value.assign_add(x)

    f = optimize(Counter(), "1GB")
    assert [float(f(tf.constant(2.0))) for _ in range(3)] == [2, 4, 6]


def test_unknown_sizes_are_specialised_at_the_call() -> None:
    traces = []

    def fn(x: Any) -> Any:
        traces.append(x.shape)
        return tf.reduce_sum(tf.exp(-tf.abs(x[:, None] - x[None, :])), axis=1)

    f = optimize(tf.function(fn, input_signature=[tf.TensorSpec([None], tf.float64)]), "5MB")
    for n in (100, 1500, 100):
        x = RNG.normal(size=n)
        np.testing.assert_allclose(f(x), np.exp(-np.abs(x[:, None] - x)).sum(1), rtol=1e-12)
    assert len(traces) == 1
    assert sorted(bool(report.loops) for report in f.reports()) == [False, True]


def test_specialisations_are_bounded_and_dropped_ones_are_freed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(optimized_module, "CACHE_SIZE", 4)
    f = optimize(lambda x, k: x + k, "1GB")
    for k in range(10):
        assert f(tf.constant(1), k) == 1 + k
    assert len(f.reports()) == 4
    assert f._function.experimental_get_tracing_count() == 4
    gc.collect()
    assert f(tf.constant(1), 0) == 1


def test_inside_another_function() -> None:
    v = tf.Variable(1.0)

    @optimize(limit="1GB")
    def step(x: Any) -> Any:
        v.assign_add(x)
        return v * 2

    @tf.function
    def outer(x: Any) -> Any:
        first = step(x)
        v.assign(v * 10)
        for _ in tf.range(2):
            step(x)
        return first, v.read_value()

    first, last = outer(tf.constant(1.0))
    assert (float(first), float(last)) == (4, 22)


def test_tf_function_of_an_optimized_function_keeps_the_plan() -> None:
    f = optimize(kernel_product, "5MB")
    x = tf.constant(RNG.normal(size=1500))
    outer = tf.function(f)
    np.testing.assert_allclose(outer(x), f(x), rtol=1e-12)
    graph = outer.get_concrete_function(x).graph
    assert any("PartitionedCall" in op.type for op in graph.get_operations())


def test_eager_mode_runs_the_python_function() -> None:
    seen = []
    f = optimize(lambda x: seen.append(type(x)) or x + 1, "1GB")
    tf.config.run_functions_eagerly(True)
    try:
        assert f(tf.constant(1)) == 2
        assert f(tf.constant(1)) == 2
    finally:
        tf.config.run_functions_eagerly(False)
    assert len(seen) == 2


def kernel_product(x: Any) -> Any:
    return tf.reduce_sum(tf.exp(-tf.abs(x[:, None] - x[None, :])), axis=1)


def test_concrete_functions() -> None:
    f = optimize(kernel_product, "5MB")
    concrete = f.get_concrete_function(tf.TensorSpec([1500], tf.float64))
    x = RNG.normal(size=1500)
    np.testing.assert_allclose(concrete(tf.constant(x)), f(tf.constant(x)), rtol=1e-12)
    assert concrete.structured_outputs.shape == (1500,)
    assert any(op.type == "StatelessWhile" for op in concrete.graph.get_operations())
    unknown = f.get_concrete_function(tf.TensorSpec([None], tf.float64))
    np.testing.assert_allclose(unknown(tf.constant(x)), f(tf.constant(x)), rtol=1e-12)


def test_explain_and_report_run_nothing() -> None:
    ran = []

    def fn(x: Any) -> Any:
        tf.py_function(lambda: ran.append(1), [], [])
        return kernel_product(x)

    report = explain(fn, tf.TensorSpec([1500], tf.float64), limit="5MB")
    assert report.projected_peak <= report.limit == 5_000_000 < report.projected_peak_before
    assert report.loops
    assert not ran
    f = optimize(fn, "5MB")
    assert f.report(tf.zeros(1500, tf.float64)).loops
    assert not ran
    assert not explain(f, tf.zeros(1000, tf.float64), limit="1GB").loops
    assert f.resident_bytes(tf.zeros(1500, tf.float64)) >= 12000


def test_a_limit_that_cannot_be_held() -> None:
    x = tf.ones([1000, 1000], tf.float64)
    with pytest.raises(MemoryLimitError, match="Smallest limit that works") as error:
        optimize(lambda x: tf.linalg.cholesky(tf.matmul(x, x)), "9MB")(x)
    smallest = error.value.smallest_limit
    assert optimize(lambda x: tf.matmul(x, x), smallest)(x).shape == (1000, 1000)


@pytest.mark.parametrize("limit", ["12 parrots", 0, -1, float("nan"), "0MB"])
def test_bad_limits_are_values_errors_that_quote(limit: Any) -> None:
    with pytest.raises(ValueError, match=str(limit)):
        optimize(lambda x: x, limit)


@pytest.mark.parametrize("limit", [None, True, [1]])
def test_limits_of_a_wrong_type(limit: Any) -> None:
    with pytest.raises(TypeError):
        optimize(lambda x: x, limit)


def test_what_is_no_function() -> None:
    with pytest.raises(
        TypeError, match="the first argument is the function, not '1GB'; write limit='1GB'"
    ):
        optimize("1GB")


def test_defaults_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_EXLA_LIMIT", "5MB")
    monkeypatch.setenv("TF_EXLA_FLAGS", "--tensor_size_threshold=1GB --tensor_split_size=500MB")
    f = optimize(lambda x: x)
    assert f._request.bytes() == 5_000_000
    assert f._request.options().tensor_size_threshold == 10**9
    assert f._request.options().tensor_split_size == 5 * 10**8
    assert optimize(lambda x: x, tensor_split_size="1MB")._request.tensor_split_size == 10**6
    monkeypatch.setenv("TF_EXLA_FLAGS", "--nonsense=1")
    with pytest.raises(ValueError, match="unknown flag '--nonsense=1'"):
        optimize(lambda x: x)


def test_the_threshold_splits_below_the_limit() -> None:
    x = tf.constant(RNG.normal(size=1000))
    whole, split = (
        optimize(kernel_product, "1GB"),
        optimize(kernel_product, "1GB", tensor_size_threshold="1MB"),
    )
    np.testing.assert_allclose(split(x), whole(x), rtol=1e-12)
    assert [bool(f.report(x).loops) for f in (split, whole)] == [True, False]


def test_dispatch_is_quick() -> None:
    f, x = optimize(lambda x, y: x + y, "1GB"), tf.ones(3)
    f(x, x)
    best = min(_seconds(lambda: f(x, x)) for _ in range(5))
    assert best < 1e-3


def _seconds(call: Any, times: int = 50) -> float:
    start = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - start) / times


def test_200_calls_do_not_grow() -> None:
    """Neither live objects nor the resident set grow."""
    gpflow = pytest.importorskip("gpflow")
    x = np.random.default_rng(1).normal(size=(2000, 2))
    model = gpflow.models.SGPR(
        (x, np.sin(x[:, :1])), gpflow.kernels.SquaredExponential(), x[:30].copy()
    )
    f = optimize(model.training_loss, "3MB")

    def step() -> None:
        with tf.GradientTape() as tape:
            loss = f()
        for gradient, variable in zip(
            tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True
        ):
            variable.assign_sub(1e-6 * tf.convert_to_tensor(gradient))

    for _ in range(20):
        step()
    gc.collect()
    objects, resident = len(gc.get_objects()), _resident()
    for _ in range(200):
        step()
    gc.collect()
    assert len(gc.get_objects()) - objects < 200
    # 200 leaked chunks or gradients would be more than 8 MB.
    assert _resident() - resident < 8e6


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def test_a_trace_tells_what_each_step_was_chosen_from() -> None:
    arguments = tf.ones((1500, 3), tf.float64), tf.ones((1500, 1), tf.float64)

    def matvec(x: Any, v: Any) -> Any:
        return tf.exp(-tf.matmul(x, x, transpose_b=True)) @ v

    plain = tf_exla.explain(matvec, *arguments, limit="5MB")
    traced = tf_exla.explain(matvec, *arguments, limit="5MB", trace=True)
    assert [one.move for one in plain.steps] == [one.move for one in traced.steps]
    assert not any(one.alternatives for one in plain.steps)
    splits = [one for one in traced.steps if one.alternatives]
    for one in splits:
        (chosen,) = (other for other in one.alternatives if not other.reason)
        assert (chosen.move, chosen.working_set) == (one.move, one.working_set)
        assert one.working_set < one.working_set_before
    assert splits
    assert splits[0].move in plain.details()
    assert all(
        other.reason in traced.details().replace("\n", " ") for other in splits[0].alternatives
    )
