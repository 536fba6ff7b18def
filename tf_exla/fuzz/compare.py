"""How much the results of two runs may differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tf_exla.fuzz.values import MOST_ELEMENTS

AMPLIFICATION = 20.0
"""Results may differ by this times their change when inputs change by a few units of rounding,
since chunked sums have a similar effect."""
UNITS = {
    "bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 2.0**-24, "float64": 2.0**-53,
    "complex64": 2.0**-24, "complex128": 2.0**-53,
}  # fmt: skip
"""Units of rounding: half the distance from 1 to the next number of a dtype."""
_FLOOR_UNITS = 1024  # a product has a rounding for each factor, and the longest axis has 997
# Equal numbers added one after the other are rounded in the same direction, by an eighth of a unit
# on average. TensorFlow's sums of few columns add so. In float64 that hides no wrong number.
_WIDE_FLOOR_UNITS = MOST_ELEMENTS // 8
_SHORT_FLOOR_UNITS = 16  # a short float has only 2**8 or 2**11 of them
_WORSE = 2.0
_ROUNDED_UNITS = 4  # the result is rounded, and so are its last operands

Results = Sequence[Any]


def difference(
    want: Results,
    got: Results,
    near: Results,
    exact: Sequence[bool],
    wide: Callable[[], Results],
    unit: float = 0.0,
) -> str:
    """Describe how two runs differ by more than is allowed; "" if they do not.

    `near`: the results for inputs that differ by a few units of rounding. `exact`: which results
    must have equal bits; results beyond its end need not. `wide` returns the results in float64. It
    is called only if the others differ: results about as close to float64 as stock's are right too.
    `unit`: unit of rounding of the shortest dtype that the program computes in; results of other
    dtypes may be casts from it.
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
    """Return a tensor changed by a few units of rounding; integers and booleans as they are."""
    units = UNITS.get(tensor.dtype.name)
    if units is None:
        return tensor
    noise = np.random.default_rng(11).uniform(1.0, 4.0, tensor.shape)
    return tensor * tf.cast(1.0 + 4.0 * units * noise, tensor.dtype)


def allowances(want: Results, near: Results, exact: Sequence[bool]) -> list[float]:
    """Return how much each result may differ from stock's; 0 stands for equal bits."""
    exact = (*exact, *[False] * (len(want) - len(exact)))
    made = []
    for one, other, same in zip(want, near, exact, strict=True):
        kind = str(one.dtype)
        if same or kind not in UNITS:
            made.append(0.0)
            continue
        one, other = _widened(one), _widened(other)
        finite = np.isfinite(one) & np.isfinite(other)
        floor = UNITS[kind] * _floor_units(kind)
        made.append(
            AMPLIFICATION * _largest(other - one, finite) + floor * (_largest(one, finite) + 1.0)
        )
    return made


def _floor_units(dtype: str) -> int:
    if dtype in ("float64", "complex128"):
        return _WIDE_FLOOR_UNITS
    return _SHORT_FLOOR_UNITS if "16" in dtype else _FLOOR_UNITS


def _difference(want: Any, got: Any, allowed: float) -> str:
    if want.shape != got.shape or want.dtype != got.dtype:
        return f"{got.dtype}{got.shape} instead of {want.dtype}{want.shape}"
    if not allowed:
        # Zeros may differ in sign: diag(-x), made for -diag(x), has other zeros off the diagonal.
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
    """Return whether `got` is about as close to the float64 result as `want` is."""
    units = max(unit, UNITS[str(want.dtype)]) * _ROUNDED_UNITS
    want, got = _widened(want), _widened(got)
    finite = np.isfinite(want) & np.isfinite(wide)
    allowed = _WORSE * _largest(want - wide, finite) + units * (_largest(wide, finite) + 1.0)
    return bool(np.all(np.isfinite(got) | ~finite)) and _largest(got - wide, finite) <= allowed


def _widened(values: Any) -> Any:
    return values.astype(np.complex128 if "complex" in str(values.dtype) else np.float64)


def _largest(values: Any, where: Any) -> float:
    return float(np.max(np.abs(values), initial=0.0, where=where))
