"""Child processes of a program under `run` hold its limit, and errors come back from them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from forked_command import forked_command
from samples import but

ROOT = Path(__file__).resolve().parent.parent

# Only the children import TensorFlow, except with fork, where they have the parent's.
SCRIPT = """
import multiprocessing, subprocess, sys
from concurrent.futures import ProcessPoolExecutor

def peak(rows):
    import tensorflow as tf
    x = tf.random.stateless_normal([rows, 2], [1, 2])
    kernel = tf.function(lambda x: tf.reduce_sum(tf.exp(tf.matmul(x, x, transpose_b=True)), 1))
    return float(kernel(x)[0])

def attempt(submit, rows):
    try:
        return submit(rows)
    except RuntimeError as error:
        return f"{type(error).__name__} {error.limit} {error.smallest_limit > error.limit}"

if __name__ == "__main__":
    method = sys.argv[1]
    if method == "subprocess":
        subprocess.run([sys.executable, "-c", "print('child')"], check=True)
    elif method == "loky":
        from joblib import Parallel, delayed
        found = Parallel(n_jobs=2)(delayed(attempt)(peak, rows) for rows in (100, 2))
        print(isinstance(found[0], float), found[1])
        print(attempt(lambda rows: Parallel(n_jobs=2)([delayed(peak)(rows)])[0], 60_000))
    else:
        context = multiprocessing.get_context(method)
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            print(attempt(lambda rows: pool.submit(peak, rows).result(), 60_000))
        with context.Pool(1) as pool:
            print(attempt(lambda rows: pool.apply(peak, (rows,)), 60_000))
            print(isinstance(attempt(lambda rows: pool.apply(peak, (rows,)), 100), float))
"""


def run(method: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "children.py"
    script.write_text(SCRIPT)
    arguments = ["run", "--limit", "1.3MB", str(script), method]
    if method != "forkserver":
        return forked_command(*arguments, cwd=tmp_path)
    command = [sys.executable, "-m", "tf_exla", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
    return subprocess.run(
        command,
        capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=300, check=False,
    )  # fmt: skip


# A server to fork from is prepared as a spawned process is.
@pytest.mark.parametrize("method", but(["forkserver"], ["fork", "spawn", "forkserver"]))
def test_children_hold_the_limit(method: str, tmp_path: Path) -> None:
    done = run(method, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["MemoryLimitError 1300000 True"] * 2 + ["True"], done.stderr


def test_children_of_joblib_hold_the_limit(tmp_path: Path) -> None:
    pytest.importorskip("joblib")
    done = run("loky", tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "MemoryLimitError 1300000 True", done.stderr


OBJECTS = """
import dataclasses, multiprocessing

@dataclasses.dataclass
class Result:
    loss: float

def fit(seed):
    return Result(seed / 2)

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(fit, [1, 2]) == [Result(0.5), Result(1.0)])
"""


@pytest.mark.parametrize("program", ["objects.py", "-m objects"])
def test_objects_of_the_script_come_back_from_children(program: str, tmp_path: Path) -> None:
    """Their class is one of `__mp_main__`: if it is not found there, the pool waits forever."""
    (tmp_path / "objects.py").write_text(OBJECTS)
    done = forked_command("run", "--limit", "1GB", *program.split(), cwd=tmp_path)
    assert done.stdout == "True\n", done.stderr


def test_a_line_tells_of_other_children(tmp_path: Path) -> None:
    done = run("subprocess", tmp_path)
    assert done.stdout == "child\n", done.stderr
    assert "no memory limit holds in the child process" in done.stderr


def test_nothing_is_printed_where_an_awaited_import_never_comes() -> None:
    """The generator behind `on_import` is closed while the interpreter ends."""
    script = (
        "import contextlib\n"
        "from tf_exla.run.on_import import on_import\n"
        "stack = contextlib.ExitStack()\n"
        "stack.enter_context(on_import('no_such_module', print))\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
