"""`python -m tf_exla`: an unmodified script under a limit, and the rates of the machine."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import re
import runpy
import signal
import subprocess
import sys
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from forked_command import forked_command
from fresh_process import run_fresh
from needs import GPFLOW

import tf_exla
from tf_exla.__main__ import main
from tf_exla.frontends.tf.measuring import calibrate as measuring
from tf_exla.frontends.tf.measuring import other_load
from tf_exla.frontends.tf.measuring.other_load import OtherLoad
from tf_exla.model.rates import Rates

ROOT = Path(__file__).resolve().parent.parent

SCRIPT = """
import sys
import gpflow
import numpy as np
import tensorflow as tf

if __name__ == "__main__":
    rng = np.random.default_rng(0)
    X = rng.standard_normal((8009, 2))
    Y = np.sin(X[:, :1])
    model = gpflow.models.SGPR((X, Y), gpflow.kernels.Matern32(), inducing_variable=X[:50].copy())
    gpflow.optimizers.Scipy().minimize(
        model.training_loss, model.trainable_variables, options={"maxiter": int(sys.argv[1])}
    )

    @tf.function
    def switched(x):
        return tf.raw_ops.Switch(data=x, pred=x[0] > 0.0)[1] + 1.0

    switched(tf.ones(3))

    @tf.function(jit_compile=True)
    def compiled(x):
        return x + 1.0

    compiled(tf.ones(3))

    @tf.function
    def outer(x):
        return inner(x) * 2.0

    @tf.function
    def inner(x):
        return tf.reduce_sum(x)

    assert float(outer(tf.ones(4))) == 8.0
    print("loss", repr(float(model.training_loss())), sys.argv[1:])
"""


def run_script(
    tmp_path: Path, *options: str, limit: str = "12MB", source: str
) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "train.py"
    script.write_text(source)
    return forked_command("run", "--limit", limit, *options, str(script), cwd=ROOT)


def loss_of(output: str) -> float:
    (line,) = (line for line in output.splitlines() if line.startswith("loss"))
    return float(line.split()[1])


def output_of(arguments: list[str]) -> str:
    """Run a script in this process; return what it prints."""
    sys.argv = arguments
    with contextlib.redirect_stdout(io.StringIO()) as output:
        runpy.run_path(arguments[0], run_name="__main__")
    return output.getvalue()


@pytest.mark.parametrize("switch", ["--jit-compile", "--no-jit-compile"])
def test_run_compiles_loops(switch: str, tmp_path: Path) -> None:
    script, report = tmp_path / "kernel.py", tmp_path / "report.txt"
    script.write_text(
        "import tensorflow as tf\n"
        "x = tf.random.stateless_normal([3001, 2], [1, 2])\n"
        "row_sums = lambda x: tf.reduce_sum(tf.exp(tf.matmul(x, x, transpose_b=True)), 1)\n"
        "print(tf.function(row_sums)(x).shape)\n"
    )
    arguments = ["--limit", "8MB", "--report", str(report), switch, str(script)]
    done = forked_command("run", *arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "(3001,)" in done.stdout
    assert ("XLA compiles" in report.read_text()) == (switch == "--jit-compile")


@GPFLOW
def test_run(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    report = ["--report", str(tmp_path / "report.json")]
    arguments = [str(script), "3", "--limit", "mine"]
    done = subprocess.run(
        [sys.executable, "-m", "tf_exla", "run", "--limit", "12MB", *report, *arguments],
        capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "['3', '--limit', 'mine']" in done.stdout
    plain = run_fresh(output_of, arguments)
    assert loss_of(done.stdout) == pytest.approx(loss_of(plain), rel=1e-7)
    report = json.loads((tmp_path / "report.json").read_text())
    names = [function["function"] for function in report["functions"]]
    assert any(function["loops"] for function in report["functions"])
    assert "outer" in names
    assert "inner" not in names  # it is called inside of `outer`
    assert "compiled" not in names  # XLA needs less than the limit
    ((switched, why),) = report["as_it_was"].items()
    assert re.fullmatch(r"switched \(train.py:\d+\)", switched)
    assert "control flow of TensorFlow 1" in why
    assert f"{switched} runs as it was" in done.stderr
    last = done.stderr.splitlines()[-1]
    # The evaluations of the optimizer, `outer`, and the loss that is called eagerly.
    assert last.startswith("tf_exla: 3 functions optimized, largest projected peak ")
    assert re.search(r"; 1 function left to XLA: compiled \(train.py:\d+\); ", last)
    assert last.endswith(f"; 1 function ran as before: {switched}")
    if sys.platform == "linux":
        assert re.search(r"; the process took at most [\d.]+ [MG]B, libraries included; ", last)


SWITCHED = """
import tensorflow as tf

