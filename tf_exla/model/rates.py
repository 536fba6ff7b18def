"""The table of rates: those that tf_exla comes with, and those that a user has measured.

It has one record for each kind of device, by name: a processor with its cores, or a GPU. Until
`python -m tf_exla calibrate` has measured a device, the usual rates of its class apply: a CPU's
(`ir/rates.py`) or a GPU's (`gpu_rates.py`). Measured rates are kept in a file that later processes
read, so that plans stay the same from run to run and change only if a user requests it.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from tf_exla.caller import warn
from tf_exla.ir.rates import CPU, Rates
from tf_exla.model.gpu_rates import usual_gpu
from tf_exla.model.machine import machine_name

VARIABLE = "TF_EXLA_RATES"
"""The environment variable that names the file; empty: no file."""


@dataclass(frozen=True)
class DeviceKind:
    """A kind of device: its name in the table, and the usual rates of its class.

    `largest_factor`: a rate that is this many times above or below the usual one is an error of the
    measurement.
    """

    name: str
    usual: Rates
    largest_factor: float


def cpu_kind() -> DeviceKind:
    """Return the kind of this machine's processor."""
    return DeviceKind(machine_name(), CPU, 20.0)


def gpu_kind(name: str) -> DeviceKind:
    """Return the kind of a GPU by its name, as "NVIDIA H100 80GB HBM3".

    The factor is large: GPUs for games compute float64 at 1/64 of float32, some 300 times slower
    than the usual one.
    """
    return DeviceKind(name, usual_gpu(name), 1000.0)


def rates_file() -> Path | None:
    """Return the file of measured rates; None if the user wants none."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return Path(named) if named else None
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "tf_exla" / "rates.json"


def load(kind: DeviceKind) -> Rates:
    """Return the rates of a device: the measured ones if there are any, else the usual ones."""
    path = rates_file()
    if path is None or not path.exists():
        return kind.usual
    try:
        measured = json.loads(path.read_text()).get(kind.name, {})
        return plausible(measured, kind)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        warn(f"{path} is not a file of rates, and is not used: {error}")
        return kind.usual


def plausible(measured: Mapping[str, float], kind: DeviceKind) -> Rates:
    """Return the measured rates, with usual ones for those that are missing or implausible."""
    usual = asdict(kind.usual)
    kept = {
        name: float(value)
        for name, value in measured.items()
        if name in usual
        and float(value) > 0
        and usual[name] > 0
        and abs(math.log(float(value) / usual[name])) < math.log(kind.largest_factor)
    }
    return Rates(**{**usual, **kept})


def save(rates: Rates, kind: DeviceKind, path: Path) -> None:
    """Add the rates of a device to the file, which may hold those of others (a shared home)."""
    known = json.loads(path.read_text()) if path.exists() else {}
    known[kind.name] = {field.name: getattr(rates, field.name) for field in fields(rates)}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(known, indent=1) + "\n")
