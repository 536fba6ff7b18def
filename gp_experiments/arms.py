"""Run one arm of an experiment in a fresh process, and report how it ended.

The process runs a Python function `run(arguments, arm)`. Through its `Arm` the function reports
steps and requests a memory cap. Whatever happens to the process, the caller gets an `Outcome` with
the steps up to then: an arm that runs out of memory is a result, not an error.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

from gp_experiments.records import plain

# Freed memory goes back to the system at once, so that the process is as large as its tensors.
MEMORY_ENVIRONMENT = {
    "TF_ENABLE_ONEDNN_OPTS": "0",
    "MALLOC_MMAP_THRESHOLD_": "16384",
    "MALLOC_TRIM_THRESHOLD_": "16384",
    # Each further arena reserves 64 MB of addresses, for blocks that are small here.
    "MALLOC_ARENA_MAX": "2",
}
# TensorFlow's default: its speed is usually measured with its memory pool.
SPEED_ENVIRONMENT = {"TF_ENABLE_ONEDNN_OPTS": "1"}

# Memory that the first run of a graph takes in addition to tensors, and keeps (its optimized copy,
# executors, thread stacks): 40 MB of addresses were measured for SGPR's loss and gradients, stock
# or optimized.
ALLOWANCE = 64 * 10**6

Status = Literal["done", "oom", "refused", "timeout", "killed", "failed"]
Cap = Literal["address-space", "resident", "device", "none"]
OUT_OF_MEMORY: frozenset[str] = frozenset({"oom", "killed"})

_WATCH_SECONDS = 0.005
_ALLOCATION_FAILED = (
    "bad_alloc", "out of memory", "cannot allocate", "failed to allocate", "oom when allocating",
    "pthread_create", "resource_exhausted", "resource exhausted", "memoryerror",
    "cannot parse tensor from proto",  # a constant for which there was no room
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """How an arm ended.

    `status`: done; oom: an allocation failed, or the process exceeded its cap; refused:
    `MemoryLimitError`, before anything ran; timeout; killed: by a signal from elsewhere, such as
    the kernel's out-of-memory killer; failed: any other error. `result`: the notes and the return
    value of the function. `steps`: the steps that it reported. `baseline`: bytes that the process
    had when it was capped. `error`: the end of its messages.
    """

    status: Status
    seconds: float
    result: dict[str, Any] = field(default_factory=dict)
    steps: list[dict[str, Any]] = field(default_factory=list)
    baseline: int | None = None
    error: str = ""


class Arm:
    """The interface by which the function in the process reports, and caps its memory."""

    def __init__(self, stream: IO[str], cap: Cap = "none") -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._resident: int | None = None
        self.cap: Cap = cap

    def step(self, **values: Any) -> None:
        """Record the values of one step; they are kept even if the process dies later."""
        self.check()
        self._send("step", values)

    def note(self, **values: Any) -> None:
        """Add values to the result; they are kept even if the process dies later."""
        self._send("note", values)

    def progress(self, done: float, total: float, text: str = "") -> None:
        """Show how far the arm is; not recorded."""
        self._send("progress", {"done": done, "total": total, "text": text})

    def hold_to(self, limit: int) -> None:
        """Allow `limit` + ALLOWANCE bytes from now on, in addition to what the process has.

        Call it when everything outside of the limit exists: libraries, their threads, traced
        graphs. With "address-space" an allocation beyond the cap fails. With "resident" the
        process is killed once its resident set has exceeded the cap.
        """
        if self.cap == "address-space":
            baseline = _status_bytes(os.getpid(), "VmSize")
            _, hard = resource.getrlimit(resource.RLIMIT_AS)
            resource.setrlimit(resource.RLIMIT_AS, (baseline + limit + ALLOWANCE, hard))
            self._send("cap", {"baseline": baseline})
        elif self.cap == "resident":
            baseline = _status_bytes(os.getpid(), "VmRSS")
            self._resident = baseline + limit + ALLOWANCE
            self._send("cap", {"baseline": baseline, "resident": self._resident})

    def check(self) -> None:
        """Raise MemoryError if the resident set has exceeded its cap: the watcher may be late."""
        if self._resident is not None and _status_bytes(os.getpid(), "VmHWM") > self._resident:
            raise MemoryError(f"the resident set exceeded {self._resident} bytes")

    @contextlib.contextmanager
    def free(self) -> Iterator[None]:
        """Lift an address-space cap while something is computed only for the record."""
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        if self.cap == "address-space":
            resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))

    def _send(self, kind: str, value: Any) -> None:
        with self._lock:
            self._stream.write(json.dumps([kind, plain(value)]) + "\n")
            self._stream.flush()


def run_in_process(
    function: str,
    arguments: Mapping[str, Any],
    *,
    environment: Mapping[str, str] = MEMORY_ENVIRONMENT,
    cap: Cap = "none",
    timeout: float | None = None,
    on_progress: Callable[[float, float, str], None] | None = None,
) -> Outcome:
    """Run `function`, given as "module:name", with `arguments` in a process of its own.

    `arguments` are plain values. `cap` is how `Arm.hold_to` enforces the limit; without that call
    it has no effect. `timeout` is in seconds. Ctrl-C ends the process and is raised.
    """
    receive, send = os.pipe()
    request = json.dumps({"function": function, "arguments": plain(arguments), "cap": cap})
    start = time.perf_counter()
    with tempfile.TemporaryFile("w+", errors="replace") as messages, os.fdopen(receive) as events:
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", "gp_experiments.arms", str(send)],
                stdin=subprocess.PIPE,
                stdout=messages,
                stderr=subprocess.STDOUT,
                env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", **environment},
                pass_fds=(send,),
                text=True,
            )
        finally:
            os.close(send)
        heard = Heard(on_progress)
        reader = threading.Thread(target=heard.listen, args=(events,), daemon=True)
        reader.start()
        try:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(request)  # type: ignore[union-attr]
                process.stdin.close()  # type: ignore[union-attr]
            stopped = _watch(process, heard, timeout and start + timeout)
        finally:
            process.kill()
            process.wait()
        reader.join()
        seconds = time.perf_counter() - start
        messages.seek(0)
        said = messages.read()[-4000:]
    status, error = _ending(process.returncode, stopped, heard, said)
    return heard.outcome(status, seconds, error)


class Heard:
    """The messages that a process has sent so far."""

    def __init__(self, on_progress: Callable[[float, float, str], None] | None = None) -> None:
        self.on_progress = on_progress
        self.steps: list[dict[str, Any]] = []
        self.result: dict[str, Any] = {}
        self.finished = False
        self.error: tuple[Status, str] | None = None
        self.baseline: int | None = None
        self.resident_cap: int | None = None

    def outcome(self, status: Status, seconds: float, error: str) -> Outcome:
        """Return how the process ended, with the messages that it sent."""
        return Outcome(status, seconds, self.result, self.steps, self.baseline, error)

    def listen(self, events: IO[str]) -> None:
        for line in events:
            try:
                kind, value = json.loads(line)
            except ValueError:  # the process died within a line
                continue
            if kind == "step":
                self.steps.append(value)
            elif kind == "progress" and self.on_progress:
                self.on_progress(value["done"], value["total"], value["text"])
            elif kind == "cap":
                self.baseline = value["baseline"]
                self.resident_cap = value.get("resident")
            elif kind == "note":
                self.result |= value
            elif kind == "result":
                self.result |= value
                self.finished = True
            elif kind == "error":
                self.error = (value["status"], value["text"])


def _watch(
    process: subprocess.Popen[str], heard: Heard, deadline: float | None
) -> tuple[Status, str] | None:
    """Wait until the process ends; if it must be stopped instead, return the status and reason."""
    while True:
        try:
            process.wait(timeout=_WATCH_SECONDS if heard.resident_cap else 0.1)
            return None
        except subprocess.TimeoutExpired:
            pass
        if heard.resident_cap is not None:
            with contextlib.suppress(OSError, KeyError):  # it has just ended
                if _status_bytes(process.pid, "VmHWM") > heard.resident_cap:
                    return "oom", f"the resident set exceeded {heard.resident_cap} bytes"
        if deadline is not None and time.perf_counter() > deadline:
            return "timeout", "stopped: out of time"


def _ending(
    code: int, stopped: tuple[Status, str] | None, heard: Heard, said: str
) -> tuple[Status, str]:
    if heard.finished:
        return "done", ""
    if stopped is not None:
        return stopped
    out_of_memory = any(sign in said.lower() for sign in _ALLOCATION_FAILED)
    if heard.error is not None:
        status, text = heard.error
        capped = status == "failed" and heard.baseline is not None
        signs = any(sign in text.lower() for sign in _ALLOCATION_FAILED)
        return ("oom" if capped and signs else status), text
    text = said[-2000:]
    if out_of_memory:
        return "oom", text
    if code < 0:
        name = signal.Signals(-code).name
        # Libraries that do not check an allocation crash; without a cap a crash is a defect.
        crashed = -code in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS)
        if crashed and heard.baseline is not None:
            return "oom", f"{name} under a memory cap\n{text}"
        return ("failed" if crashed else "killed"), f"ended by {name}\n{text}"
    return "failed", f"exit code {code}\n{text}"


def _status_bytes(pid: int, name: str) -> int:
    """Read a field of /proc/PID/status, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        key, _, rest = line.partition(":")
        if key == name:
            return int(rest.split()[0]) * 1024
    raise KeyError(name)


