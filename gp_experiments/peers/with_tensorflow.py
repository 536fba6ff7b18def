"""The program that a user of TensorFlow and GPflow writes: as it is, under XLA, and optimized."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

import tf_exla
from gp_experiments.peers.cases import Case
from gp_experiments.peers.data import JITTER, NOISE, VARIANCE, Array, lengthscales
from gp_experiments.peers.program import Build, Program

Written = tuple[Callable[..., Any], Sequence[Array], Sequence[str]]
"""A Python function, its arguments, and the names of its results."""


def stock(case: Case, data: Mapping[str, Array]) -> Program:
    """The program as a `tf.function`."""
    return _traced(case, data, None)


def xla(case: Case, data: Mapping[str, Array]) -> Program:
    """The program as a `tf.function` that XLA compiles."""
    return _traced(case, data, True)


def _traced(case: Case, data: Mapping[str, Array], jit_compile: bool | None) -> Program:
    function, arguments, names = _written(case, data)
    return _program(tf.function(function, jit_compile=jit_compile), arguments, names)


def optimized(jit_compile: bool | None = None) -> Build:
    """The program by `tf_exla.optimize` within the case's limit."""

    def build(case: Case, data: Mapping[str, Array]) -> Program:
        function, arguments, names = _written(case, data)
        within = tf_exla.optimize(function, case.limit, jit_compile=jit_compile)
        program = _program(within, arguments, names)
        tensors = [tf.constant(value) for value in arguments]
        return program._replace(about=lambda: _about(within.report(*tensors)))

    return build


def _about(report: tf_exla.MemoryReport) -> dict[str, Any]:
    return {
        "limit": report.limit,
        "resident": report.resident,
        "projected_peak": report.projected_peak,
        "projected_peak_before": report.projected_peak_before,
        "rewrite_seconds": report.rewrite_seconds,
        "flops": report.flops,
        "flops_before": report.flops_before,
        "loops": [
            {"extent": one.extent, "chunk": one.chunk, "parallel": one.parallel, "depth": one.depth}
            for one in report.loops
        ],
    }


def _program(function: Any, arguments: Sequence[Array], names: Sequence[str]) -> Program:
    tensors = [tf.constant(value) for value in arguments]
    return Program(lambda: dict(zip(names, tf.nest.flatten(function(*tensors)), strict=True)))


def _written(case: Case, data: Mapping[str, Array]) -> Written:
    return _WRITTEN[case.work](case, data)


def _kernel(case: Case, kind: type[gpflow.kernels.Stationary]) -> gpflow.kernels.Stationary:
    gpflow.config.set_default_float(getattr(np, case.dtype))
    gpflow.config.set_default_jitter(JITTER)
    return kind(variance=VARIANCE, lengthscales=lengthscales(case).astype(case.dtype))


def _matvec(case: Case, data: Mapping[str, Array]) -> Written:
    kernel = _kernel(case, gpflow.kernels.SquaredExponential)

    def function(X: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        return tf.matmul(kernel(X), v)

    return function, (data["X"], data["v"]), ("product",)


def _quadratic(case: Case, data: Mapping[str, Array]) -> Written:
    kernel = _kernel(case, gpflow.kernels.SquaredExponential)
    parameters = [p.unconstrained_variable for p in (kernel.lengthscales, kernel.variance)]

    def function(X: tf.Tensor, v: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([X, v])
            value = tf.reduce_sum(v * tf.matmul(kernel(X), v))
        return value, tape.gradient(value, [X, v, *parameters])

    names = ("value", "X", "v", "lengthscales", "variance")
    return function, (data["X"], data["v"]), names


def _sgpr(case: Case, data: Mapping[str, Array]) -> Written:
    kernel = _kernel(case, gpflow.kernels.Matern32)
    model = gpflow.models.SGPR(
        (data["X"], data["Y"]), kernel, inducing_variable=data["Z"].copy(), noise_variance=NOISE
    )
    parameters = [
        kernel.variance, kernel.lengthscales, model.likelihood.variance, model.inducing_variable.Z,
    ]  # fmt: skip
    variables = [parameter.unconstrained_variable for parameter in parameters]

    def function() -> Any:
        with tf.GradientTape() as tape:
            loss = model.training_loss()
        return loss, tape.gradient(loss, variables)

    return function, (), ("loss", "variance", "lengthscales", "noise", "Z")


def _square_distance(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    xx = tf.reduce_sum(tf.square(x), -1)
    yy = tf.reduce_sum(tf.square(y), -1)
    return xx[:, None] + yy[None, :] - 2 * tf.matmul(x, y, transpose_b=True)


def _manhattan(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.abs(x[:, None] - y[None]), -1)


def _cosine(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return 1 - tf.matmul(tf.math.l2_normalize(x, -1), tf.math.l2_normalize(y, -1), transpose_b=True)


_DISTANCES = {"l2": _square_distance, "l1": _manhattan, "cosine": _cosine}


def _knn(case: Case, data: Mapping[str, Array]) -> Written:
    distance, k = _DISTANCES[case.metric], case.sizes["k"]

    def function(queries: tf.Tensor, data: tf.Tensor) -> Any:
        return tf.math.top_k(-distance(queries, data), k)[1]

    return function, (data["queries"], data["data"]), ("indices",)


def _attend(q: tf.Tensor, k: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    scores = tf.matmul(q, k, transpose_b=True) / tf.sqrt(tf.cast(q.shape[-1], q.dtype))
    return tf.matmul(tf.nn.softmax(scores), v)


def _attention(case: Case, data: Mapping[str, Array]) -> Written:
    return _attend, (data["q"], data["k"], data["v"]), ("output",)


def _attention_gradients(case: Case, data: Mapping[str, Array]) -> Written:
    def function(q: tf.Tensor, k: tf.Tensor, v: tf.Tensor, upstream: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([q, k, v])
            output = _attend(q, k, v)
        return output, tape.gradient(output, [q, k, v], output_gradients=upstream)

    arguments = [data[name] for name in ("q", "k", "v", "upstream")]
    return function, arguments, ("output", "q", "k", "v")


_WRITTEN: dict[str, Callable[[Case, Mapping[str, Array]], Written]] = {
    "matvec": _matvec,
    "quadratic": _quadratic,
    "sgpr": _sgpr,
    "knn": _knn,
    "attention": _attention,
    "attention-gradients": _attention_gradients,
}
STOCK: dict[str, Build] = dict.fromkeys(_WRITTEN, stock)
XLA: dict[str, Build] = dict.fromkeys(_WRITTEN, xla)
TF_EXLA: dict[str, Build] = dict.fromkeys(_WRITTEN, optimized())
TF_EXLA_JIT: dict[str, Build] = dict.fromkeys(_WRITTEN, optimized(jit_compile=True))
TF_EXLA_PLAIN: dict[str, Build] = dict.fromkeys(_WRITTEN, optimized(jit_compile=False))
