"""The fuzzer: its programs hold, and failures are found, shrunk and written as tests.

`python -m tf_exla fuzz` checks more programs than the two hundred of `-m thorough`.
"""

from __future__ import annotations

import contextlib
import io
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fresh_process import run_fresh
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from samples import batches, but

from tf_exla.fuzz import worker
from tf_exla.fuzz.command import fuzz
from tf_exla.fuzz.compare import difference
from tf_exla.fuzz.programs import KINDS, FuzzProgram, programs
from tf_exla.fuzz.table import FAMILIES
from tf_exla.fuzz.values import ALL, Pool, Step, Value
from tf_exla.fuzz.write_test import write_test

SAMPLE = (
    3, 4, 5, 18, 19, 27, 31, 35, 39, 48, 49, 51, 52, 53, 57, 59, 60, 62, 64, 65, 70, 86, 100, 135,
    147, 168, 178, 179,
)  # fmt: skip

SELDOM = ("images", "indexing", "movement", "pointwise", "reductions")
"""Families whose rows programs of the sample have, and which take long."""


@pytest.mark.parametrize("seeds", batches(SAMPLE, 200, 14))
def test_programs_hold(seeds: list[int], tmp_path: Path) -> None:
    verdicts = fuzz(seeds, 1, 120.0, tmp_path)
    failed = [one for one in map(json.loads, (tmp_path / "log.jsonl").open()) if one["failure"]]
    assert not failed
    assert verdicts == {"holds": len(seeds)}
    # They were checked before and are not checked again.
    assert fuzz(seeds, 1, 0.0, tmp_path) == verdicts


@given(programs())
@settings(max_examples=30, deadline=None)
def test_programs_are_python(program: FuzzProgram) -> None:
    compile(program.source, "program", "exec")
    assert program.source.count("\n") >= 4
    assert len(program.inputs) >= 3


def test_a_failure_is_shrunk_and_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails_on_sin(program: FuzzProgram, seconds: float) -> dict[str, str]:
        wrong = "tf.tanh" in program.source.split("y0 = ")[1].split("\n", 1)[1]
        return {"failure": "wrong numbers" if wrong else "", "details": "as asked for"}

    monkeypatch.setattr(worker, "in_fork", fails_on_sin)
    verdicts = [worker.run_seed(seed, 20.0) for seed in range(12)]
    found = [one for one in verdicts if one["failure"]]
    assert found
    assert len(found) < len(verdicts)
    # def, y0, one line or two more, return
    assert min(one["source"].count("\n") for one in found) <= 5
    # The test stands alone, and passes, since nothing is wrong here.
    for one in found[:3]:
        path = write_test(one, tmp_path)
        assert one["source"] in path.read_text()
        assert "fuzz" not in path.read_text().split('"""', 2)[2].replace("test_fuzz", "")
        space: dict[str, Any] = {}
        exec(compile(path.read_text(), str(path), "exec"), space)
        space[f"test_seed_{one['seed']}"]()


def test_a_program_that_does_not_run_is_invalid() -> None:
    from tf_exla.fuzz.check import check

    source = "def program(state, flag, x0):\n    return [tf.unstack(x0)[0]]\n"
    found = check(FuzzProgram(source, (((5,), "float32"),), (True,), "unknown sizes"))
    assert not found["failure"]
    assert "Cannot infer argument" in found["invalid"]


def pytest_of(folder: str) -> str:
    """Run pytest in this process; return what it prints."""
    with contextlib.redirect_stdout(io.StringIO()) as output:
        pytest.main(["-q", "-p", "no:cacheprovider", "--rootdir", folder, folder])
    return output.getvalue()


