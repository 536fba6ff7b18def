"""The promise of `tf_exla.jax.jit` on a GPU: what a call takes is at most what is certified.

`python tests/gpu/jax_peaks.py` prints a line for each program of `jax_programs.py` at two limits,
and fails if a promise does not hold. XLA's GPU compiler allocates memory to find the fastest
kernels. So one process plans, compiles and saves the executable, and a fresh one loads it and
measures. It needs neither TensorFlow nor pytest. On a CPU nothing is measured.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1])]

MORE = (50, 200)
"""MB in addition to the limits on a CPU: cuBLAS's workspace, and blocks that are not split."""
TOLERANCE = 1e-8
SINGLE = 2e-3
"""For products of float32: a GPU rounds their operands to TF32."""


@dataclasses.dataclass(frozen=True)
class Found:
    """One program at a limit, in bytes; `error`: the largest relative one against `jax.jit`.

    `refused`: a limit below which no plan was found; `limit` is then the one that the error named.
    `measured` is None without a GPU, or where the peak was reached before the call.
    """

    name: str
    limit: int
    certified: int
    planned: bool
    refused: int | None
    seconds: float
    measured: int | None = None
    error: float = 0.0

    @property
    def holds(self) -> bool:
        within = self.certified <= self.limit and (self.measured or 0) <= self.certified
        return within and self.error <= (SINGLE if "attention" in self.name else TOLERANCE)

    def __str__(self) -> str:
        measured = "-" if self.measured is None else f"{self.measured / 1e6:.1f}"
        notes = ["" if self.planned else "unchanged"]
        notes.append("" if self.refused is None else f"no plan at {self.refused / 1e6:.0f} MB")
        notes.append("" if self.holds else "FAILED")
        return (
            f"{self.name:40} limit {self.limit / 1e6:7.1f} certified {self.certified / 1e6:7.1f}"
            f" measured {measured:>7} MB error {self.error:.1e} {self.seconds:5.1f} s"
            f" {', '.join(filter(None, notes))}"
        )


def compile_program(name: str, limit: int, file: Path) -> None:
    """Plan and compile a program; save the executable with its operands and expected results."""
    jax = _jax()
    import numpy as np
    from jax.experimental.serialize_executable import serialize
    from jax_programs import PROGRAMS

    import tf_exla.jax
    from tf_exla.errors import MemoryLimitError

    function, arguments = PROGRAMS[name][0]()
    started, refused = time.perf_counter(), None
    call = tf_exla.jax.jit(function, limit).call(*arguments)
    try:
        made = call.program.certified()
    except MemoryLimitError as error:
        refused, limit = limit, error.smallest_limit
        call = tf_exla.jax.jit(function, limit).call(*arguments)
        made = call.program.certified()
    seconds = time.perf_counter() - started
    found = Found(name, limit, made.certificate.peak, made.plan is not None, refused, seconds)
    operands = [np.asarray(one) for one in (*call.operands, *made.constants)]
    expected = [np.asarray(one) for one in jax.tree.leaves(jax.jit(function)(*arguments))]
    file.write_bytes(pickle.dumps((found, operands, expected, serialize(made.compiled))))


def measure(file: Path) -> Found:
    """Run a saved executable once, in a process that compiled nothing, and measure the call."""
    jax = _jax()
    import numpy as np
    from jax.experimental.serialize_executable import deserialize_and_load

    _register(jax)
    found, operands, expected, saved = pickle.loads(file.read_bytes())
    compiled = deserialize_and_load(*saved)
    given = jax.block_until_ready([jax.device_put(one) for one in operands])
    device = jax.devices()[0]
    before = device.memory_stats()
    made = jax.block_until_ready(compiled(*given))
    after = device.memory_stats()
    taken = None
    if before and after and after["peak_bytes_in_use"] > before["peak_bytes_in_use"]:
        grown = after["peak_bytes_in_use"] - before["bytes_in_use"]
        taken = grown + sum(one.nbytes for one in operands)
    worst = 0.0
    for one, other in zip(made, expected, strict=True):
        scale = float(np.abs(other).max(initial=0)) or 1.0
        worst = max(worst, float(np.abs(np.asarray(one) - other).max(initial=0)) / scale)
    return dataclasses.replace(found, measured=taken, error=worst)


def _jax() -> Any:
    import jax

    jax.config.update("jax_enable_x64", True)
    return jax


def _register(jax: Any) -> None:
    """Let JAX register the kernels of decompositions, which it does when it lowers one."""

    def kernels(a: Any) -> Any:
        return jax.scipy.linalg.solve_triangular(jax.numpy.linalg.cholesky(a), a)

    jax.jit(kernels).lower(jax.ShapeDtypeStruct((2, 2), "float64"))


def in_fresh_processes(name: str, limit: int, folder: str) -> Found:
    """Compile a program in one process and measure it in the next."""
    file = Path(folder, f"{name} {limit}")
    environment = {"TF_EXLA_RATES": "", "XLA_PYTHON_CLIENT_PREALLOCATE": "false", **os.environ}
    for step in ([name, str(limit)], []):
        command = [sys.executable, __file__, "--file", str(file), *step]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
        if done.returncode:
            raise RuntimeError(
                f"{name} at {limit / 1e6:.0f} MB: {done.returncode}\n{done.stderr[-3000:]}"
            )
    return Found(**json.loads(done.stdout.splitlines()[-1]))


def cases(only: str = "") -> Iterator[tuple[str, int]]:
    """Yield names of programs with their limits, in bytes."""
    from jax_programs import PROGRAMS

    for name, (_, limit) in PROGRAMS.items():
        if only in name:
            yield from ((name, int((limit + more) * 1e6)) for more in MORE)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10, help="programs that run at once")
    parser.add_argument("--only", default="", help="a part of the names of programs")
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("case", nargs="*", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.case:
        compile_program(given.case[0], int(given.case[1]), given.file)
        return 0
    if given.file:
        print(json.dumps(dataclasses.asdict(measure(given.file))))
        return 0
    failed = 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(given.jobs) as pool:
        started = [pool.submit(in_fresh_processes, *one, folder) for one in cases(given.only)]
        for one in started:
            try:
                found = one.result()
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                print(f"FAILED {error}", flush=True)
                failed += 1
                continue
            print(found, flush=True)
            failed += not found.holds
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
