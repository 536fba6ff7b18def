"""Check programs of ops against stock: numbers, gradient, limit and measured peak."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from covered.op_programs import DOUBLE, OpProgram, dtypes, programs
from frontends.test_op_rules import WITHOUT_CASE

import tf_exla
from tf_exla.frontends.tf.ops.table import KINDS, RULED

DATA = Path(__file__).with_name("ops.json")
PLENTY = 10**13
LABELS = 2
"""Of one op that are checked; that each is right is checked by tests/frontends/test_op_rules.py."""
SLACK = 1_000_000
"""What several programs in one process leave to each other's measurement: test_kernel_memory.py."""


def check_op(op: str) -> list[dict[str, Any]]:
    """Return what was found of an op: a row for each dtype, and in the first for several labels."""
    rows = []
    for k, dtype in enumerate(dtypes(op)):
        for n, program in enumerate(programs(op, dtype)):
            if n == (1 if k or op in KINDS["pointwise"] else LABELS):
                break
            rows.append(check(program, gradient=not n))
    return rows


def check(program: OpProgram, gradient: bool) -> dict[str, Any]:
    """Return a row of what was found. `gradient`: with the gradients, where stock has them."""
    row: dict[str, Any] = {
        "op": program.op, "dtype": program.dtype, "rule": program.rule, "label": program.label,
        "gradient": False,
    }  # fmt: skip
    if gradient and program.watched:
        both = program.with_gradient()
        try:
            want = tf.function(both.function, autograph=False)(*both.arguments)
            return _held({**row, "gradient": True}, both, want)
        except Exception:
            pass  # stock has none
    try:
        want = tf.function(program.function, autograph=False)(*program.arguments)
    except (LookupError, tf.errors.OpError, TypeError, ValueError) as error:
        return {**row, "stock": _brief(error)}
    return _held(row, program, want)


def _held(row: dict[str, Any], program: OpProgram, want: Sequence[tf.Tensor]) -> dict[str, Any]:
    """Add to a row what a limit of half of stock's peak does, or the smallest that works."""
    fn = tf.function(program.function, autograph=False)
    near = fn(*map(_nudged, program.arguments))
    try:
        if not program.label:
            whole = tf_exla.optimize(fn, PLENTY, strict=True, tensor_size_threshold=1)
            return row | _compared(program, want, whole(*program.arguments), near)
        whole = tf_exla.optimize(fn, PLENTY, strict=True)
        row["before"] = whole.report(*program.arguments).projected_peak_before
        limit = row["before"] // 2
        try:
            optimized = tf_exla.optimize(fn, limit, strict=True)
            report = optimized.report(*program.arguments)
        except tf_exla.MemoryLimitError as error:
            limit = error.smallest_limit
            optimized = tf_exla.optimize(fn, limit, strict=True)
            report = optimized.report(*program.arguments)
        row["limit"], row["projected"] = limit, report.projected_peak
        row |= _compared(program, want, optimized(*program.arguments), near)
        row["measured"] = int(tf_exla.measured_peak(optimized, *program.arguments, fresh=False))
        if row["projected"] > limit or row["measured"] > row["projected"] + SLACK:
            row["failure"] = f"measured {row['measured']}, projected {row['projected']}"
    except Exception as error:
        row["failure"] = _brief(error)
    return row


def _brief(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:300]}"


def _compared(
    program: OpProgram,
    want: Sequence[tf.Tensor],
    got: Sequence[tf.Tensor],
    near: Sequence[tf.Tensor],
) -> dict[str, Any]:
    truths = want
    if program.exact is not None:
        truths = tf.function(program.exact, autograph=False)(*program.arguments)
    found = map(difference, want, got, near, truths, repeat(program))
    return next(({"failure": wrong} for wrong in found if wrong), {})


def _nudged(tensor: tf.Tensor) -> tf.Tensor:
    if not (tensor.dtype.is_floating or tensor.dtype.is_complex):
        return tensor
    noise = np.random.default_rng(11).uniform(1.0, 2.0, tensor.shape)
    return tensor * tf.cast(1.0 + 2.0 * DOUBLE * noise, tensor.dtype)


def difference(
    want: tf.Tensor, got: tf.Tensor, near: tf.Tensor, truth: tf.Tensor, program: OpProgram
) -> str:
    """Return in words how a result differs by more than rounding; empty where it does not.

    Allowed is twice stock's own error, what the result moves by as the inputs move by units of
    rounding, and the rounding of a sum of `count` numbers in double precision.
    """
    if want.shape != got.shape or want.dtype != got.dtype:
        return f"{got.dtype.name}{got.shape} instead of {want.dtype.name}{want.shape}"
    old, new, moved, exact = (
        np.asarray(x.numpy(), np.complex128) for x in (want, got, near, truth)
    )
    known = np.isfinite(old)
    if not np.array_equal(known, np.isfinite(new)):
        return f"{int(np.sum(known != np.isfinite(new)))} elements are not finite"
    known &= np.isfinite(exact) & np.isfinite(moved)

    old, new, moved, exact = (np.where(known, x, 0) for x in (old, new, moved, exact))

    def most(values: np.ndarray) -> float:
        return float(np.max(np.abs(values), initial=0.0))

    allowed = 2 * most(old - exact) + 16 * most(moved - old)
    # Where no kernel tells stock's error, it is that of a sum of `count` numbers.
    rounding = program.count * (DOUBLE if program.exact else program.unit)
    allowed += (8 * program.unit + rounding) * most(old)
    worst = most(new - exact)
    return "" if worst <= allowed else f"differs by {worst:.3g}, {allowed:.3g} is allowed"


def covered() -> list[str]:
    """Return the ops with an axis rule that TensorFlow runs on tensors."""
    return sorted(set(RULED) - set(WITHOUT_CASE))


def check_ops(ops: list[str]) -> list[dict[str, Any]]:
    """Run in a fresh process."""
    tf.get_logger().setLevel("ERROR")
    gc.freeze()  # what was imported: each measurement collects garbage
    return [row for op in ops for row in check_op(op)]