def test_written_tests_fail_by_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that draw numbers without a seed differ from run to run."""
    from tf_exla.fuzz import compare
    from tf_exla.fuzz.check import check

    monkeypatch.setattr(compare, "AMPLIFICATION", 0.0)
    monkeypatch.setattr(compare, "_as_near", lambda want, got, wide, unit: False)
    source = (
        "def program(state, flag, x0):\n"
        "    noise = tf.raw_ops.RandomUniform(shape=tf.constant([5]), dtype=x0.dtype)\n"
        "    y0 = nested(x0) * noise\n"
        "    return [tf.reduce_mean(y0)]\n"
    )
    for seed, kind in enumerate(KINDS):
        program = FuzzProgram(source, (((5,), "float32"),), (False,), kind)
        verdict = {"seed": seed, "source": source, "inputs": program.inputs, "kind": kind}
        found = check(program)
        assert found["failure"] == "wrong numbers"
        write_test({**verdict, **found}, tmp_path)
    said = run_fresh(pytest_of, str(tmp_path))
    assert f"{len(KINDS)} failed" in said
    assert said.count("<= allowed") == len(KINDS)


@pytest.mark.parametrize("failure", ["wrong numbers", "time-out"])
def test_shrinking_takes_no_longer_than_it_may(
    failure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_seconds = []

    def fails(program: FuzzProgram, seconds: float) -> dict[str, str]:
        given_seconds.append(seconds)
        time.sleep(min(0.05, seconds))
        return {"failure": failure, "details": program.source}

    monkeypatch.setattr(worker, "in_fork", fails)
    monkeypatch.setattr(worker, "SHRINKING", 0.5)
    assert worker.run_seed(3, 60.0)["failure"] == failure
    # The next run may only take the time that is left. A time-out is not tried again.
    assert given_seconds[0] == 60.0
    assert all(seconds <= 0.5 for seconds in given_seconds[1:])
    assert (len(given_seconds) == 1) == (failure == "time-out")


@pytest.mark.parametrize(
    ("got", "wide", "holds"),
    [
        (1.0, 1.0, True),
        (1.30, 1.31, True),  # stock is wrong
        (0.60, 1.31, False),  # stock is wrong, and so is ours, on the other side
        (0.41, 1.31, False),
        (1.30, 1.0, False),  # stock is right
        (np.nan, 1.31, False),
        (np.inf, 1.31, False),
    ],
)
def test_what_is_as_near_to_float64_as_stock_is_right(got: float, wide: float, holds: bool) -> None:
    want = np.full([5], 1.0, np.float16)
    made = want.copy()
    made[2] = got
    reference = [np.full([5], wide)]
    found = difference([want], [made], [want], [False], lambda: reference)
    assert (found == "") == holds
    # A result that must have the same bits may not differ.
    found = difference([want], [made], [want], [True], lambda: reference)
    assert (found == "") == (got == 1.0)


def test_a_program_in_float64_draws_the_same_numbers() -> None:
    from tf_exla.fuzz.check import build, widened

    source = (
        "def program(state, flag, x0):\n"
        "    noise = tf.random.stateless_normal([3], [0, 1], dtype='float32')\n"
        "    return [x0 + tf.cast(noise, x0.dtype), tf.cast(x0, tf.float32)]\n"
    )
    program = FuzzProgram(source, (((3,), "float32"),), (False, True), "values")
    wide = build(widened(program))(None, None, np.zeros(3, np.float64))
    narrow = build(program)(None, None, np.zeros(3, np.float32))
    assert [one.dtype.name for one in wide] == ["float64", "float64"]
    np.testing.assert_array_equal(wide[0].numpy(), narrow[0].numpy().astype(np.float64))


@pytest.mark.parametrize("family", but(SELDOM, sorted(FAMILIES)))
def test_rows_run_in_tensorflow_and_say_what_comes(family: str) -> None:
    """Every row draws a line that runs, has its stated shape and dtype, and has a gradient."""
    lines: dict[tuple[int, str], tuple[Step, Shapes]] = {}

    @given(st.data())
    @settings(
        max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    def draw_lines(dtype: str, data: st.DataObject) -> None:
        inputs = tuple((size, one) for one in (dtype, "bool") for size in SIZES)
        for k, row in enumerate(FAMILIES[family]):
            pool = Pool([Value(f"x{i}", *one, True) for i, one in enumerate(inputs)])
            step = row(data.draw, pool)
            if step is not None:
                lines.setdefault((k, dtype), (step, inputs))

    for dtype in ("float16", "float32") if family == "control" else ALL[:-1]:
        draw_lines(dtype)
    assert {k for k, _ in lines} == set(range(len(FAMILIES[family])))
    wrong = {}
    for step, inputs in lines.values():
        said = _run_line(step, inputs, traced=family == "control")
        if said:
            wrong[step.code] = said
    assert not wrong


Shapes = tuple[tuple[tuple[int, ...], str], ...]
SIZES = ((), (1, 4), (2, 6, 3), (6, 6), (24, 3), (6,), (64,), (64, 4))


def _run_line(step: Step, inputs: Shapes, traced: bool) -> str:
    """Return what is wrong with a line or its gradient; an empty string if nothing is."""
    import tensorflow as tf

    from tf_exla.fuzz.check import build
    from tf_exla.fuzz.plain import draw_inputs

    names = ", ".join(f"x{k}" for k in range(len(inputs)))
    source = f"def program(state, flag, {names}):\n    return [{step.code}]\n"
    program = FuzzProgram(source, inputs, (step.exact,), "inner gradient")
    state, flag, arguments = (
        tf.Variable(0.75, dtype=tf.float64),
        tf.Variable(True),
        draw_inputs(inputs),
    )
    plain = build(program)
    signature = [tf.TensorSpec([None] * len(shape), dtype) for shape, dtype in inputs]
    call = tf.function(lambda *inputs: plain(state, flag, *inputs), autograph=False)
    try:
        if inputs[0][1] == "float32":
            call.get_concrete_function(*signature)
        made = call(*arguments) if traced else plain(state, flag, *arguments)
    except Exception as error:
        return f"{step.dtype}: {type(error).__name__}: {error}"[:150]
    result, *gradients = (one.numpy() for one in made)
    if (result.shape, str(result.dtype)) != (step.shape, step.dtype):
        return f"{result.dtype}{result.shape} instead of {step.dtype}{step.shape}"
    largest = np.max(np.abs(result.astype(np.complex128)), initial=0.0)
    if "int" not in step.dtype and not largest < 20:
        return f"up to {largest}"
    finite = all(np.all(np.isfinite(one.astype(np.float64))) for one in gradients)
    return "" if finite else f"{step.dtype}: the gradient is not finite"


def test_the_heap_is_traced() -> None:
    code = """
        import tensorflow as tf
        from tf_exla.fuzz.heap import heap_peak

        def gradient():
            with tf.GradientTape() as tape:
                tape.watch(images)
                y = tf.nn.conv2d(images, tf.ones([2, 2, 1, 3]), 2, "VALID")
            return tape.gradient(y, images)

        x, images = tf.ones([1_000_000], tf.float64), tf.ones([8, 4, 4, 1])
        tf.exp(x), gradient()
        send([heap_peak(lambda: tf.exp(x) + tf.sin(x)), heap_peak(gradient)])
    """
    tensors, untouched = run_fresh(code)
    assert 16e6 <= tensors < 25e6
    assert untouched < 2e6


@pytest.mark.parametrize(("unit", "holds"), [(0.0, False), (2.0**-24, True)])
def test_a_result_may_be_a_cast_of_shorter_numbers(unit: float, holds: bool) -> None:
    want = np.full([5], 1.0)
    found = difference([want], [want + 2e-7], [want + 1e-15], [False], lambda: [want + 5e-8], unit)
    assert (not found) == holds
