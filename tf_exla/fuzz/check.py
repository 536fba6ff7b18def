"""Compare one program with its optimized version at five limits. Runs in its own process."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import tensorflow as tf

import tf_exla
from tf_exla.fuzz.compare import UNITS, allowances, difference, nudged
from tf_exla.fuzz.heap import heap_peak
from tf_exla.fuzz.plain import as_written, differentiated, draw_inputs
from tf_exla.fuzz.programs import FuzzProgram, with_helpers

ROOM = (0.0, 0.03, 0.15, 0.5, 1.0)
"""Limits, as fractions of the way from the smallest that works to the peak of the original."""
MEASURED = 2
"""Plans that are measured, those of the smallest limits first."""

_READS = r"\b(rows|batch)\("
Arguments = Sequence[tf.Tensor]
Found = dict[str, Any]


def check(program: FuzzProgram, ran: Callable[[], object] = lambda: None) -> Found:
    """Return the findings; "failure" is empty if the program passes at all limits.

    "invalid" says why TensorFlow alone fails to run it. `ran` is called once TensorFlow has run it.
    """
    arguments = draw_inputs(program.inputs)
    stock = _Run(program)
    try:
        with as_written():
            want = stock(arguments)
    except Exception as error:  # a program that does not run tests nothing
        return {"failure": "", "invalid": f"{type(error).__name__}: {error}"}
    ran()
    state = stock.state.numpy()
    with as_written():
        near = stock([nudged(one) for one in arguments])
    wide = cache(lambda: _in_float64(program, arguments))
    smallest, before = _range(stock, arguments)
    limits = sorted({int(smallest + (max(before, smallest) - smallest) * room) for room in ROOM})
    found: Found = {"failure": "", "limits": limits, "loops": 0}
    measured: set[int] = set()
    # A call that a tape records, its gradient, and the part after an iterator is read each have
    # their own smallest limit.
    later = program.kind == "outer gradient" or re.search(_READS, program.source)
    least: dict[str, int] = {}
    for limit in limits:
        optimized = stock.within(limit)
        try:
            got = optimized(arguments)
        except tf_exla.MemoryLimitError as error:
            if later and error.function not in least:
                limits.append(error.smallest_limit)
            if later and limit < least.setdefault(error.function, error.smallest_limit):
                continue
            return {**found, "failure": "refused", "limit": limit, "details": str(error)}
        except Exception:
            lines = traceback.format_exc().strip().splitlines()[-12:]
            return {**found, "failure": "exception", "limit": limit, "details": "\n".join(lines)}
        wrong = difference(want, got, near, program.exact, wide, _unit(program))
        if wrong:
            found["allowed"] = allowances(want, near, program.exact)
            return {**found, "failure": "wrong numbers", "limit": limit, "details": wrong}
        if state != stock.state.numpy():
            details = f"the variable is {stock.state.numpy()}, not {state}"
            return {**found, "failure": "wrong state", "limit": limit, "details": details}
        if program.kind == "outer gradient":
            continue
        report = optimized.function.report(*arguments)
        found["loops"] += len(report.loops)
        projected = report.projected_peak
        peak = 0
        if len(measured) < MEASURED and projected not in measured:
            measured.add(projected)
            peak = _peak(optimized, arguments, projected)
        if not peak <= projected <= limit:
            details = f"measured {peak}, projected {projected}"
            return {**found, "failure": "broken limit", "limit": limit, "details": details}
    return found


def _peak(optimized: _Run, arguments: Arguments, projected: int) -> int:
    """Return the measured peak of a call, from the heap if the resident set seems too large."""
    peak = tf_exla.measured_peak(optimized.function, *arguments, fresh=False)
    if peak <= projected:
        return int(peak)
    heap = heap_peak(lambda: optimized.function(*arguments))
    return int(peak) if heap is None else min(int(peak), peak.resident + heap)


class _Run:
    """The program as a user would write it, with a variable; stock until `within` limits it."""

    def __init__(self, program: FuzzProgram) -> None:
        self.program = program
        self.state = tf.Variable(0.0, dtype=tf.float64)
        self.flag = tf.Variable(True)
        plain = build(program)
        signature = None
        if program.kind == "unknown sizes":
            signature = [tf.TensorSpec([None] * len(shape), t) for shape, t in program.inputs]
        self.function: Any = tf.function(
            lambda *inputs: plain(self.state, self.flag, *inputs),
            autograph=False,
            input_signature=signature,
        )

    def within(self, limit: int) -> _Run:
        """Return the same program, traced once, within a limit."""
        made = object.__new__(_Run)
        made.__dict__ = {**self.__dict__}
        made.function = tf_exla.optimize(self.function, limit, strict=True)
        return made

    def __call__(self, arguments: Arguments) -> list[Any]:
        self.state.assign(0.75)
        tf.random.set_seed(0)  # random ops with a state start again
        outer = self.program.kind == "outer gradient"
        call = differentiated(self.function) if outer else self.function
        return [one.numpy() for one in call(*arguments)]


def build(program: FuzzProgram) -> Callable[..., list[tf.Tensor]]:
    """Return the program as a Python function of `state`, `flag` and its inputs."""
    namespace: dict[str, Any] = {"tf": tf}
    exec(with_helpers(program.source), namespace)
    plain = namespace["program"]
    if program.kind != "inner gradient":
        return plain  # type: ignore[no-any-return]
    return lambda state, flag, *inputs: differentiated(
        lambda *watched: plain(state, flag, *watched)
    )(*inputs)


_NARROW = {"float32": "float64", "float16": "float64", "bfloat16": "float64",
           "complex64": "complex128"}  # fmt: skip


def widened(program: FuzzProgram) -> FuzzProgram:
    """Return the program in float64. Its random draws (`dtype="float32"`) stay and are cast."""
    names = "|".join(_NARROW)
    source = re.sub(rf"\btf\.({names})\b", lambda m: f"tf.{_NARROW[m[1]]}", program.source)
    inputs = tuple((shape, _NARROW.get(dtype, dtype)) for shape, dtype in program.inputs)
    return FuzzProgram(source, inputs, program.exact, program.kind)


def _unit(program: FuzzProgram) -> float:
    """Return the unit of rounding of the shortest floating-point dtype of a program."""
    text = f"{program.source} {program.inputs}"
    return max(unit for name, unit in UNITS.items() if name in text or name == "float64")


def _in_float64(program: FuzzProgram, arguments: Arguments) -> list[Any]:
    wide = [tf.cast(one, _NARROW.get(one.dtype.name, one.dtype)) for one in arguments]
    with as_written():
        return _Run(widened(program))(wide)


def _range(stock: _Run, arguments: Arguments) -> tuple[int, int]:
    """Return the smallest limit, and the peak of the original, in bytes."""
    reads = re.search(_READS, stock.program.source)

    def report(limit: int) -> Any:
        optimized = stock.within(limit)
        if reads:  # sizes after the read are unknown before a call
            optimized(arguments)
        return optimized.function.report(*arguments)

    before = report(10**13).projected_peak_before
    try:
        report(1)
    except tf_exla.MemoryLimitError as error:
        return error.smallest_limit, before
    raise AssertionError("one byte was enough")
