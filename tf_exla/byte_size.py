"""Sizes as text: "500MB" to and from an integer number of bytes."""

from __future__ import annotations

import math
import numbers
import re
from fractions import Fraction

_DECIMAL = ("B", "kB", "MB", "GB", "TB")
_UNITS: dict[str, int] = {
    "B": 1,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
_PATTERN = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([A-Za-z]+)\s*")


def parse_bytes(value: object) -> int:
    """Return the number of bytes that `value` means, rounded down, at least 1.

    A number is bytes. A string is a decimal number and a unit: B, kB (or KB), MB, GB, TB are powers
    of 1000; KiB, MiB, GiB, TiB are powers of 1024. "500MB" is 500*10**6, "1.5 GiB" is 3*2**29.

    Raises ValueError if the amount is not positive and finite, and TypeError if `value` is neither
    a number nor a string (a bool is neither).
    """
    if isinstance(value, str):
        return _positive(_parse_text(value), value)
    # numpy.bool_ is no numbers.Number, so only Python's own bool must be refused here.
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return _positive(Fraction(int(value)), value)
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        if not math.isfinite(value):
            raise ValueError(f"a size in bytes must be finite, got {value!r}")
        return _positive(Fraction(float(value)), value)
    raise TypeError(
        f'a size must be bytes or a string such as "500MB", got {value!r} ({type(value).__name__})'
    )


def read_bytes(text: str, source: str) -> int:
    """Return the bytes that a text from outside of Python means; also reads "1G" and "1000000".

    Raises a ValueError that names `source`: a command-line option or an environment variable.
    """
    bare = text.strip()
    if (bare.isascii() and bare.isdigit()) or bare[-1:] in "kKMGT":
        bare += "B"
    try:
        return parse_bytes(bare)
    except ValueError as error:
        expected = f'a size such as "500MB", "1G" or 1000000 (units: {", ".join(_UNITS)})'
        raise ValueError(f"{source}={text!r} is not {expected}") from error


def format_bytes(n: float) -> str:
    """Return `n` bytes as text in decimal units, three digits: "3.20 GB", "152 MB", "17 B"."""
    size = float(n)
    for unit in _DECIMAL:
        # 999.5 would round to "1000", so it belongs to the next unit.
        if abs(size) < 999.5 or unit == _DECIMAL[-1]:
            break
        size /= 1000
    if unit == "B":
        return f"{size:.0f} B"
    decimals = 2 if abs(size) < 9.995 else 1 if abs(size) < 99.95 else 0
    return f"{size:.{decimals}f} {unit}"


def _parse_text(text: str) -> Fraction:
    match = _PATTERN.fullmatch(text)
    if match is None or match[2] not in _UNITS:
        raise ValueError(
            f'a size is a number and a unit ({", ".join(_UNITS)}), e.g. "500MB", got {text!r}'
        )
    # A Fraction, since 0.1 * 10**6 in floating point may miss the integer.
    return Fraction(match[1].rstrip(".") or "0") * _UNITS[match[2]]


def _positive(amount: Fraction, value: object) -> int:
    size = math.floor(amount)
    if size < 1:
        raise ValueError(f"a size must be at least 1 byte, got {value!r}")
    return size
