"""What experiments share: a program, stock or under a limit, with its peak and its time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

import tf_exla
from gp_experiments.arms import Arm
from tf_exla.byte_size import parse_bytes
from tf_exla.report.report import MemoryReport

STOCK, LIMIT = "stock", "limit"
Program = Callable[..., Any]


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

    compiled = tf.function(lambda x: tf.matmul(x, tf.exp(x)), jit_compile=True)
    for _ in range(2):
        program(tf.ones([400, 400]))
        for dtype in (tf.float32, tf.float64):
            compiled(tf.ones([100, 100], dtype))


def limit_device(cap: str, limit: str | int) -> None:
    """Give TensorFlow `limit` of the GPU where `cap` is "device"; call it before all else.

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
    function: Program, arguments: Sequence[Any], kind: str, limit: str | int, jit_compile: bool
) -> tuple[Program, dict[str, Any]]:
    """Return `function`, traced, for an arm, with what was projected of it.

    `kind` is STOCK (a `tf.function`) or LIMIT. Raises `MemoryLimitError`.
    """
    if kind == STOCK:
        stock = tf.function(function)
        stock.get_concrete_function(*arguments)
        return stock, {"projected_stock": stock_peak(function, arguments), "device": device()}
    optimized = tf_exla.optimize(function, limit, jit_compile=jit_compile or None)
    optimized.prepare(*arguments)
    return optimized, {"device": device(), **_of(optimized.report(*arguments))}


def projected(
    function: Program, arguments: Sequence[Any], kind: str, limit: str | int, jit_compile: bool
) -> dict[str, Any]:
    """Return what is projected of `function` for an arm, without running it.

    `arguments` may be specs. Raises `MemoryLimitError`.
    """
    if kind == STOCK:
        return {"projected_stock": stock_peak(function, arguments)}
    optimized = tf_exla.optimize(function, limit, jit_compile=jit_compile or None)
    return _of(optimized.report(*arguments))


def _of(report: MemoryReport) -> dict[str, Any]:
    return {
        "limit": report.limit,
        "projected": report.projected_peak,
        "projected_stock": report.projected_peak_before,
        "rewrite_seconds": report.rewrite_seconds,
        "flops": report.flops,
        "flops_stock": report.flops_before,
    }


def stock_peak(function: Program, arguments: Sequence[Any]) -> int:
    """Return the projected peak of the program as it is, in bytes."""
    # With a limit that everything holds, nothing is searched for.
    return tf_exla.explain(function, *arguments, limit="1000000TB").projected_peak_before


def peak_of(
    function: Program,
    arguments: Sequence[Any],
    kind: str,
    limit: str | int,
    arm: Arm,
    *,
    jit_compile: bool = False,
) -> dict[str, Any]:
    """Measure the peak of a call while the process is held to `limit`, by the arm's cap."""
    program, result = build(function, arguments, kind, limit, jit_compile)
    arm.note(**result)
    warm_up()
    arm.hold_to(parse_bytes(limit))
    measured = tf_exla.measured_peak(program, *arguments)
    return {"measured": int(measured), "measured_by": measured.method}


def time_of(
    function: Program,
    arguments: Sequence[Any],
    kind: str,
    limit: str | int,
    arm: Arm,
    *,
    repeats: int,
    jit_compile: bool = False,
    patience: float = 20.0,
) -> dict[str, Any]:
    """Time `repeats` calls after a first one; also sum and norm of the first call's results."""
    program, _ = build(function, arguments, kind, limit, jit_compile)
    return time_calls(lambda: program(*arguments), arm, repeats=repeats, patience=patience)


def time_calls(
    call: Callable[[], Any], arm: Arm, *, repeats: int, patience: float = 20.0
) -> dict[str, Any]:
    """Return the seconds of `repeats` calls after a first one; fewer where a call takes long.

    `patience` [s]: no further call once this is spent. A first call that alone takes as long is
    counted. `sum` and `norm` of the first call's floating results are there to compare arms by.
    """
    seconds: list[float] = []
    first: list[Any] = []
    begin = time.perf_counter()
    for number in range(repeats + 1):
        start = time.perf_counter()
        results = [np.asarray(one) for one in tf.nest.flatten(call())]
        seconds.append(time.perf_counter() - start)
        first = first or [r.astype(np.float64) for r in results if r.dtype.kind == "f"]
        arm.progress(number + 1, repeats + 1, f"{seconds[-1]:.2f} s")
        if time.perf_counter() - begin > patience:
            break
    return {
        "call_seconds": seconds[1:] or seconds,
        "sum": float(sum(r.sum() for r in first)),
        "norm": float(np.sqrt(sum(np.square(r).sum() for r in first))),
    }
