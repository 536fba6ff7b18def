"""How fast the machine is: all times of the cost model, as measured here or as they come.

They are those of one machine with two cores, on which most plans were looked at. `python -m tf_exla
calibrate` measures those of another one, and keeps them in a file that later processes read: plans
stay the same from run to run, and only change where a user asks for it.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from tf_exla.model.machine import machine_name

VARIABLE = "TF_EXLA_RATES"
"""The environment variable that names the file; empty: none is read."""
LARGEST_FACTOR = 20.0
"""A rate this many times above or below the usual one is a mistake of the measurement."""


@dataclass(frozen=True)
class Rates:
    """Seconds of one thing each. The defaults are medians, on a CPU with 32 MB of shared cache."""

    byte: float = 3e-11  # reading or writing main memory
    cached_byte: float = 1e-11  # the same in a chunk that stays in cache
    launch: float = 7e-6  # the executor's work for one node
    product_8: float = 1e-11  # one operation of a product, elements of 8 bytes
    product_4: float = 5e-12
    pointwise_8: float = 7e-11  # one operation of a pointwise op
    pointwise_4: float = 2.5e-11
    compiled_pointwise: float = 0.55  # of the executor's time: XLA's loops are fused

    # Not calibrated: what they decide hardly changes with the machine.

    iteration: float = 4e-5  # the executor's work for one iteration of a loop
    cluster: float = 2e-5  # the executor's work for one call of a compiled cluster
    sync: float = 0.15  # the part of the time that cores wait, one iteration at a time
    written_byte: float = 4.5e-10  # put together from chunks: strided, by one core, on fresh pages
    product_byte: float = 5e-11  # of a product, by one core: packed operands, results added up
    flop: float = 2e-11  # of any kind: to compare a rewrite with what it replaces
    short_axis_element: float = 4e-10  # more for an element along a short axis than of a matrix
    compiling: float = 0.03  # a cluster, and for each of its nodes
    compiling_node: float = 2e-3
    search_node: float = 3e-3  # a search, for each node of a program

    # Of a top-k kernel; rows are shared out between two cores.

    top_k_element: float = 2e-9
    top_k_kept: float = 2.5e-7  # beside, for each of the k of a row: the heap and its sorting
    top_k_start: float = 2e-4  # the nodes of an expanded top-k
    top_k_maximum: float = 1e-10  # one element of a maximum over groups
    top_k_gathered: float = 1e-7  # to gather a group
    top_k_copied: float = 3e-10  # to copy one element, where the groups leave a tail
    top_k_tested: float = 1e-9  # to compare a group's maximum with the k-th so far
    top_k_padded: float = 8e-9  # to gather an element of a group that beats it, and to look at it


def rates_file() -> Path | None:
    """Return where measured rates are kept; None where the user wants none."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return Path(named) if named else None
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "tf_exla" / "rates.json"


def load() -> Rates:
    """Return the rates of this machine: measured ones where there are any, else the defaults."""
    path = rates_file()
    if path is None or not path.exists():
        return Rates()
    try:
        measured = json.loads(path.read_text()).get(machine_name(), {})
        return plausible(measured)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        warnings.warn(f"{path} is not a file of rates, and is not used: {error}", stacklevel=2)
        return Rates()


def plausible(measured: Mapping[str, float]) -> Rates:
    """Return the measured rates, where they can be; the usual ones in place of the others."""
    usual = asdict(Rates())
    kept = {
        name: float(value)
        for name, value in measured.items()
        if name in usual
        and float(value) > 0
        and abs(math.log(float(value) / usual[name])) < math.log(LARGEST_FACTOR)
    }
    return Rates(**{**usual, **kept})


def save(rates: Rates, path: Path) -> None:
    """Keep the rates of this machine beside those of others (a home may be shared)."""
    known = json.loads(path.read_text()) if path.exists() else {}
    known[machine_name()] = {field.name: getattr(rates, field.name) for field in fields(rates)}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(known, indent=1) + "\n")


RATES = load()
"""The rates of this process."""
