"""Files of comma-separated numbers, plain or as .gz; errors name the wrong line."""

from __future__ import annotations

import gzip
import math
import warnings
from pathlib import Path
from typing import IO, cast

import numpy as np

from gp_experiments.data import Array
from gp_experiments.downloads import DataError


def read_numbers(path: Path, *, header: bool = False, columns: int | None = None) -> Array:
    """Return the numbers [rows, columns]; with `header`, a first line of words is skipped.

    Raises DataError with file and line for anything that is not a finite number, and for a line
    whose length is not that of the first line or `columns`. For an empty file it has no line.
    """
    try:
        skip = int(header and _has_words(path))
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)  # of an empty file
            values = np.loadtxt(path, delimiter=",", skiprows=skip, ndmin=2)
        if columns in (None, values.shape[1]) and np.isfinite(values).all():
            return values
        reason = "not all numbers are finite"
    except (OSError, EOFError, ValueError, UserWarning) as error:
        skip, reason = 0, str(error)
    raise DataError(_first_wrong_line(path, header, columns) or f"{path}: {reason}")


def _has_words(path: Path) -> bool:
    with _opened(path) as file:
        return any(_number(word) is None for word in file.readline().split(","))


def _first_wrong_line(path: Path, header: bool, columns: int | None) -> str | None:
    place = 0
    try:
        with _opened(path) as file:
            for place, line in enumerate(file, 1):
                words = line.partition("#")[0].strip().split(",")
                numbers = [_number(word) for word in words]
                if words == [""] or (header and place == 1 and None in numbers):
                    continue
                columns = columns or len(words)
                if len(words) != columns:
                    return f"{path}, line {place}: {len(words)} columns, not {columns}"
                for number, word in zip(numbers, words, strict=True):
                    if number is None or not math.isfinite(number):
                        return f"{path}, line {place}: {word.strip()!r} is no finite number"
    except (OSError, EOFError, ValueError) as error:
        return f"{path}, line {place + 1}: {error}"
    return None


def _opened(path: Path) -> IO[str]:
    return cast(IO[str], gzip.open(path, "rt") if path.suffix == ".gz" else path.open())


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None
