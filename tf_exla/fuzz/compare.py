"""How far the results of two runs may be apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

AMPLIFICATION = 20.0
"""A chunked sum differs by as much as the program makes of inputs a few units of rounding away."""
UNITS = {
    "bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 2.0**-24, "float64": 2.0**-53,
    "complex64": 2.0**-24, "complex128": 2.0**-53,
}  # fmt: skip
"""Half the distance from one to the next number."""
_FLOOR_UNITS = 500
_SHORT_FLOOR_UNITS = 16  # a short float has but 2**8 or 2**11 of them
_WORSE = 2.0
_ROUNDED_UNITS = 4  # the result itself is rounded, as is what it is made of last

Results = Sequence[Any]


def difference(
    want: Results,
    got: Results,
    near: Results,
    exact: Sequence[bool],
    wide: Callable[[], Results],
    unit: float = 0.0,
) -> str:
    """Return in words what two runs differ by, if it is more than is allowed; else nothing.

    `near`: the results for inputs a few units of rounding away. `exact`: which results may not
    differ by a bit; those beyond are not exact. `wide`: returns the results in float64, asked for
    where the others are not enough: what is as near to them as stock's are is right as well.
    `unit`: rounding of the shortest numbers that the program computes with; a result of another
    dtype may be a cast of them.
    """
    allowed = allowances(want, near, exact)
    for k, (one, two, most) in enumerate(zip(want, got, allowed, strict=True)):
        found = _difference(one, two, most)
        if found and most and one.shape == two.shape and _as_near(one, two, wide()[k], unit):
            found = ""
        if found:
            return f"result {k}: {found}"
    return ""


def nudged(tensor: tf.Tensor) -> tf.Tensor:
    """Return a tensor a few units of rounding away; one of integers or truth values as it is."""
    units = UNITS.get(tensor.dtype.name)
    if units is None:
        return tensor
    noise = np.random.default_rng(11).uniform(1.0, 4.0, tensor.shape)
    return tensor * tf.cast(1.0 + 4.0 * units * noise, tensor.dtype)


def allowances(want: Results, near: Results, exact: Sequence[bool]) -> list[float]:
    """Return how far each result may be from stock's; by no bit where that is 0."""
    exact = (*exact, *[False] * (len(want) - len(exact)))
    made = []
    for one, other, same in zip(want, near, exact, strict=True):
        kind = str(one.dtype)
        if same or kind not in UNITS:
            made.append(0.0)
            continue
        one, other = _widened(one), _widened(other)
        finite = np.isfinite(one) & np.isfinite(other)
        floor = UNITS[kind] * (_SHORT_FLOOR_UNITS if "16" in kind else _FLOOR_UNITS)
        made.append(
            AMPLIFICATION * _largest(other - one, finite) + floor * (_largest(one, finite) + 1.0)
        )
    return made


def _difference(want: Any, got: Any, allowed: float) -> str:
    if want.shape != got.shape or want.dtype != got.dtype:
        return f"{got.dtype}{got.shape} instead of {want.dtype}{want.shape}"
    if not allowed:
        # Zeros may have another sign: off the diagonal, -diag(x) is made as diag(-x).
        if np.array_equal(want, got, equal_nan=want.dtype.kind in "fcV"):
            return ""
        return f"{int(np.sum(want != got))} of {want.size} elements differ, none may"
    want, got = _widened(want), _widened(got)
    finite = np.isfinite(want)
    if not np.array_equal(finite, np.isfinite(got)):
        return f"{int(np.sum(finite != np.isfinite(got)))} elements are not finite"
    worst = _largest(got - want, finite)
    return "" if worst <= allowed else f"they differ by {worst:.3g}, {allowed:.3g} is allowed"


def _as_near(want: Any, got: Any, wide: Any, unit: float) -> bool:
    """Return whether `got` is about as near to what float64 gives as `want` is."""
    units = max(unit, UNITS[str(want.dtype)]) * _ROUNDED_UNITS
    want, got = _widened(want), _widened(got)
    finite = np.isfinite(want) & np.isfinite(wide)
    allowed = _WORSE * _largest(want - wide, finite) + units * (_largest(wide, finite) + 1.0)
    return bool(np.all(np.isfinite(got) | ~finite)) and _largest(got - wide, finite) <= allowed


def _widened(values: Any) -> Any:
    return values.astype(np.complex128 if "complex" in str(values.dtype) else np.float64)


def _largest(values: Any, where: Any) -> float:
    return float(np.max(np.abs(values), initial=0.0, where=where))
