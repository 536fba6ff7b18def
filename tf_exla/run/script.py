"""A whole program under a limit, its code unchanged, and reports of what was optimized."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tf_exla.byte_size import format_bytes
from tf_exla.frontends.tf.calls.request import Limit, Request
from tf_exla.frontends.tf.free_memory import field_bytes
from tf_exla.frontends.tf.outside import Outside, watched
from tf_exla.model.options import Unbounded
from tf_exla.pipeline.plan import Plan
from tf_exla.run.limited import Limited
from tf_exla.run.session import Session


class ScriptSession(Session):
    """A session that prints on stderr which functions run unchanged, and returns a summary.

    `peaks`: the largest projected peaks of each function in bytes, before and after. `refused`: by
    function, why it runs unchanged. `outside`: the largest tensor made outside of functions.
    `options`: `jit_compile` and `devices` of `optimize`.
    """

    def __init__(
        self, limit: Limit | None, strict: bool, keep: bool = False, **options: Any
    ) -> None:
        unbounded: Unbounded = "raise" if strict else "warn"
        asked = "auto" if limit is None else limit
        request = Request.of(asked, unbounded=unbounded, strict=strict, **options)
        super().__init__(request, keep)
        self.peaks: dict[str, tuple[int, int]] = {}
        self.refused: dict[str, str] = {}
        self.outside = Outside(self.limit_bytes)

    def failed(self, function: str, reason: str) -> None:
        """Print that a function runs unchanged, once for each name."""
        if function not in self.refused:
            print(f"tf_exla: {function} runs as it was: {reason}", file=sys.stderr)
        self.refused[function] = reason

    def planned(self, function: str, plan: Plan) -> None:
        """Record the peaks of a plan."""
        before, after = self.peaks.get(function, (0, 0))
        self.peaks[function] = (
            max(before, plan.projected_peak_before),
            max(after, plan.projected_peak),
        )

    def summary(self) -> str:
        """Return a summary of what was done, in one line."""
        peaks = [self.peaks[name] for name in self.peaks.keys() - self.unchanged]
        parts = [_count(len(peaks), "function") + " optimized"]
        if peaks:
            before = format_bytes(max(before for before, _ in peaks))
            after = format_bytes(max(after for _, after in peaks))
            parts[0] += f", largest projected peak {before} before and {after} after"
        if most := _most_memory():
            parts.append(f"the process took at most {format_bytes(most)}, libraries included")
        if self.unchanged:
            parts.append(f"{_count(len(self.unchanged), 'function')} left to XLA: ")
            parts[-1] += ", ".join(sorted(self.unchanged))
        if self.refused:
            parts.append(f"{_count(len(self.refused), 'function')} ran as before: ")
            parts[-1] += ", ".join(self.refused)
        if self.outside.sentence:
            parts.append(self.outside.sentence)
        return f"tf_exla: {'; '.join(parts)}"

    def write(self, path: Path) -> None:
        """Write the reports, as JSON if the name ends in .json, else as text."""
        reports = self.reports()
        if path.suffix == ".json":
            content = {"functions": [r.to_dict() for r in reports], "as_it_was": self.refused}
            path.write_text(json.dumps(content, indent=2) + "\n")
            return
        lines = [report.details() for report in reports]
        lines += [f"{name} ran as it was: {why}" for name, why in self.refused.items()]
        path.write_text("\n\n".join(lines) + "\n")


def _most_memory() -> int:
    """Return the most bytes that the process has had; 0 where the system does not tell."""
    try:
        return field_bytes(Path("/proc/self/status"), "VmHWM")
    except (OSError, KeyError):
        return 0


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


@contextlib.contextmanager
def optimized_functions(
    limit: Limit | None, *, strict: bool = False, keep: bool = False, **options: Any
) -> Iterator[ScriptSession]:
    """Optimize every outermost `tf.function` that is called inside the block.

    Functions that cannot be optimized run unchanged, with a line on stderr, or raise if `strict`.
    `keep`: whether the session's `write` will be called. `options`: `jit_compile` and `devices` of
    `optimize`. A call whose limit cannot be held raises `MemoryLimitError`.
    """
    session = ScriptSession(limit, strict, keep, **options)
    with Limited(session), watched(session.outside):
        yield session
