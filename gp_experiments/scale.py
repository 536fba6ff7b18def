"""Estimates of an evaluation's time on many devices: computation, communication, bottleneck.

The model is a sum: operations divided by the devices, bytes divided by the rates of their links,
and the work of the driver. Constants of a machine are vendors' figures with an efficiency, or
measured.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from gp_experiments.results.command import replaced


@dataclass(frozen=True)
class Machine:
    """Devices and the links between them: operations and bytes per second, seconds per message.

    `link`: between two devices of one machine. `network`: between two machines. `efficiency`: the
    fraction of `flops` that products reach.
    """

    name: str
    flops: float
    short_flops: float
    pointwise: float
    link: float
    network: float
    latency: float
    efficiency: float = 0.7


H100 = Machine(
    name="H100",
    flops=67e12,  # float64, tensor cores
    short_flops=67e12,  # float32, without TF32
    pointwise=3.35e12 / 16,  # an element of float64 read and written at the memory's rate
    link=450e9,  # NVLink, one direction
    network=50e9,  # 400 Gbit/s
    latency=2e-5,
)


@dataclass(frozen=True)
class Work:
    """One evaluation. `sharded`, `driver`: operations; `elements`: elements of pointwise ops.

    `reduced`: bytes of partial results that are added over all devices. `gathered`: bytes of
    results that are concatenated. `scattered`: bytes sent to each device in each call.
    """

    name: str
    sharded: float
    elements: float
    driver: float
    reduced: float
    gathered: float
    scattered: float
    short: bool = False
    stages: int = 1


def sgpr(points: float, inducing: float) -> Work:
    """Return the work of SGPR's loss and gradients: two passes over rows, M x M matrices too."""
    return Work(
        name=f"SGPR, N = {points:.0e}, M = {inducing:,.0f}",
        sharded=8.6 * points * inducing**2,
        elements=4 * points * inducing,
        driver=10 * inducing**3,
        reduced=16 * inducing**2,
        gathered=0.0,
        scattered=16 * inducing**2,
        stages=2,
    )


def matvec(points: float, dimension: int = 8) -> Work:
    """Return the work of K(X, X) v in float64, with tiles below the diagonal only."""
    return Work(
        name=f"K v, N = {points:.0e}",
        sharded=points**2 / 2 * (2 * dimension + 4),
        elements=points**2 / 2,
        driver=0.0,
        reduced=8 * points,
        gathered=0.0,
        scattered=8 * points,
    )


def neighbours(points: float, queries: float, dimension: int = 96, k: int = 10) -> Work:
    """Return the work of finding the k nearest of N points for a batch of queries, in float32."""
    return Work(
        name=f"{queries:,.0f} queries among {points:.0e} x {dimension}",
        sharded=2 * points * queries * dimension,
        elements=points * queries,
        driver=0.0,
        reduced=0.0,
        gathered=8 * queries * k,
        scattered=4 * queries * dimension,
        short=True,
    )


@dataclass(frozen=True)
class Times:
    """Seconds of the parts of an evaluation."""

    computing: float
    driver: float
    sending: float

    @property
    def total(self) -> float:
        return self.computing + self.driver + self.sending

    @property
    def binds(self) -> str:
        parts = {"computing": self.computing, "driver": self.driver, "sending": self.sending}
        return max(parts, key=lambda name: parts[name])


def simulate(
    work: Work, machine: Machine, devices: int, machines: int = 1, tree: bool = True
) -> Times:
    """Return the seconds of one evaluation on `machines` of `devices` each.

    `tree`: partial results are added in pairs, on each machine and then between machines.
    Otherwise all go to the driver, as they do today.
    """
    count = devices * machines
    products = machine.short_flops if work.short else machine.flops
    computing = work.sharded / (count * products * machine.efficiency)
    computing += work.elements / (count * machine.pointwise)
    driver = work.driver / (products * machine.efficiency)
    far = machine.network if machines > 1 else machine.link
    if tree:
        inside, between = math.ceil(math.log2(devices)), math.ceil(math.log2(machines))
        each_way = work.reduced + work.scattered
        sending = inside * each_way / machine.link + between * each_way / machine.network
    else:
        sending = (count - 1) * (work.reduced + work.scattered) / far
    sending += count * work.gathered / far
    sending += 2 * work.stages * machine.latency * max(1, math.ceil(math.log2(count)))
    return Times(computing, driver, sending if count > 1 else 0.0)


WORKS: tuple[Work, ...] = (
    *(sgpr(2e6, m) for m in (1_000, 4_000, 10_000)),
    *(sgpr(1e9, m) for m in (1_000, 4_000, 10_000)),
    *(matvec(n) for n in (1e6, 1e7, 1e8)),
    neighbours(1e9, 1_000),
)


COLUMNS = (
    "evaluation",
    "1 GPU",
    "8",
    "what binds",
    "64 x 8, in a tree",
    "what binds",
    "64 x 8, all to the driver",
)


def rows() -> list[list[str]]:
    """Return the table of docs/scale.md."""
    made = []
    for work in WORKS:
        eight, many = simulate(work, H100, 8), simulate(work, H100, 8, 64)
        star = simulate(work, H100, 8, 64, tree=False)
        made.append(
            [
                work.name,
                seconds(simulate(work, H100, 1).total),
                seconds(eight.total),
                eight.binds,
                seconds(many.total),
                many.binds,
                seconds(star.total),
            ]
        )
    return made


def seconds(value: float) -> str:
    """Return a time with two digits: `3.1 ms`, `12 s`, `2.4 h`."""
    units: tuple[tuple[float, str], ...] = ((3600, "h"), (1, "s"), (1e-3, "ms"), (1e-6, "µs"))
    size, unit = next((one for one in units if value >= one[0]), units[-1])
    return f"{value / size:.2g} {unit}" if value / size < 100 else f"{value / size:.0f} {unit}"


@click.command()
@click.option(
    "--page",
    "path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A Markdown page: what is between <!-- scale --> and <!-- end --> becomes the table.",
)
def scale(path: Path | None) -> None:
    """Estimate evaluations on 8 and on 512 GPUs."""
    if path is not None:
        lines = [COLUMNS, ["---"] * len(COLUMNS), *rows()]
        text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        path.write_text(replaced(path.read_text(), {"scale": text}))
        return
    table = Table(*COLUMNS)
    for row in rows():
        table.add_row(*row)
    Console(width=None if sys.stdout.isatty() else 140).print(table)
