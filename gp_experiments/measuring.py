"""What the processes of experiments share: a program, stock or under a limit, its peak and its
time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

import tf_exla
from gp_experiments.arms import Arm
from tf_exla.byte_size import parse_bytes

STOCK, LIMIT = "stock", "limit"


def warm_up() -> None:
    """Start TensorFlow's threads and load what kernels need, so that it exists before a cap."""

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

    for _ in range(2):
        program(tf.ones([400, 400]))


def limit_device(cap: str, limit: int) -> None:
    """Give TensorFlow `limit` bytes of the GPU where `cap` is "device"; call it before all else.

    Without a GPU it does nothing.
    """
    gpus = tf.config.list_physical_devices("GPU")
    if cap == "device" and gpus:
        memory = tf.config.LogicalDeviceConfiguration(memory_limit=limit // 2**20)
        tf.config.set_logical_device_configuration(gpus[0], [memory])


def device() -> str:
    """Return the name of the device that TensorFlow computes on."""
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        return "CPU"
    name: str = tf.config.experimental.get_device_details(gpus[0]).get("device_name", "GPU")
    return name


def build(
    function: Callable[..., Any], arguments: Sequence[Any], arm: str, limit: str | int
) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Return `function`, traced, for an arm, with what was projected of it.

    `arm` is STOCK (a `tf.function`) or LIMIT. Raises `MemoryLimitError`.
    """
    if arm == STOCK:
        stock = tf.function(function)
        stock.get_concrete_function(*arguments)
        return stock, {"projected_stock": stock_peak(function, arguments), "device": device()}
    optimized = tf_exla.optimize(function, limit)
    optimized.prepare(*arguments)
    report = optimized.report(*arguments)
    return optimized, {
        "device": device(),
        "limit": report.limit,
        "projected": report.projected_peak,
        "projected_stock": report.projected_peak_before,
        "rewrite_seconds": report.rewrite_seconds,
        "flops": report.flops,
        "flops_stock": report.flops_before,
    }


def stock_peak(function: Callable[..., Any], arguments: Sequence[Any]) -> int:
    """Return the projected peak of the program as it is, in bytes."""
    # With a limit that everything holds, nothing is searched for.
    return tf_exla.explain(function, *arguments, limit="1000000TB").projected_peak_before


def peak_of(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    kind: str,
    limit: str | int,
    memory: str | int,
    arm: Arm,
) -> dict[str, Any]:
    """Measure the peak of a call, held to the limit, and stock to `memory`, by the arm's cap."""
    program, result = build(function, arguments, kind, limit)
    arm.note(**result)
    warm_up()
    arm.hold_to(parse_bytes(limit if kind == LIMIT else memory))
    measured = tf_exla.measured_peak(program, *arguments)
    result |= {"measured": int(measured), "measured_by": measured.method}
    return result


def time_of(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    kind: str,
    limit: str | int,
    arm: Arm,
    *,
    repeats: int,
    patience: float = 20.0,
) -> dict[str, Any]:
    """Time calls: `repeats` after a first one, fewer where a call takes long.

    `patience` [s]: no further call once this is spent. A first call that alone takes as long is
    counted. Also returns the sum and the norm of the results, to compare the arms by.
    """
    program, _ = build(function, arguments, kind, limit)
    seconds: list[float] = []
    begin = time.perf_counter()
    for number in range(repeats + 1):
        start = time.perf_counter()
        results = [np.asarray(one) for one in tf.nest.flatten(program(*arguments))]
        seconds.append(time.perf_counter() - start)
        arm.progress(number + 1, repeats + 1, f"{seconds[-1]:.2f} s")
        if time.perf_counter() - begin > patience:
            break
    counted = seconds[1:] or seconds
    numbers = [r.astype(np.float64) for r in results if r.dtype.kind == "f"]
    return {
        "call_seconds": counted,
        "sum": float(sum(r.sum() for r in numbers)),
        "norm": float(np.sqrt(sum(np.square(r).sum() for r in numbers))),
    }
