"""Records of runs: an append-only file of JSON lines.

A record is one dictionary, `{"key": ..., "experiment": ..., "config": ..., "status": ..., ...}`.
`key` is a hash of what decides the run (experiment and config), so that an existing run is found.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import subprocess
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

Record = dict[str, Any]

PACKAGES = ("tf_exla", "tensorflow", "gpflow", "jax", "numpy", "scipy", "keras")


def config_key(experiment: str, config: Mapping[str, Any]) -> str:
    """Return a hash of an experiment's name and config, independent of the order of keys."""
    text = json.dumps([experiment, plain(config)], sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def frontend_of(record: Record) -> str:
    """Return the front end of a record's program."""
    return str(record["config"].get("frontend", "tensorflow"))


class Records:
    """The records in one file. Lines that a killed process left unfinished are skipped."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, record: Mapping[str, Any]) -> None:
        """Add one record; it is on disk when this returns. NaN and infinities become null."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps(plain(record), allow_nan=False) + "\n"
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                line = "\n" + line  # keep an unfinished line apart from this one
            os.write(descriptor, line.encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def __iter__(self) -> Iterator[Record]:
        if not self.path.exists():
            return
        for line in self.path.read_bytes().splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict):
                yield record

    def latest(self) -> list[Record]:
        """Return the last record of each key, in the order in which keys first appear."""
        found: dict[str, Record] = {}
        for record in self:
            if "key" in record:
                found[record["key"]] = record
        return list(found.values())

    def find(self, key: str) -> Record | None:
        """Return the last record with this key."""
        return next((record for record in self.latest() if record["key"] == key), None)


def surroundings() -> Record:
    """Return the conditions of a run besides its config: commit, versions, machine, time (UTC)."""
    return {
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": _commit(),
        "versions": {"python": platform.python_version(), **_versions()},
        "machine": {
            "processor": _processor(),
            "cores": len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count(),
            "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),  # bytes
            "system": f"{platform.system()} {platform.machine()}",
        },
    }


def plain(value: Any) -> Any:
    """Convert `value` to JSON types, including NumPy's numbers and arrays, paths and tuples."""
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if hasattr(value, "tolist"):  # NumPy's scalars and arrays
        return plain(value.tolist())
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _commit() -> str | None:
    """Return the commit of the running source, followed by "+" if files differ from it."""
    source = Path(__file__).resolve().parent

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(source), *arguments], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no")
        return git("rev-parse", "--short=12", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None  # installed from a wheel


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor()
