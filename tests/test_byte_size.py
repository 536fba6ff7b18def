import re

import numpy as np
import pytest

from tf_exla.byte_size import format_bytes, parse_bytes


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1B", 1),
        ("500MB", 500 * 10**6),
        ("500MiB", 500 * 2**20),
        ("500 MB", 500 * 10**6),
        ("  2 kB ", 2000),
        ("2KB", 2000),
        ("2KiB", 2048),
        ("1.5GB", 1_500_000_000),
        ("1.5 GiB", 3 * 2**29),
        ("0.1MB", 100_000),
        (".5MB", 500_000),
        ("3.GB", 3 * 10**9),
        ("2TB", 2 * 10**12),
        ("1TiB", 2**40),
        (17, 17),
        (2**40, 2**40),
        (1e9, 10**9),
        (2.5, 2),
        (np.int64(12), 12),
        (np.float32(12), 12),
        (np.uint8(7), 7),
    ],
)
def test_parse(value, expected):
    size = parse_bytes(value)
    assert size == expected
    assert type(size) is int


@pytest.mark.parametrize(
    "value",
    [
        *("12 parrots", "", "MB", "500", "-5MB", "nanMB", "1e3MB", "1,5GB", "5mb", "0MB", "0.1B"),
        *("auto", 0, -1, 0.0, 0.5, -2.5, float("nan"), float("inf"), float("-inf")),
        *(np.int32(-3), np.float64(0)),
    ],
)
def test_refuses_value(value):
    with pytest.raises(ValueError, match=re.escape(repr(value))):
        parse_bytes(value)


@pytest.mark.parametrize("value", [None, [], [500], {}, b"500MB", True, False, np.bool_(1), 1j])
def test_refuses_type(value):
    with pytest.raises(TypeError, match=re.escape(repr(value))):
        parse_bytes(value)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (17, "17 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (999_400, "999 kB"),
        (999_600, "1.00 MB"),
        (15_200_000, "15.2 MB"),
        (9_996_000, "10.0 MB"),
        (99_960_000, "100 MB"),
        (152_000_000, "152 MB"),
        (3_200_000_000, "3.20 GB"),
        (5 * 10**15, "5000 TB"),
        (-2_500_000, "-2.50 MB"),
    ],
)
def test_format(size, text):
    assert format_bytes(size) == text
