"""Rates of devices: what is kept, what is read, and what is not believed."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.kernels import InPlaceOps
from tf_exla.frontends.numpy.trace import trace
from tf_exla.ir.graph import Graph
from tf_exla.ir.rates import CPU, Rates
from tf_exla.model import rates
from tf_exla.model.cost import graph_seconds
from tf_exla.model.gpu_rates import H100, H200
from tf_exla.model.machine import machine_name
from tf_exla.model.rates import DeviceKind, cpu_kind, gpu_kind


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    named = tmp_path / "deep" / "rates.json"
    monkeypatch.setenv(rates.VARIABLE, str(named))
    return named


@pytest.mark.parametrize("kind", [cpu_kind(), gpu_kind("NVIDIA H100 80GB HBM3")])
def test_measured_rates_come_back(kind: DeviceKind, path: Path) -> None:
    assert rates.load(kind) == kind.usual
    measured = replace(kind.usual, byte=2 * kind.usual.byte, product_4=kind.usual.product_4 / 3)
    rates.save(measured, kind, path)
    assert rates.load(kind) == measured


def test_devices_share_a_file(path: Path) -> None:
    cpu, gpu, other = cpu_kind(), gpu_kind("NVIDIA H100 PCIe"), gpu_kind("NVIDIA L4")
    rates.save(Rates(launch=1e-5), cpu, path)
    rates.save(replace(H100, launch=1e-5), gpu, path)
    assert rates.load(cpu) == Rates(launch=1e-5)
    assert rates.load(gpu) == replace(H100, launch=1e-5)
    assert rates.load(other) == H100
    known = json.loads(path.read_text())
    assert set(known) == {machine_name(), "NVIDIA H100 PCIe"}
    known["another processor, 64 cores"] = known.pop(machine_name())
    path.write_text(json.dumps(known))
    assert rates.load(cpu) == CPU


def test_what_cannot_be_is_not_believed() -> None:
    found = rates.plausible(
        {"byte": -1e-10, "launch": 1.0, "call": 1.0, "pointwise_8": 2 * CPU.pointwise_8},
        cpu_kind(),
    )
    assert found == replace(CPU, pointwise_8=2 * CPU.pointwise_8)


def test_gpus_for_games_are_believed() -> None:
    """One of 0.3 TFLOPS in float64, where the H100 has 67."""
    assert rates.plausible({"product_8": 1 / 0.3e12}, gpu_kind("GPU")).product_8 == 1 / 0.3e12


@pytest.mark.parametrize("text", ["not JSON", "[1, 2]", '{"%s": {"byte": "fast"}}'])
def test_a_broken_file_is_named_and_passed_over(path: Path, text: str) -> None:
    path.parent.mkdir()
    path.write_text(text.replace("%s", machine_name()))
    with pytest.warns(UserWarning, match="is not a file of rates"):
        assert rates.load(cpu_kind()) == CPU


def test_no_file_where_the_user_wants_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(rates.VARIABLE, "")
    assert rates.rates_file() is None
    monkeypatch.delenv(rates.VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert rates.rates_file() == Path("/somewhere/tf_exla/rates.json")


def test_the_name_of_the_machine(tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text("processor\t: 0\nmodel name\t: A Processor @ 3 GHz\nflags\t: fpu\n")
    machine_name_of = machine_name.__wrapped__
    assert machine_name_of(info).startswith("A Processor @ 3 GHz, ")
    assert machine_name_of(tmp_path / "none").endswith(" cores")


# What plans are compared by.


class _Rated(InPlaceOps):
    """The same ops on a device with other rates."""

    def __init__(self, given: Rates) -> None:
        super().__init__()
        self.given = given

    def rates(self) -> Rates:
        return self.given


def test_the_op_set_says_how_long_its_device_takes() -> None:
    graph = trace(lambda xp, x, y: xp.sum(xp.exp(x @ y.T), axis=1), (997, 3), (1009, 3))
    cpu, gpu, faster = (graph_seconds(_Rated(one), graph) for one in (CPU, H100, H200))
    assert cpu == graph_seconds(InPlaceOps(), graph)
    assert faster < gpu < cpu / 10
    # Beside what they compute, GPUs take longer to launch it.
    assert H100.launch / H100.byte > 10 * CPU.launch / CPU.byte


def test_each_iteration_takes_time() -> None:
    def loop(times: int) -> Graph:
        def program(xp: Any, x: Any) -> Any:
            _, found = xp.while_loop(
                lambda xp, i, _: xp.less(i, np.int32(times)),
                lambda xp, i, y: (i + np.int32(1), xp.sin(y)),
                (np.int32(0), x),
            )
            return found

        return trace(program, (701, 503))

    once, often = (graph_seconds(InPlaceOps(), loop(times)) for times in (1, 100))
    assert 99 * once < often < 101 * once


def test_products_of_rounded_factors_have_a_rate_of_their_own() -> None:
    class Rounding(_Rated):
        def rounds_factors(self, dtype: str) -> bool:
            return dtype == "float32"

    def seconds(dtype: str, ops: type[_Rated], given: Rates) -> float:
        graph = trace(lambda xp, x: x @ x.T, (500, 100), dtype=dtype)
        return graph_seconds(ops(given), graph)

    slow = replace(H100, product_tf32=1.0)
    assert seconds("float32", Rounding, slow) > 1
    assert seconds("float32", _Rated, slow) < 1
    assert seconds("float64", Rounding, slow) < 1


def test_each_usual_rate_is_a_time() -> None:
    for usual in (CPU, H100, H200):
        free = (
            {"top_k_column", "top_k_merge"}
            if usual is CPU
            else {"convolution", "fork", "lookup", "top_k_fork"}
        )
        for name, value in asdict(usual).items():
            assert value == 0 if name in free else 0 < value < 10, name
