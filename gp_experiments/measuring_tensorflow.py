"""TensorFlow programs, stock or under a limit: their projected and measured peaks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

import tf_exla
from gp_experiments.calls import STOCK, Program
from tf_exla.byte_size import parse_bytes
from tf_exla.report.report import MemoryReport

Function = Callable[..., Any]


def warm_up() -> None:
    """Start TensorFlow's threads and initialize kernels, so that both exist before a cap."""

    @tf.function  # type: ignore[untyped-decorator]
    def program(x: tf.Tensor) -> tf.Tensor:
        for dtype in (tf.float32, tf.float64):
            a = tf.cast(x, dtype)
            k = tf.matmul(a, a, transpose_b=True) + 1000 * tf.eye(400, dtype=dtype)
            factor = tf.linalg.cholesky(k)
            a = tf.linalg.triangular_solve(factor, a)
            a = tf.while_loop(lambda i, _: i < 4, lambda i, v: (i + 1, tf.exp(-v)), (0, a))[1]
            x += tf.cast(tf.reduce_sum(a), x.dtype)
        return x

    compiled = tf.function(lambda x: tf.matmul(x, tf.exp(x)), jit_compile=True)
    for _ in range(2):
        program(tf.ones([400, 400]))
        for dtype in (tf.float32, tf.float64):
            compiled(tf.ones([100, 100], dtype))


def limit_device(cap: str, limit: str | int) -> None:
    """Give TensorFlow `limit` of the GPU's memory if `cap` is "device". Call it first.

    Without a GPU it does nothing.
    """
    gpus = tf.config.list_physical_devices("GPU")
    if cap == "device" and gpus:
        memory = tf.config.LogicalDeviceConfiguration(memory_limit=parse_bytes(limit) // 2**20)
        tf.config.set_logical_device_configuration(gpus[0], [memory])


def device() -> str:
    """Return the name of the device that TensorFlow computes on."""
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        return "CPU"
    name: str = tf.config.experimental.get_device_details(gpus[0]).get("device_name", "GPU")
    return name


def build(
    function: Function,
    arguments: Sequence[Any],
    kind: str,
    limit: str | int,
    *,
    jit_compile: bool = False,
) -> Program:
    """Trace `function` for an arm. Raises `MemoryLimitError`.

    `kind` is STOCK (a `tf.function`) or LIMIT.
    """
    tensors = [tf.constant(one) for one in arguments]
    traced: Any
    if kind == STOCK:
        traced = tf.function(function)
        traced.get_concrete_function(*tensors)
        facts = {"projected_stock": stock_peak(function, tensors)}
    else:
        traced = tf_exla.optimize(function, limit, jit_compile=jit_compile or None)
        traced.prepare(*tensors)
        facts = report_facts(traced.report(*tensors))
    return Program(
        lambda *given: tf.nest.flatten(traced(*given)),
        tensors,
        {"device": device(), **facts},
        lambda: measured(traced, *tensors),
    )


def measured(function: Function, *arguments: Any) -> tuple[int, str]:
    """Return the peak of a call in bytes, and how it was measured."""
    peak = tf_exla.measured_peak(function, *arguments)
    return int(peak), peak.method


def projected(
    function: Function,
    arguments: Sequence[Any],
    kind: str,
    limit: str | int,
    *,
    jit_compile: bool = False,
) -> dict[str, Any]:
    """Return the projections of `function` for an arm, without running it.

    Only shapes and dtypes of `arguments` are read. Raises `MemoryLimitError`.
    """
    specs = [tf.TensorSpec(one.shape, one.dtype) for one in arguments]
    if kind == STOCK:
        return {"projected_stock": stock_peak(function, specs)}
    optimized = tf_exla.optimize(function, limit, jit_compile=jit_compile or None)
    return report_facts(optimized.report(*specs))


def report_facts(report: MemoryReport) -> dict[str, Any]:
    """Return the numbers of a report that are recorded."""
    return {
        "limit": report.limit,
        "projected": report.projected_peak,
        "projected_stock": report.projected_peak_before,
        "rewrite_seconds": report.rewrite_seconds,
        "flops": report.flops,
        "flops_stock": report.flops_before,
    }


def stock_peak(function: Function, arguments: Sequence[Any]) -> int:
    """Return the projected peak of the stock program, in bytes."""
    # Every program holds this limit, so no plan is searched for.
    return tf_exla.explain(function, *arguments, limit="1000000TB").projected_peak_before
