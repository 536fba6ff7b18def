"""Keras under a limit: the example of docs/keras.md, against Keras alone, and the callback."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from fresh_process import run_fresh
from samples import but

DOCS = Path(__file__).resolve().parent.parent / "docs" / "keras.md"


def example() -> str:
    """Return the last block of code of the document."""
    return re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)[-1]


def fit(code: str) -> list[Any]:
    """Run the example with and without its limit; return losses, weights, and peaks of a step."""
    import tensorflow as tf

    import tf_exla
    from tf_exla.frontends.tf.measuring.measure import measured_peak

    found: list[Any] = []
    for limited in (True, False):
        source = code if limited else code.replace("callbacks=[limit]", "").split("print(")[0]
        # TensorFlow's allocator reports nothing for steps that XLA compiles as a whole.
        source = source.replace('metrics=["accuracy"]', 'metrics=["accuracy"], jit_compile=False')
        names: dict[str, Any] = {}
        exec(source, names)
        model, batch = names["model"], (names["x"][:8], names["y"][:8])
        weights = float(sum(abs(weight).sum() for weight in model.get_weights()))
        step = model.train_step
        step = tf_exla.optimize(step, "20MB") if limited else tf.function(step)
        peak = measured_peak(step, tuple(map(tf.constant, batch)))
        reports = names["limit"].reports() if limited else []
        projected = max((report.projected_peak for report in reports), default=0)
        found += [names["history"].history["loss"], int(peak), weights, projected]
    return [*found, names["keras"].__version__]


def test_the_example() -> None:
    assert "20MB" in example()
    losses, peak, weights, projected, stock_losses, stock_peak, stock_weights, *_ = run_fresh(
        fit, example()
    )
    # float32, and Adam divides by gradients that are nearly zero.
    for loss, stock in zip(losses, stock_losses, strict=True):
        assert abs(loss - stock) <= 1e-4 * abs(stock)
    assert abs(weights - stock_weights) <= 1e-4 * stock_weights
    assert peak <= projected <= 20_000_000
    assert stock_peak > 2 * peak


def kernel_and_data() -> tuple[Any, Any, Any]:
    """Return a layer, the products of all pairs of rows of a batch, and rows and targets."""
    import keras
    import numpy as np

    class Kernel(keras.layers.Layer):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            return keras.ops.sum(keras.ops.tanh(x @ keras.ops.transpose(x)), 1, keepdims=True)

    rng = np.random.default_rng(0)
    return Kernel, rng.normal(size=(1500, 4)), rng.normal(size=(1500, 1))


def use() -> None:
    """Fit, compile again, fit, evaluate and predict; with the callback and without it."""
    import keras
    import numpy as np
    import pytest

    import tf_exla
    import tf_exla.keras

    Kernel, x, y = kernel_and_data()

    def run(callback: Any) -> list[Any]:
        callbacks = [] if callback is None else [callback]
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4), Kernel()])
        found = []
        for optimizer in ("adam", keras.optimizers.SGD(1e-6)):
            model.compile(optimizer, "mse")
            fitted = model.fit(
                x, y, batch_size=1000, epochs=2, verbose=0, shuffle=False, callbacks=callbacks,
                validation_data=(x[:900], y[:900]),
            )  # fmt: skip
            found += [*fitted.history["loss"], *fitted.history["val_loss"]]
            found.append(model.evaluate(x, y, batch_size=1000, verbose=0, callbacks=callbacks))
            predicted = model.predict(x, batch_size=1000, verbose=0, callbacks=callbacks)
            found.append(float(np.abs(predicted).sum()))
            assert not set(vars(model)) & {
                f"make_{kind}_function" for kind in ("train", "test", "predict")
            }
        return found

    limit = tf_exla.keras.MemoryLimit("2MB", strict=True)
    np.testing.assert_allclose(run(limit), run(None), rtol=1e-4)
    reports = limit.reports()
    assert reports
    for report in reports:
        assert report.projected_peak <= 2_000_000
    assert any(report.loops for report in reports)

    model = keras.Sequential([keras.Input((4,)), Kernel()])
    model.compile("adam", "mse", jit_compile=True)
    before = model.jit_compile
    with pytest.raises(tf_exla.MemoryLimitError):
        model.predict(x, callbacks=[tf_exla.keras.MemoryLimit(10)], verbose=0)
    assert model.jit_compile is before
    model.predict(x, callbacks=[tf_exla.keras.MemoryLimit("20MB")], verbose=0)
    assert model.jit_compile is before

    class Failing(keras.callbacks.Callback):  # type: ignore[misc]
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            raise RuntimeError("of another callback")

    model = keras.Sequential([keras.Input((4,)), Kernel()])
    model.compile("adam", "mse", jit_compile=True)
    for fail in range(3):
        with pytest.raises(RuntimeError, match="of another"):
            model.fit(x, y, verbose=0, callbacks=[tf_exla.keras.MemoryLimit("20MB"), Failing()])
        assert model.jit_compile is before, fail
        assert "make_train_function" not in vars(model)

    model = keras.Sequential([keras.Input((4,)), Kernel()])
    model.compile("adam", "mse", run_eagerly=True)
    with pytest.raises(ValueError, match="run_eagerly"):
        model.predict(x, callbacks=[tf_exla.keras.MemoryLimit("20MB")], verbose=0)
    with pytest.raises(TypeError, match="jit_compile"):
        tf_exla.keras.MemoryLimit("20MB", jit_compile="yes")  # type: ignore[arg-type]


def runs_within_runs() -> None:
    """Evaluate the model and fit another at the ends of epochs, with several callbacks."""
    import keras
    import pytest

    import tf_exla
    import tf_exla.keras

    Kernel, x, y = kernel_and_data()
    model = keras.Sequential([keras.Input((4,)), Kernel()])
    model.compile("adam", "mse", jit_compile=True)
    before = model.jit_compile

    class Evaluating(keras.callbacks.Callback):  # type: ignore[misc]
        """Evaluates the model, and fits another, within the same callback's limit or another's."""

        def __init__(self, *callbacks: Any) -> None:
            super().__init__()
            self.callbacks = list(callbacks)

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.model.evaluate(x, y, verbose=0, callbacks=self.callbacks)
            other = keras.Sequential([keras.Input((4,)), Kernel()])
            other.compile("adam", "mse")
            other.fit(x, y, verbose=0, callbacks=self.callbacks)
            assert "make_train_function" not in vars(other)

    shared = tf_exla.keras.MemoryLimit("20MB")
    for outer, inner in (
        ([], [tf_exla.keras.MemoryLimit("20MB")]),
        ([tf_exla.keras.MemoryLimit("20MB")], [tf_exla.keras.MemoryLimit("20MB")]),
        ([shared], [shared]),
    ):
        model.fit(x, y, epochs=2, verbose=0, callbacks=[*outer, Evaluating(*inner)])
        assert model.jit_compile is before
        assert "make_train_function" not in vars(model)

    # The smallest limit holds, of several callbacks and of runs within runs.
    tight, loose = tf_exla.keras.MemoryLimit(10), tf_exla.keras.MemoryLimit("20MB")
    for callbacks in ([tight, loose], [loose, tight], [Evaluating(tight), loose]):
        model = keras.Sequential([keras.Input((4,)), Kernel()])
        model.compile("adam", "mse")
        with pytest.raises(tf_exla.MemoryLimitError):
            model.fit(x, y, verbose=0, callbacks=callbacks)
        # Keras reports no errors of other callbacks.
        if not isinstance(callbacks[0], Evaluating):
            assert "make_train_function" not in vars(model)


def several_runs() -> None:
    """They share a plan, until the model is compiled again, also during a run."""
    import gc
    import weakref

    import keras
    import numpy as np

    import tf_exla.keras
    from tf_exla.frontends.tf.planning import planner

    Kernel, x, y = kernel_and_data()

    class Compiling(keras.callbacks.Callback):  # type: ignore[misc]
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.model.compile(keras.optimizers.SGD(0.0), "mae")
            self.model.make_train_function()

    def runs(limits: Sequence[Any]) -> list[Any]:
        keras.utils.set_random_seed(0)
        model, found = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4), Kernel()]), []
        model.compile("sgd", "mse")
        some = {"verbose": 0, "callbacks": limits, "shuffle": False}
        for loss in (None, "mae"):
            if loss:
                model.compile("adam", loss)
            for _ in range(3):
                found.append(model.fit(x, y, **some).history["loss"][0])
                found.append(model.evaluate(x, y, verbose=0, callbacks=limits))
        compiling = [*limits, Compiling()]
        found += [model.fit(x, y, **some | {"callbacks": compiling}).history["loss"][0]]
        return [*found, model.fit(x, y, **some).history["loss"][0]]

    shared = tf_exla.keras.MemoryLimit("20MB", strict=True)
    np.testing.assert_allclose(runs([shared]), runs([]), rtol=1e-4)
    plans: list[Any] = []
    plan = planner.optimize_graph

    def counted(*args: Any, **kwargs: Any) -> Any:
        plans.append(args)
        return plan(*args, **kwargs)

    planner.optimize_graph = counted
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4), Kernel()])
    model.compile("sgd", "mse")
    made = []
    for _ in range(3):
        model.fit(x, y, verbose=0, callbacks=[shared])
        model.predict(x, verbose=0, callbacks=[shared])
        made.append(len(plans))
    assert made[0] == made[-1] > 0
    planner.optimize_graph = plan

    models = []
    for _ in range(4):
        model = keras.Sequential([keras.Input((4,)), Kernel()])
        model.compile("adam", "mse")
        model.fit(x, y, verbose=0, callbacks=[shared])
        models.append(weakref.ref(model))
    del model
    keras.backend.clear_session()
    gc.collect()
    assert sum(one() is not None for one in models) <= 1  # that of the callback's reports


@pytest.mark.parametrize("calls", but([runs_within_runs], [use, runs_within_runs, several_runs]))
def test_the_callback(calls: Callable[[], None]) -> None:
    run_fresh(calls)


def several_steps_at_once() -> None:
    """Batches that one call reads in a loop have sizes, too: 64, and 58 for the last."""
    import warnings

    import keras
    import numpy as np

    import tf_exla
    import tf_exla.keras

    warnings.simplefilter("error", tf_exla.UnboundedMemoryWarning)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(250, 128)).astype("float32"), rng.integers(0, 10, 250)

    def run(*callbacks: Any) -> tuple[list[float], Any, Any]:
        keras.utils.set_random_seed(0)
        given = keras.Input((128,))
        rows = keras.layers.Dense(16, "gelu")(keras.layers.Reshape((128, 1))(given))
        seen = keras.layers.MultiHeadAttention(2, 8)(rows, rows)
        made = keras.layers.Dense(10)(keras.layers.GlobalAveragePooling1D()(rows + seen))
        model = keras.Model(given, made)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("sgd", loss, metrics=["accuracy"], steps_per_execution=3)
        some = {"verbose": 0, "callbacks": list(callbacks), "batch_size": 64}
        history = model.fit(x, y, epochs=2, shuffle=False, validation_data=(x, y), **some).history
        again = model.evaluate(x, y, **some)
        return history["loss"] + history["val_loss"], again, model.predict(x, **some)

    limit = tf_exla.keras.MemoryLimit("12MB")
    limited, reports = run(limit), limit.reports()
    for found, expected in zip(limited, run(), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert all(report.projected_peak <= 12_000_000 for report in reports)
    assert any(report.projected_peak_before > 12_000_000 for report in reports)


def test_several_steps_at_once() -> None:
    run_fresh(several_steps_at_once)
