"""Compare a random program with its optimized version; run in a fresh process."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from random_programs import Program, random_program

import tf_exla

# Chunked sums add in another order, and steps like a Cholesky amplify that. So the tolerance is
# this multiple of the change of the program itself when inputs change by about `NUDGE`.
AMPLIFICATION = 20.0
FLOOR = {tf.float64: 1e-10, tf.float32: 2e-4}
NUDGE = {tf.float64: 1e-13, tf.float32: 1e-5}


def _is_forced(seed: int) -> bool:
    """Return whether XLA compiles as much as it can of a program's loops."""
    return seed % 4 == 2


def check_program(seed: int) -> dict[str, Any]:
    """Optimize one program at a random feasible limit; compare values, gradients and peak."""
    program = random_program(seed)
    function = _differentiated(program) if seed % 3 == 0 else program.function
    stock = tf.function(function, autograph=False)
    before = tf_exla.explain(stock, *program.arguments, limit=10**13).projected_peak
    smallest = _smallest_limit(stock, program.arguments)
    before = max(before, smallest)  # XLA may need less for a whole program
    rng = np.random.default_rng(seed)
    room = 0.0 if seed % 7 == 0 else rng.random() ** 2  # sometimes the smallest limit itself
    limit = int(smallest + (before - smallest) * room)
    optimized = tf_exla.optimize(stock, limit, jit_compile=True if _is_forced(seed) else None)
    report = optimized.report(*program.arguments)
    measured = tf_exla.measured_peak(optimized, *program.arguments)
    worst = _difference(stock, optimized, program, rng)
    if seed % 3 == 1:  # the tape around the optimized function
        worst = max(worst, _tape_difference(stock, optimized, program, rng))
    return {
        "seed": seed,
        "limit": limit,
        "before": before,
        "smallest": smallest,
        "projected": report.projected_peak,
        "measured": int(measured),
        "loops": len(report.loops),
        "worst": worst,
        "steps": program.steps,
    }


def _tape_difference(
    stock: Any, optimized: Any, program: Program, rng: np.random.Generator
) -> float:
    """Compare gradients. They may need a larger limit than the values; the error states it."""
    try:
        return _difference(_taped(stock), _taped(optimized), program, rng)
    except tf_exla.MemoryLimitError as error:
        enough = optimized.with_limit(error.smallest_limit)
        return _difference(_taped(stock), _taped(enough), program, rng)


def _smallest_limit(stock: Any, arguments: list[tf.Tensor]) -> int:
    try:
        tf_exla.explain(stock, *arguments, limit=1)
    except tf_exla.MemoryLimitError as error:
        return error.smallest_limit
    raise AssertionError("one byte was enough")


def _scalar(outputs: list[tf.Tensor]) -> tf.Tensor:
    return tf.add_n([tf.reduce_mean(tf.sin(output)) for output in outputs])


def _differentiated(program: Program) -> Any:
    def function(*arguments: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            outputs = program.function(*arguments)
            loss = _scalar(outputs)
        return outputs, tape.gradient(loss, arguments, unconnected_gradients="zero")

    return function


def _taped(function: Any) -> Any:
    def gradient(*arguments: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            loss = _scalar(function(*arguments))
        return tape.gradient(loss, arguments, unconnected_gradients="zero")

    return gradient


def _difference(stock: Any, optimized: Any, program: Program, rng: np.random.Generator) -> float:
    """Return the largest difference, in units of what is allowed."""
    arguments = program.arguments
    dtype = arguments[0].dtype
    nudged = [
        a * (1 + NUDGE[dtype] * tf.constant(rng.standard_normal(a.shape), dtype)) for a in arguments
    ]
    worst = 0.0
    triples = zip(
        tf.nest.flatten(stock(*arguments)),
        tf.nest.flatten(optimized(*arguments)),
        tf.nest.flatten(stock(*nudged)),
        strict=True,
    )
    for want, got, near in ((a.numpy(), b.numpy(), c.numpy()) for a, b, c in triples):
        assert want.shape == got.shape
        assert want.dtype == got.dtype
        assert np.array_equal(np.isnan(want), np.isnan(got))
        scale = np.nanmax(np.abs(want), initial=0.0) + 1.0
        allowed = AMPLIFICATION * np.nanmax(np.abs(near - want), initial=0.0) + FLOOR[dtype] * scale
        worst = max(worst, float(np.nanmax(np.abs(got - want), initial=0.0) / allowed))
    return worst