@tf.function
def switched(x):
    return tf.raw_ops.Switch(data=x, pred=x[0] > 0.0)[1] + 1.0

switched(tf.ones(3))
"""


def test_strict(tmp_path: Path) -> None:
    done = run_script(tmp_path, "--strict", source=SWITCHED)
    assert done.returncode != 0
    assert "control flow of TensorFlow 1" in done.stderr


WHOLE = """
import tensorflow as tf

@tf.function
def factor(x):
    return tf.linalg.cholesky(x)

factor(tf.eye(700, dtype=tf.float64))
"""


def test_a_limit_that_cannot_be_held_is_an_error(tmp_path: Path) -> None:
    done = run_script(tmp_path, limit="1.3MB", source=WHOLE)
    assert done.returncode != 0
    assert "MemoryLimitError" in done.stderr
    assert "Smallest limit that works" in done.stderr


PACKAGE = """
import pickle
import sys
import tensorflow as tf

class Mine:
    pass

if __name__ == "__main__":
    assert pickle.loads(pickle.dumps(Mine())).__class__ is Mine
    print(sys.argv[1:], sys.path[0], __name__, float(tf.function(lambda x: x + 1.0)(1.0)))
    if sys.argv[1] == "raise":
        raise KeyError("mine")
    sys.exit(int(sys.argv[1]))
"""


# The test below this one has a script that is not a module, and another end.
@pytest.mark.one_of(4, 2)
@pytest.mark.parametrize("module", [True, False], ids=["module", "script"])
@pytest.mark.parametrize(("argument", "status"), [("7", 7), ("raise", 1)])
def test_run_ends_as_python_does(module: bool, argument: str, status: int, tmp_path: Path) -> None:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "train.py").write_text(PACKAGE)
    named = ["-m", "pack.train"] if module else [str(tmp_path / "pack" / "train.py")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    plain, ours = (
        subprocess.run(
            [sys.executable, *start, *named, argument, "--strict"],
            capture_output=True, text=True, cwd=tmp_path, env=environment, check=False,
        )
        for start in ([], ["-m", "tf_exla", "run", "--limit", "12MB"])
    )  # fmt: skip
    assert ours.returncode == plain.returncode == status, ours.stderr
    assert ours.stdout == plain.stdout
    summary = ours.stderr.splitlines()[-1]
    assert summary.startswith("tf_exla: 1 function optimized, largest projected peak ")
    if argument == "raise":
        for done in (plain, ours):
            trace = done.stderr[done.stderr.index("Traceback") :].splitlines()
            assert [line for line in trace if "File" in line and "runpy" not in line] == [
                f'  File "{tmp_path / "pack" / "train.py"}", line 13, in <module>'
            ]
            assert "KeyError: 'mine'" in trace


AFTERWARDS = """
import atexit, os, pickle, signal, sys, threading, time
import tensorflow as tf

class Mine:
    pass

@tf.function
def row_sums(x):
    return tf.reduce_sum(tf.exp(-((x[:, None] - x) ** 2)))

def later():
    time.sleep(0.5)
    print("thread", round(float(row_sums(tf.zeros(700)))), __annotations__)

def at_exit():
    print("exit", type(pickle.loads(pickle.dumps(Mine()))) is Mine)

