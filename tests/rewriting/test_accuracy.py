"""No rewrite that is on by default is much less accurate than the program it starts from."""

from __future__ import annotations

from pathlib import Path

import pytest
from samples import but

from rewriting.accuracy import CASES, DTYPES, MOST, Row, rows
from tf_exla.rewrite import DEFAULTS, FAMILIES

TABLE = Path(__file__).parents[2] / "docs" / "accuracy.md"


@pytest.mark.parametrize("dtype", but(["float32"], DTYPES))
def test_errors_are_those_of_the_original(dtype: str) -> None:
    found = list(rows([dtype]))
    assert {row.case.family for row in found} == {name for name, rules in FAMILIES.items() if rules}
    worse = [row for row in found if row.ratio > MOST]
    assert {row.case.family for row in worse} == {"naive-distance", "solves"}, worse
    assert not any(DEFAULTS[row.case.family] for row in worse)


def test_the_ratio_is_of_errors_beyond_rounding() -> None:
    assert Row(CASES[0], "float64", (1e-10, 3e-10), (0.0, 0.0)).ratio == 3.0
    assert Row(CASES[0], "float64", (0.0, 1e-16), (0.0, 0.0)).ratio < 1


def test_the_table_lists_every_case() -> None:
    text = TABLE.read_text()
    assert text.count("\n| ") == 1 + 2 * len(CASES)
