"""What the experiments on one program share: stock against limits, a peak and a time for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from pydantic import NonNegativeInt, PositiveFloat

from gp_experiments.arms import SPEED_ENVIRONMENT, Arm, Cap
from gp_experiments.calls import Frontend, Program, measuring, time_calls
from gp_experiments.ranges import Size
from gp_experiments.sweep import Phase, Task
from tf_exla.byte_size import parse_bytes


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The part of a config that says in what programs are written, how they are held, and timed.

    `memory` is what stock is held to. `repeats`: calls that are timed after a first one; a first
    call that takes long is the only one. `timeout` [s] of one process.
    """

    memory: Size
    frontend: Frontend = "tensorflow"
    stock: bool = True
    repeats: NonNegativeInt = 3
    cap: Cap = "resident"
    jit_compile: bool = False
    timeout: PositiveFloat | None = None


@dataclass(frozen=True, kw_only=True)
class Run:
    """One program in one arm; `limit` is the limit, or the memory that stock is held to."""

    arm: str
    frontend: str
    limit: str
    repeats: int
    cap: Cap
    jit_compile: bool


R = TypeVar("R", bound=Run)
Written = tuple[Callable[..., Any], Sequence[Any]]
"""A function as it is written for a front end, and arrays of NumPy to call it with."""


def arms(settings: Settings, limits: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the fields of `Run` for stock and for each limit."""
    held = [("stock", settings.memory)] if settings.stock else []
    for arm, limit in [*held, *(("limit", limit) for limit in limits)]:
        yield fields_of(settings, arm, limit)


def fields_of(settings: Settings, arm: str, limit: str) -> dict[str, Any]:
    """Return the fields of `Run` for one arm; XLA is forced on nothing but our own loops."""
    return {
        "arm": arm,
        "frontend": settings.frontend,
        "limit": limit,
        "repeats": settings.repeats,
        "cap": settings.cap,
        "jit_compile": settings.jit_compile and arm == "limit",
    }


def task(
    module: str,
    label: str,
    run: Run,
    *,
    held: bool = True,
    data: tuple[Callable[..., None], tuple[Any, ...]] | None = None,
) -> Task:
    """Return the task of a run: `module:peak`, held to the limit, then `module:time`.

    `held` false: the time only. `data`: as of `Task`.
    """
    phases = [Phase("time", f"{module}:time", SPEED_ENVIRONMENT)]
    if held:
        phases.insert(0, Phase("peak", f"{module}:peak", cap=run.cap))
    label = f"{label} {run.arm} {run.limit}".strip() + of(run.frontend)
    return Task(label, asdict(run), tuple(phases), data)


def of(frontend: str) -> str:
    """Return what a label says of a front end: nothing of the usual one."""
    return "" if frontend == "tensorflow" else f" ({frontend})"


def parse(cls: type[R], arguments: Mapping[str, Any]) -> tuple[R, Path]:
    """Return the run that a process was given, and the folder of the data sets."""
    known = {field.name for field in fields(cls)}
    values = {key: value for key, value in arguments.items() if key in known}
    return cls(**values), Path(arguments["data_dir"])


def built(run: Run, make: Callable[[], Written]) -> Program:
    """Return the program of a run as its front end runs it."""
    tools = measuring(run.frontend)
    tools.limit_device(run.cap, run.limit)
    function, inputs = make()
    program: Program = tools.build(
        function, inputs, run.arm, run.limit, jit_compile=run.jit_compile
    )
    return program


def peak_of(run: Run, make: Callable[[], Written], arm: Arm) -> dict[str, Any]:
    """Measure the peak of a program, held to the limit."""
    program = built(run, make)
    arm.note(**program.facts)
    measuring(run.frontend).warm_up()
    arm.hold_to(parse_bytes(run.limit))
    measured, method = program.measure()
    return {"measured": measured, "measured_by": method}


def time_of(run: Run, make: Callable[[], Written], arm: Arm) -> dict[str, Any]:
    """Time the calls of a program, in its library's usual settings."""
    program = built(run, make)
    return time_calls(lambda: program.call(*program.arguments), arm, repeats=run.repeats)
