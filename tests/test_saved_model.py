"""An optimized function in a SavedModel holds its limit in a process without tf_exla."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fresh_process import run_fresh
from samples import but

LIMIT = 10_000_000
N = 2003


def save(path: str, with_signature: bool) -> list[float]:
    """Save a module with an optimized function; return its peak and its results."""
    import tensorflow as tf
    from programs import normal, rbf

    import tf_exla

    class Model(tf.Module):
        def __init__(self) -> None:
            self.lengthscale = tf.Variable(1.5, dtype=tf.float64)
            specs = [tf.TensorSpec([N, d], tf.float64) for d in (3, 1)]
            stock = tf.function(
                self._predict, input_signature=specs if with_signature else None, autograph=False
            )
            self.predict = tf_exla.optimize(stock, LIMIT)

        def _predict(self, x: tf.Tensor, v: tf.Tensor) -> dict[str, tf.Tensor]:
            return {"mean": tf.matmul(rbf(x, x, self.lengthscale), v)}

    model = Model()
    x, v = normal(N, 3), normal(N, 1)
    if not with_signature:
        model.predict(x, v)
    tf.saved_model.save(model, path)
    model.lengthscale.assign(0.5)
    return model.predict(x, v)["mean"][:, 0].numpy().tolist()


def load(path: str) -> list[Any]:
    """Call the loaded function, with the variable set as `save` left it, and measure."""
    import sys

    import numpy as np
    import tensorflow as tf

    loaded = tf.saved_model.load(path)
    x, v = (tf.constant(np.random.default_rng(0).standard_normal((N, d))) for d in (3, 1))
    loaded.lengthscale.assign(0.5)
    found = loaded.predict(x, v)["mean"][:, 0].numpy().tolist()
    alone = not any(name.startswith("tf_exla") for name in sys.modules)
    from tf_exla.frontends.tf.measuring.measure import measured_peak  # only to measure

    return [alone, found, int(measured_peak(lambda: loaded.predict(x, v)))]


@pytest.mark.parametrize("with_signature", but([False], [True, False]))
def test_saved_model(tmp_path: Path, with_signature: bool) -> None:
    path = str(tmp_path / "model")
    expected = run_fresh(save, path, with_signature)
    # With `env` the process is started anew: forked processes have imported tf_exla.
    alone, found, peak = run_fresh(load, path, env={"TF_EXLA_RATES": ""})
    assert alone
    assert found == pytest.approx(expected, rel=1e-12)
    assert peak < LIMIT  # K is 32 MB
