"""Rates of the machine: what is kept, what is read, and what is not believed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tf_exla.model import rates
from tf_exla.model.machine import machine_name
from tf_exla.model.rates import Rates


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    named = tmp_path / "deep" / "rates.json"
    monkeypatch.setenv(rates.VARIABLE, str(named))
    return named


def test_measured_rates_come_back(path: Path) -> None:
    assert rates.load() == Rates()
    measured = Rates(byte=3e-10, product_4=5e-12)
    rates.save(measured, path)
    assert rates.load() == measured


def test_machines_share_a_file(path: Path) -> None:
    rates.save(Rates(launch=1e-5), path)
    known = json.loads(path.read_text())
    known["another processor, 64 cores"] = known.pop(machine_name())
    path.write_text(json.dumps(known))
    assert rates.load() == Rates()
    rates.save(Rates(launch=2e-5), path)
    assert rates.load() == Rates(launch=2e-5)
    assert set(json.loads(path.read_text())) == {"another processor, 64 cores", machine_name()}


def test_what_cannot_be_is_not_believed() -> None:
    usual = Rates()
    found = rates.plausible(
        {"byte": -1e-10, "launch": 1.0, "call": 1.0, "pointwise_8": 2 * usual.pointwise_8}
    )
    assert found == replace(usual, pointwise_8=2 * usual.pointwise_8)


@pytest.mark.parametrize("text", ["not JSON", "[1, 2]", '{"%s": {"byte": "fast"}}'])
def test_a_broken_file_is_named_and_passed_over(path: Path, text: str) -> None:
    path.parent.mkdir()
    path.write_text(text.replace("%s", machine_name()))
    with pytest.warns(UserWarning, match="is not a file of rates"):
        assert rates.load() == Rates()


def test_no_file_where_the_user_wants_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(rates.VARIABLE, "")
    assert rates.rates_file() is None
    monkeypatch.delenv(rates.VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert rates.rates_file() == Path("/somewhere/tf_exla/rates.json")


def test_the_name_of_the_machine(tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text("processor\t: 0\nmodel name\t: A Processor @ 3 GHz\nflags\t: fpu\n")
    assert machine_name(info).startswith("A Processor @ 3 GHz, ")
    assert machine_name(tmp_path / "none").endswith(" cores")
