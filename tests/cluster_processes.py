"""Workers of a cluster as processes on this machine."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


class Workers:
    """Worker processes; `spec`: their addresses, with one for the driver."""

    def __init__(self, count: int, environment: dict[str, str] | None = None) -> None:
        ports = free_ports(count + 1)
        self.spec: dict[str, list[str]] = {
            "chief": [f"127.0.0.1:{ports[0]}"],
            "worker": [f"127.0.0.1:{port}" for port in ports[1:]],
        }
        self.environment = environment or {}
        self.processes: list[subprocess.Popen[str]] = [self._start(k) for k in range(count)]
        for process in self.processes:
            self.wait(process)

    def restart(self, index: int) -> None:
        """Restart a worker that was killed."""
        self.processes[index].wait()
        self.processes[index] = self._start(index)
        self.wait(self.processes[index])

    def send(self, index: int, number: signal.Signals) -> None:
        self.processes[index].send_signal(number)

    def _start(self, index: int) -> subprocess.Popen[str]:
        config = {"cluster": self.spec, "task": {"type": "worker", "index": index}}
        return subprocess.Popen(
            [sys.executable, "-m", "tf_exla", "worker"],
            env={**os.environ, **self.environment, "TF_CONFIG": json.dumps(config)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
        )

    @staticmethod
    def wait(process: subprocess.Popen[str]) -> None:
        """Wait until a worker serves."""
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "serves" in line, line

    def stop(self) -> None:
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()


def free_ports(count: int) -> list[int]:
    """Return ports that no process listens on."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


@contextlib.contextmanager
def workers(count: int, **environment: Any) -> Iterator[Workers]:
    """Start workers, yield them, and stop them."""
    made = Workers(count, environment)
    try:
        yield made
    finally:
        made.stop()


def status_bytes(process: int | str, field: str) -> int:
    """Return a field of a process's status in bytes: VmRSS, VmHWM, ..."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) * 1024
