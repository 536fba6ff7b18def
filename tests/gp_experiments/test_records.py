import os
from pathlib import Path

import numpy as np
import pytest

from gp_experiments.records import Records, config_key, plain, surroundings


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(tmp_path / "deep" / "records.jsonl")


def test_no_file_is_no_records(records: Records) -> None:
    assert list(records) == []
    assert records.find("a") is None


def test_last_record_of_a_key_is_found(records: Records) -> None:
    for key, value in (("a", 1), ("b", 2), ("a", 3)):
        records.append({"key": key, "value": value})
    assert len(list(records)) == 3
    assert [(r["key"], r["value"]) for r in records.latest()] == [("a", 3), ("b", 2)]
    assert records.find("a") == {"key": "a", "value": 3}


@pytest.mark.parametrize("kept", range(1, 25))
def test_a_truncated_last_line_loses_only_itself(records: Records, kept: int) -> None:
    records.append({"key": "first", "value": 1})
    whole = records.path.stat().st_size
    records.append({"key": "second", "value": "éé"})
    os.truncate(records.path, whole + kept)
    assert [r["key"] for r in records] == ["first"]
    records.append({"key": "third"})
    assert [r["key"] for r in records] == ["first", "third"]


def test_key_is_of_values_not_of_their_order() -> None:
    assert config_key("e", {"a": 1, "b": (2, 3)}) == config_key("e", {"b": [2, 3], "a": 1})
    different = {config_key("e", {"a": 1}), config_key("e", {"a": 2}), config_key("f", {"a": 1})}
    assert len(different) == 3


def test_records_are_plain_json() -> None:
    value = {"x": np.float32(0.5), "y": np.arange(3), "z": (1, float("nan")), "p": Path("a/b")}
    assert plain(value) == {"x": 0.5, "y": [0, 1, 2], "z": [1, None], "p": "a/b"}


def test_surroundings_name_the_software_and_the_machine() -> None:
    found = surroundings()
    assert found["versions"]["numpy"] == np.__version__
    assert found["machine"]["cores"] >= 1
    assert found["machine"]["memory"] > 10**8