os.chdir("/")
print(__file__, flush=True)
threading.Thread(target=later).start()
atexit.register(at_exit)
os.kill(os.getpid(), signal.SIGINT)
time.sleep(5)
"""


def test_what_runs_after_the_script_holds_the_limit(tmp_path: Path) -> None:
    """A thread and an exit handler, and the status that an interrupt leaves."""
    (tmp_path / "script.py").write_text(AFTERWARDS)
    plain, ours = (
        subprocess.run(
            [sys.executable, *start, "script.py"],
            capture_output=True, text=True, check=False, cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            # A job in the background ignores interrupts, and so would its children.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        for start in ([], ["-m", "tf_exla", "run", "--limit", "2.5MB"])
    )  # fmt: skip
    assert ours.stdout == plain.stdout, ours.stderr
    assert "thread" in ours.stdout
    assert ours.returncode == plain.returncode == -signal.SIGINT
    # It needs 3.5 MB without a limit.
    assert ours.stderr.splitlines()[-1].startswith("tf_exla: 1 function optimized")
    for done in (plain, ours):
        assert f'File "{tmp_path / "script.py"}", line 23, in <module>' in done.stderr


def test_a_syntax_error_is_shown_as_python_does(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("print(1")
    done = forked_command("run", str(tmp_path / "script.py"), cwd=ROOT)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "SyntaxError: '(' was never closed" in done.stderr


def test_version() -> None:
    command = [sys.executable, "-m", "tf_exla", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == f"tf_exla, version {tf_exla.__version__}"


def test_a_bad_limit_is_quoted(tmp_path: Path) -> None:
    done = run_script(tmp_path, limit="12 parrots", source=SCRIPT)
    assert done.returncode != 0
    assert "12 parrots" in done.stderr


def test_calibrate(tmp_path: Path) -> None:
    path = tmp_path / "rates.json"

    def calibrate(*options: str, rates: str = str(path)) -> Any:
        return CliRunner().invoke(main, ["calibrate", *options], env={"TF_EXLA_RATES": rates})

    done = calibrate("--anyway")
    assert done.exit_code == 0, done.output
    assert str(path) in done.output.replace("\n", "")
    (found,) = json.loads(path.read_text()).values()
    assert set(found) == {field.name for field in fields(Rates)}
    of_gpus = {"top_k_column", "top_k_merge"}
    assert all(value > 0 for name, value in found.items() if name not in of_gpus)
    assert calibrate("--forget").exit_code == 0
    assert not path.exists()
    refused = calibrate(rates="")
    assert refused.exit_code
    assert "TF_EXLA_RATES" in refused.output


@pytest.mark.parametrize(
    ("busy", "options", "status", "said"),
    [
        # Busy seconds at the start and end of the probe, then of the measurement, on two cores.
        ([0.0, 0.1, 0.1, 0.2], [], 0, ""),
        ([0.0, 1.0], [], 1, "other processes had 50% of the cores"),
        ([0.0, 0.1, 0.1, 1.1], [], 1, "Nothing was saved; --anyway"),
        ([0.0, 1.0, 1.0, 2.0], ["--anyway"], 0, "saved all the same"),
        ([None] * 4, [], 0, "is not known here"),
    ],
)
def test_calibrate_wants_the_machine_for_itself(
    busy: list[float | None],
    options: list[str],
    status: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times, clock = iter(busy), itertools.count()
    monkeypatch.setattr(
        other_load,
        "OtherLoad",
        partial(
            OtherLoad, lambda: next(times), own=lambda: 0.0, clock=lambda: next(clock), cores=2
        ),
    )
    monkeypatch.setattr(other_load, "PROBE", 0.0)
    monkeypatch.setattr(measuring, "measure_cpu", lambda: asdict(Rates()))
    path = tmp_path / "rates.json"
    monkeypatch.setenv("TF_EXLA_RATES", str(path))
    done = CliRunner().invoke(main, ["calibrate", *options])
    assert done.exit_code == status, done.output
    assert said in done.output
    assert path.exists() == (status == 0)


def test_own_work_is_no_load() -> None:
    seconds = iter([1.0, 5.0])
    load = OtherLoad(lambda: next(seconds), own=iter([0.0, 3.0]).__next__,
                     clock=iter([0.0, 2.0]).__next__, cores=2)  # fmt: skip
    assert load.share() == 0.25
    real = OtherLoad()
    assert real.share() is None or 0 <= real.share() <= 1


def test_ops() -> None:
    """The records of ops are printed without importing TensorFlow."""
    code = (
        "import sys; from tf_exla.__main__ import main; main(['ops', 'TopK', 'MatMul'], "
        "standalone_mode=False); assert 'tensorflow' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "top_k a" in done.stdout
    assert "BatchMatMulV2" in done.stdout


def test_functions_of_one_name_are_told_apart(tmp_path: Path) -> None:
    script = tmp_path / "lambdas.py"
    script.write_text(
        "import tensorflow as tf\n"
        "first = tf.function(lambda x: x + 1)\n"
        "second = tf.function(lambda x: x + 2)\n"
        "third = tf.function(lambda x: tf.raw_ops.Switch(data=x + 3, pred=x < 1)[1])\n"
        "fourth = tf.function(lambda x: tf.raw_ops.Switch(data=x + 4, pred=x < 1)[1])\n"
        "print(sum(float(f(tf.constant(0.0))) for f in (first, second, third, fourth)))\n"
    )
    done = forked_command("run", "--limit", "8MB", str(script), cwd=tmp_path)
    assert "10.0" in done.stdout
    last = done.stderr.splitlines()[-1]
    assert last.startswith("tf_exla: 2 functions optimized")
    assert last.endswith(
        "2 functions ran as before: <lambda> (lambdas.py:4), <lambda> (lambdas.py:5)"
    )