def _classify(error: BaseException) -> Status:
    if isinstance(error, MemoryError):
        return "oom"
    names = {cls.__name__ for cls in type(error).__mro__}
    if "ResourceExhaustedError" in names:
        return "oom"
    return "refused" if "MemoryLimitError" in names else "failed"


def run_here(function: str, arguments: dict[str, Any], cap: Cap, stream: IO[str]) -> bool:
    """Run a function in this process and write messages to `stream`; return whether it succeeded.

    Each line is a JSON pair of a kind and a value.
    """
    arm = Arm(stream, cap)
    try:
        module, _, name = function.partition(":")
        result = getattr(importlib.import_module(module), name)(arguments, arm)
        arm.check()
        arm._send("result", result or {})
    except Exception as error:
        # Lift the cap, so that the error can be reported.
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
        text = f"{type(error).__name__}: {error}"[:2000]
        status = _classify(error)
        if status == "failed":
            text += "\n" + traceback.format_exc()[-2000:]
        arm._send("error", {"status": status, "text": text})
        return False
    return True


def main(descriptor: int) -> None:
    """Run the function that standard input names, in this process."""
    with os.fdopen(descriptor, "w") as stream:
        ended = run_here(**json.load(sys.stdin), stream=stream)
    sys.exit(not ended)


if __name__ == "__main__":
    main(int(sys.argv[1]))
