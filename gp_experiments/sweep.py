"""Run the tasks of an experiment in turn and record each; tasks with a record are skipped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from gp_experiments.arms import MEMORY_ENVIRONMENT, Cap, Outcome, run_in_process
from gp_experiments.records import Record, Records, config_key, surroundings

FILENAME = "records.jsonl"


@dataclass(frozen=True)
class Phase:
    """One process of a task: `function` is "module:name", called with the task's config."""

    name: str
    function: str
    environment: Mapping[str, str] = field(default_factory=lambda: MEMORY_ENVIRONMENT)
    cap: Cap = "none"


@dataclass(frozen=True)
class Task:
    """One arm at one setting, which `config` decides; phases run until one does not succeed.

    `data`: a function and its arguments before `data_dir`. It raises DataError if data of the task
    are not available.
    """

    label: str
    config: Mapping[str, Any]
    phases: tuple[Phase, ...]
    data: tuple[Callable[..., None], tuple[Any, ...]] | None = None


def sweep(
    experiment: str,
    tasks: Sequence[Task],
    *,
    out: Path,
    data_dir: Path,
    force: bool = False,
    timeout: float | None = None,
    console: Console | None = None,
) -> Counter[str]:
    """Run the tasks without a record in `out`; return their number by status, "skipped" included.

    A task whose record is a failure runs again. `force` repeats all tasks. `timeout` is in seconds
    for one process. On an interrupt the running task is not recorded. Raises DataError before any
    process starts if data of a task are not available.
    """
    console = console or Console()
    records = Records(out / FILENAME)
    known = {r["key"] for r in records.latest() if r["status"] != "failed"}
    wanted = [task for task in tasks if force or config_key(experiment, task.config) not in known]
    for check, arguments in dict.fromkeys(task.data for task in wanted if task.data):
        with console.status(f"reading {arguments[0]} ..."):
            check(*arguments, data_dir)
    counts: Counter[str] = Counter()
    for number, task in enumerate(tasks, 1):
        key = config_key(experiment, task.config)
        if key in known and not force:
            counts["skipped"] += 1
            continue
        heading = f"[{number}/{len(tasks)}] {experiment} {task.label}"
        record = run_task(experiment, task, out, data_dir, timeout, console, heading)
        records.append({"key": key, **record, **surroundings()})
        counts[record["status"]] += 1
        console.print(f"{heading}: {record['status']}, {record['seconds']:.0f} s", markup=False)
        if record["status"] in ("failed", "refused"):
            console.print(record["error"], markup=False, soft_wrap=True)
    return counts


def run_task(
    experiment: str,
    task: Task,
    out: Path,
    data_dir: Path,
    timeout: float | None,
    console: Console,
    heading: str,
) -> Record:
    """Run the phases of a task, and return their record."""
    arguments = {**task.config, "data_dir": str(data_dir), "work_dir": str(out / "work")}
    outcomes: list[tuple[Phase, Outcome]] = []
    for phase in task.phases:
        with _bar(console) as progress:
            bar = progress.add_task(f"{heading} ({phase.name})", total=None, text="")

            outcome = run_in_process(
                phase.function,
                arguments,
                environment=phase.environment,
                cap=phase.cap,
                timeout=timeout,
                on_progress=partial(_show, progress, bar),
            )
        outcomes.append((phase, outcome))
        if outcome.status != "done":
            break
    last_phase, last = outcomes[-1]
    return {
        "experiment": experiment,
        "config": dict(task.config),
        "label": task.label,
        "status": last.status,
        "phase": last_phase.name,
        "error": last.error,
        "seconds": sum(outcome.seconds for _, outcome in outcomes),
        "baseline": outcomes[0][1].baseline,
        "result": {k: v for _, outcome in outcomes for k, v in outcome.result.items()},
        "steps": [step for _, outcome in outcomes for step in outcome.steps],
    }


def _show(progress: Progress, bar: TaskID, done: float, total: float, text: str) -> None:
    progress.update(bar, completed=done, total=total, text=text)


def _bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[text]}", markup=False),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
