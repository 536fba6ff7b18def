"""Hold one program against its optimized self at five limits. Runs in a process of its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import tensorflow as tf

import tf_exla
from tf_exla.fuzz.compare import difference, nudged
from tf_exla.fuzz.programs import FuzzProgram, with_helpers

ROOM = (0.0, 0.03, 0.15, 0.5, 1.0)
"""Limits: so much of the way from the smallest that works to the peak of the original."""
MEASURED = 2
"""Plans that are measured, those of the smallest limits first."""

Arguments = Sequence[tf.Tensor]
Found = dict[str, Any]


def check(program: FuzzProgram) -> Found:
    """Return what was found; "failure" is empty where the program holds at all limits."""
    arguments = draw_arguments(program)
    stock = _Run(program)
    want = stock(arguments)
    state = stock.state.numpy()
    near = stock([nudged(one) for one in arguments])
    wide = cache(lambda: _Run(widened(program))([_wide(one) for one in arguments]))
    smallest, before = _range(stock, arguments)
    limits = sorted({int(smallest + (max(before, smallest) - smallest) * room) for room in ROOM})
    found: Found = {"failure": "", "limits": limits, "loops": 0}
    measured: set[int] = set()
    # The gradient, and what runs after an iterator was read, have a smallest limit of their own.
    later = program.kind == "outer gradient" or re.search(r"\b(rows|batch)\(", program.source)
    least = 0
    for limit in limits:
        optimized = stock.within(limit)
        try:
            got = optimized(arguments)
        except tf_exla.MemoryLimitError as error:
            if later:
                if not least:
                    least = error.smallest_limit
                    limits.append(least)
                if limit < least:
                    continue
            return {**found, "failure": "refused", "limit": limit, "details": str(error)}
        wrong = difference(want, got, near, program.exact, wide)
        if wrong:
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
            peak = int(tf_exla.measured_peak(optimized.function, *arguments, fresh=False))
        if not peak <= projected <= limit:
            details = f"measured {peak}, projected {projected}"
            return {**found, "failure": "broken limit", "limit": limit, "details": details}
    return found


class _Run:
    """The program as a user would have it, with a variable; stock without a limit."""

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
        outer = self.program.kind == "outer gradient"
        call = _differentiated(self.function) if outer else self.function
        return [one.numpy() for one in call(*arguments)]


def build(program: FuzzProgram) -> Callable[..., list[tf.Tensor]]:
    """Return the program as a Python function of `state`, `flag` and its inputs."""
    namespace: dict[str, Any] = {"tf": tf}
    exec(with_helpers(program.source), namespace)
    plain = namespace["program"]
    if program.kind != "inner gradient":
        return plain  # type: ignore[no-any-return]
    return lambda state, flag, *inputs: _differentiated(
        lambda *watched: plain(state, flag, *watched)
    )(*inputs)


_NARROW = {"float32": "float64", "float16": "float64", "bfloat16": "float64",
           "complex64": "complex128"}  # fmt: skip


def widened(program: FuzzProgram) -> FuzzProgram:
    """Return the program in float64. What it draws (`dtype="float32"`) stays and is cast."""
    names = "|".join(_NARROW)
    source = re.sub(rf"\btf\.({names})\b", lambda m: f"tf.{_NARROW[m[1]]}", program.source)
    inputs = tuple((shape, _NARROW.get(dtype, dtype)) for shape, dtype in program.inputs)
    return FuzzProgram(source, inputs, program.exact, program.kind)


def _wide(tensor: tf.Tensor) -> tf.Tensor:
    return tf.cast(tensor, _NARROW.get(tensor.dtype.name, tensor.dtype))


def _differentiated(function: Callable[..., Any]) -> Callable[..., list[tf.Tensor]]:
    """Return the outputs of a function, and the gradient of a number made of all of them."""

    def differentiated(*inputs: tf.Tensor) -> list[tf.Tensor]:
        watched = [one for one in inputs if one.dtype.is_floating]
        with tf.GradientTape() as tape:
            tape.watch(watched)
            made = function(*inputs)
            loss = _scalar(made)
        found = tape.gradient(loss, watched, unconnected_gradients="zero")
        return [*made, *map(tf.convert_to_tensor, found)]

    return differentiated


def draw_arguments(program: FuzzProgram) -> list[tf.Tensor]:
    """Return the inputs of a program: normal numbers, small integers with ties, truth values."""
    rng = np.random.default_rng(7)
    made = []
    for shape, dtype in program.inputs:
        values: Any
        if dtype == "bool":
            values = rng.random(shape) < 0.5
        elif "int" in dtype:
            values = rng.integers(0, 9, shape)
        elif dtype.startswith("complex"):
            values = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
        else:
            values = rng.standard_normal(shape)
        made.append(tf.cast(tf.constant(values), tf.as_dtype(dtype)))
    return made


def _scalar(made: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return one number of all outputs, for its gradient: in float64, of the real parts."""
    parts = [tf.reduce_sum(tf.sin(tf.cast(tf.math.real(one), tf.float64)))
             for one in made if one.dtype.is_floating or one.dtype.is_complex]  # fmt: skip
    return tf.add_n([tf.zeros([], tf.float64), *parts])


def _range(stock: _Run, arguments: Arguments) -> tuple[int, int]:
    """Return the smallest limit, and the peak of the original, in bytes."""
    before = stock.within(10**13).function.report(*arguments).projected_peak_before
    try:
        stock.within(1).function.report(*arguments)
    except tf_exla.MemoryLimitError as error:
        return error.smallest_limit, before
    raise AssertionError("one byte was enough")
