"""The programs of the experiments as users write them in TensorFlow, GPflow and Keras.

`with_jax.py` has the same functions. Each takes the run of its experiment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gpflow
import keras
import tensorflow as tf

import tf_exla
from gp_experiments import models
from gp_experiments.calls import LIMIT, Trainable
from gp_experiments.data import Array, Split
from gp_experiments.measuring_tensorflow import device, measured, report_facts, stock_peak
from tf_exla.gpflow import Scipy

Function = Callable[..., Any]


def matvec(run: Any) -> Function:
    """Return (X [N, 1], v [N, 1]) -> K(X[:rows], X) v as a function."""
    kernel = gpflow.kernels.SquaredExponential()

    def product(X: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        K = kernel(X) if run.rows == run.size else kernel(X[: run.rows], X)
        return tf.matmul(K, v)  # [rows, 1]

    return product


def _distances(kind: str, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Return the distances [m, n] of x [m, d] and y [n, d]."""
    if kind == "L1":
        return tf.reduce_sum(tf.abs(x[:, None] - y[None]), -1)
    if kind == "cosine":
        x, y = tf.math.l2_normalize(x, -1), tf.math.l2_normalize(y, -1)
        return 1 - tf.matmul(x, y, transpose_b=True)
    xx, yy = tf.reduce_sum(tf.square(x), -1), tf.reduce_sum(tf.square(y), -1)
    return xx[:, None] + yy[None] - 2 * tf.matmul(x, y, transpose_b=True)


def knn(run: Any) -> Function:
    """Return a search: queries [m, d], data [n, d] -> values and indices [m, k]."""

    def search(x: tf.Tensor, y: tf.Tensor) -> Any:
        return tf.math.top_k(-_distances(run.distance, x, y), run.k)

    return search


def attention(run: Any) -> Function:
    """Return the layers, x [batch, length, d_model] -> results of this shape, or their train step.

    The train step takes x and targets of this shape, and returns the loss [].
    """
    keras.utils.set_random_seed(0)
    inputs = keras.Input((run.length, run.d_model))
    x = inputs
    for _ in range(run.layers):
        attend = keras.layers.MultiHeadAttention(run.heads, run.d_model // run.heads)
        x = keras.layers.LayerNormalization()(x + attend(x, x))
        hidden = keras.layers.Dense(run.dff, activation="relu")(x)
        x = keras.layers.LayerNormalization()(x + keras.layers.Dense(run.d_model)(hidden))
    model = keras.Model(inputs, x)
    optimizer = keras.optimizers.SGD(1e-3)
    optimizer.build(model.trainable_variables)

    def forward(x: tf.Tensor) -> tf.Tensor:
        return model(x)

    def step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    return forward if run.mode == "forward" else step


def matern32(lengthscale: float) -> Function:
    """Return the Matern-3/2 kernel of variance 1: [n, D], [m, D] -> [n, m]."""
    kernel: Function = gpflow.kernels.Matern32(lengthscales=lengthscale)
    return kernel


def mean(kernel: Function) -> Function:
    """Return (X_test [n, D], X [N, D], weights [N]) -> the mean [n, 1] of a Gaussian process."""
    return lambda X_test, X, weights: tf.linalg.matvec(kernel(X_test, X), weights)[:, None]


def conjugate_gradients(kernel: Function, run: Any) -> Function:
    """Return a function (X [N, D], y [N], B [N, R]) -> weights [N], iterations [], residual [].

    It solves (K + noise) weights = y. B Bᵀ approximates K.
    """

    def solve(X: tf.Tensor, y: tf.Tensor, B: tf.Tensor) -> Any:
        K = kernel(X)  # [N, N]
        inner = tf.matmul(B, B, transpose_a=True)  # [R, R]
        inner = tf.linalg.cholesky(inner + run.noise * tf.eye(run.rank, dtype=X.dtype))

        def precondition(r: tf.Tensor) -> tf.Tensor:
            solved = tf.linalg.cholesky_solve(inner, tf.matmul(B, r[:, None], transpose_a=True))
            return (r - tf.matmul(B, solved)[:, 0]) / run.noise

        def unfinished(i: tf.Tensor, w: Any, r: tf.Tensor, *_: Any) -> tf.Tensor:
            return (i < run.iterations) & (tf.norm(r) > run.tolerance * tf.norm(y))

        def step(i: Any, w: Any, r: Any, p: Any, rz: Any) -> Any:
            Kp = tf.linalg.matvec(K, p) + run.noise * p
            alpha = rz / tf.reduce_sum(p * Kp)
            w, r = w + alpha * p, r - alpha * Kp
            z = precondition(r)
            new = tf.reduce_sum(r * z)
            return i + 1, w, r, z + new / rz * p, new

        z = precondition(y)
        start = (tf.constant(0), tf.zeros_like(y), y, z, tf.reduce_sum(y * z))
        i, w, r, _, _ = tf.while_loop(unfinished, step, start)
        return w, i, tf.norm(r) / tf.norm(y)

    return solve


def sgpr(run: Any, split: Split, Z: Array, lengthscale: float) -> Trainable:
    """Return GPflow's SGPR for training: stock, or by `tf_exla.gpflow.Scipy` and `optimize`."""
    model = models.build_sgpr(split.train, Z, lengthscale=lengthscale)
    gpflow.set_trainable(model.inducing_variable, run.train_inducing)
    variables = model.trainable_variables
    X_test = tf.constant(split.test[0])
    facts: dict[str, Any] = {"device": device()}
    optimizer: Any
    predict: Any
    if run.arm == LIMIT:
        optimizer = Scipy(run.limit, jit_compile=run.jit_compile or None)
        evaluate = optimizer.eval_func(model.training_loss_closure(), variables, {})
        facts |= report_facts(optimizer.report)
        predict = tf_exla.optimize(model.predict_y, run.limit)
        facts["projected_predict"] = predict.report(X_test).projected_peak
        predict.prepare(X_test)
    else:
        optimizer = gpflow.optimizers.Scipy()
        evaluate = optimizer.eval_func(model.training_loss_closure(), variables, {})
        (traced,) = optimizer.compile_cache.values()
        parameters = optimizer.initial_parameters(variables)
        traced.get_concrete_function(parameters)
        facts["projected_stock"] = stock_peak(traced, [parameters])
        predict = tf.function(model.predict_y)
        predict.get_concrete_function(X_test)

    def at(x: Any) -> tuple[Any, Any]:
        optimizer.assign_tensors(variables, optimizer.unpack_tensors(variables, tf.constant(x)))
        mean, variance = predict(X_test)
        return mean.numpy(), variance.numpy()

    def peak(x: Any) -> tuple[int, str]:
        (function,) = optimizer.compile_cache.values()
        return measured(function, tf.constant(x))

    start = optimizer.initial_parameters(variables).numpy()
    return Trainable(start, evaluate, at, facts, peak)
