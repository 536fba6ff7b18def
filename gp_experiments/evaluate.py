"""Predictions within a memory limit, and their scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gp_experiments.data import Array

if TYPE_CHECKING:
    import gpflow


def predict(model: gpflow.models.GPModel, Xnew: Array, limit: int | str) -> tuple[Array, Array]:
    """Return mean [N, P] and variance [N, P] of y at Xnew [N, D]; all N in one call."""
    import tensorflow as tf

    import tf_exla

    mean, variance = tf_exla.optimize(model.predict_y, limit)(tf.constant(Xnew))
    return mean.numpy(), variance.numpy()


def rmse(y: Array, mean: Array) -> float:
    """Return the root mean squared error of `mean` [N, P], in the unit of y [N, P]."""
    return float(np.sqrt(np.mean((y - mean) ** 2)))


def nlpd(y: Array, mean: Array, variance: Array) -> float:
    """Return the mean negative log predictive density of y [N, P], Gaussian, in nats per value."""
    return float(np.mean(0.5 * np.log(2 * np.pi * variance) + 0.5 * (y - mean) ** 2 / variance))
