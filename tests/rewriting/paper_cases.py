"""The cases of eXLA's paper and of its own tests, for its limit of 1 GB and a tenth of it.

`L` is so large that an intermediate exceeds the limit; the small twins give the numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

LIMIT = 10**9
LARGE = 16_000  # [LARGE, LARGE] in float32 is 1.02 GB
SMALL = 60


@dataclass(frozen=True)
class Case:
    """`function(*arguments)`; shapes may say "L", which is `size` for a limit of 1 GB.

    What is too large has `power` axes of that size.
    """

    name: str
    function: Callable[..., Any]
    shapes: tuple[tuple[int | str, ...], ...]
    rewrites: bool | None = None
    size: int = LARGE
    power: int = 2

    def large(self, limit: int) -> int:
        """Return the size at which the program exceeds a limit by as much as at 1 GB."""
        return math.ceil(self.size * (limit / LIMIT) ** (1 / self.power))

    def arguments(self, size: int) -> list[tf.Tensor]:
        rng = np.random.default_rng(0)
        return [
            tf.constant(
                rng.standard_normal([size if each == "L" else each for each in shape]) * 0.5,
                tf.float32,
            )
            for shape in self.shapes
        ]


def _length(x: tf.Tensor) -> int:
    return int(x.shape[0])


def _range_along(x: tf.Tensor, axis: int) -> tf.Tensor:
    size = _length(x)
    values = tf.cast(tf.range(size), tf.float32) / float(size)
    wide = values[None, :] if axis else values[:, None]
    return tf.broadcast_to(wide, [size, size])


def _argmax(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    ties = tf.round(4.0 * (x[None] - y[:, None]))
    return tf.argmax(ties, -1)


def _distances(x: tf.Tensor, y: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    return tf.exp(-tf.reduce_sum((x[None] - y[:, None]) ** 2, -1)) @ v


def _gram(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    e = tf.exp(tf.matmul(a, b, transpose_b=True))
    return tf.matmul(e, e, transpose_a=True)


def _outer(v: tf.Tensor, a: tf.Tensor, b: tf.Tensor, c: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(a @ tf.matmul(b, c, transpose_b=True), 1)[:, None] * v[None, :3, 0]


CASES = (
    Case(
        "exp(abᵀ) v",
        lambda a, b, v: tf.exp(tf.matmul(a, b, transpose_b=True)) @ v,
        (("L", 2), ("L", 2), ("L", 1)),
    ),
    Case(
        "vᵀ exp(abᵀ)",
        lambda a, b, v: tf.matmul(v, tf.exp(tf.matmul(a, b, transpose_b=True)), transpose_a=True),
        (("L", 2), ("L", 2), ("L", 1)),
    ),
    Case("eᵀ e", _gram, (("L", 2), (1000, 2)), size=260_000, power=1),
    Case(
        "exp(abᵀ)ᵀ v",
        lambda a, b, v: tf.matmul(tf.exp(tf.matmul(a, b, transpose_b=True)), v, transpose_a=True),
        (("L", 2), ("L", 2), ("L", 1)),
    ),
    Case(
        "scalar [L, L] v",
        lambda v: tf.broadcast_to(tf.constant(0.1), [_length(v)] * 2) @ v,
        (("L", 1),),
    ),
    Case(
        "column [L, L] v",
        lambda c, v: tf.broadcast_to(c, [_length(v)] * 2) @ v,
        (("L", 1), ("L", 1)),
    ),
    Case(
        "row [L, L] v",
        lambda c, v: tf.broadcast_to(tf.transpose(c), [_length(v)] * 2) @ v,
        (("L", 1), ("L", 1)),
    ),
    Case("range down v", lambda v: _range_along(v, 0) @ v, (("L", 1),)),
    Case("range across v", lambda v: _range_along(v, 1) @ v, (("L", 1),)),
    Case("max of a range", lambda v: tf.reduce_max(_range_along(v, 1), 1) + v[:, 0], (("L", 1),)),
    Case("argmax with ties", _argmax, (("L", 5), ("L", 5)), size=8000),
    Case("exp(-|x - y|²) v", _distances, (("L", 3), ("L", 3), ("L", 2))),
    Case("exp(-|x - y|²) v, expanded", _distances, (("L", 3), ("L", 3), ("L", 2)), rewrites=True),
    Case("sum(a (b cᵀ), 1)", lambda a, b, c: tf.reduce_sum(
        a @ tf.matmul(b, c, transpose_b=True), 1
    ), (("L", 2), (2, 2), ("L", 2))),
    Case("sum(a (b cᵀ), 1) v", _outer, (("L", 1), ("L", 2), (2, 2), ("L", 2))),
    Case("(a bᵀ) c", lambda a, b, c: tf.matmul(a, b, transpose_b=True) @ c, (("L", 2),) * 3),
    Case("a (b cᵀ) d", lambda a, b, c, d: (a @ tf.matmul(b, c, transpose_b=True)) @ d, (
        ("L", 2), (2, 2), ("L", 2), ("L", 1)
    )),
)  # fmt: skip


def run_cases(names: list[str], limit: int) -> list[dict[str, Any]]:
    """Run cases at full size under the limit and at small size against the original."""
    import time

    import tf_exla

    found = []
    for case in CASES:
        if case.name not in names:
            continue
        started = time.perf_counter()
        optimized = tf_exla.optimize(case.function, limit, rewrites=case.rewrites)
        large = case.arguments(case.large(limit))
        report = optimized.report(*large)
        measured = tf_exla.measured_peak(optimized, *large)
        small = case.arguments(SMALL)
        least = tf_exla.optimize(case.function, report.limit, rewrites=case.rewrites)
        worst = 0.0
        for got, want in zip(
            tf.nest.flatten(least(*small)), tf.nest.flatten(case.function(*small)), strict=True
        ):
            gap = np.abs(got.numpy().astype(float) - want.numpy().astype(float)).max()
            worst = max(worst, float(gap / max(np.abs(want.numpy()).max(), 1)))
        found.append(
            {
                "name": case.name,
                "before": report.projected_peak_before,
                "projected": report.projected_peak,
                "measured": int(measured),
                "worst": worst,
                "loops": len(report.loops),
                "rewrites": [entry.name for entry in report.rewrites],
                "seconds": time.perf_counter() - started,
            }
        )
    return found
