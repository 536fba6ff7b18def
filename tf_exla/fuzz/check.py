"""Hold one program against its optimized self at five limits. Runs in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

import tf_exla
from tf_exla.fuzz.programs import FuzzProgram

ROOM = (0.0, 0.03, 0.15, 0.5, 1.0)
"""Limits: so much of the way from the smallest that works to the peak of the original."""
MEASURED = 2
"""Limits that are measured, the smallest first."""
AMPLIFICATION = 20.0
"""A chunked sum differs by as much as the program makes of inputs a few units of rounding away."""
_UNITS = {
    "bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 2.0**-24, "float64": 2.0**-53,
    "complex64": 2.0**-24, "complex128": 2.0**-53,
}  # fmt: skip
_FLOOR_UNITS = 500
_SHORT_FLOOR_UNITS = 16  # a short float has but 2**8 or 2**11 of them

Arguments = Sequence[tf.Tensor]


def check(program: FuzzProgram) -> dict[str, Any]:
    """Return what was found; "failure" is empty where the program holds at all limits."""
    arguments = draw_arguments(program)
    stock = _Run(program)
    want = stock(arguments)
    near = _Run(program)([_nudged(one) for one in arguments])
    smallest, before = _range(program, arguments)
    limits = sorted({int(smallest + (max(before, smallest) - smallest) * room) for room in ROOM})
    found: dict[str, Any] = {"failure": "", "limits": limits, "loops": 0}
    exact = (*program.exact, *[False] * (len(want) - len(program.exact)))
    for k, limit in enumerate(limits):
        optimized = _Run(program, limit)
        try:
            got = optimized(arguments)
        except tf_exla.MemoryLimitError as error:
            if program.kind == "outer gradient" and error.function.startswith("gradient of"):
                continue  # it has a smallest limit of its own
            return {**found, "failure": "refused", "limit": limit, "details": str(error)}
        for one, two, three, same in zip(want, got, near, exact, strict=True):
            wrong = _difference(one, two, three, same)
            if wrong:
                return {**found, "failure": "wrong numbers", "limit": limit, "details": wrong}
        if stock.state.numpy() != optimized.state.numpy():
            details = f"the variable is {optimized.state.numpy()}, not {stock.state.numpy()}"
            return {**found, "failure": "wrong state", "limit": limit, "details": details}
        if k < MEASURED and program.kind != "outer gradient":
            report = optimized.function.report(*arguments)
            found["loops"] += len(report.loops)
            peak = int(tf_exla.measured_peak(optimized.function, *arguments, fresh=False))
            if not peak <= report.projected_peak <= limit:
                details = f"measured {peak}, projected {report.projected_peak}"
                return {**found, "failure": "broken limit", "limit": limit, "details": details}
    return found


class _Run:
    """The program as a user would have it, with a variable of its own; stock without a limit."""

    def __init__(self, program: FuzzProgram, limit: int | None = None) -> None:
        self.state = tf.Variable(0.75, dtype=tf.float64)
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
        if limit is not None:
            self.function = tf_exla.optimize(self.function, limit, strict=True)
        self.call = self.function
        if program.kind == "outer gradient":
            self.call = _differentiated(self.function)

    def __call__(self, arguments: Arguments) -> list[Any]:
        return [one.numpy() for one in self.call(*arguments)]


def build(program: FuzzProgram) -> Callable[..., list[tf.Tensor]]:
    """Return the program as a Python function of `state`, `flag` and its inputs."""
    nested = tf.function(lambda x: tf.tanh(x) * tf.sin(x), autograph=False)
    namespace: dict[str, Any] = {"tf": tf, "nested": nested}
    exec(program.source, namespace)
    plain = namespace["program"]
    if program.kind != "inner gradient":
        return plain  # type: ignore[no-any-return]
    return lambda state, flag, *inputs: _differentiated(
        lambda *watched: plain(state, flag, *watched)
    )(*inputs)


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
    parts = [tf.reduce_mean(tf.sin(tf.cast(tf.math.real(one), tf.float64)))
             for one in made if one.dtype.is_floating or one.dtype.is_complex]  # fmt: skip
    return tf.add_n([tf.zeros([], tf.float64), *parts])


def _range(program: FuzzProgram, arguments: Arguments) -> tuple[int, int]:
    """Return the smallest limit, and the peak of the original, in bytes."""
    before = _Run(program, 10**13).function.report(*arguments).projected_peak_before
    try:
        _Run(program, 1).function.report(*arguments)
    except tf_exla.MemoryLimitError as error:
        return error.smallest_limit, before
    raise AssertionError("one byte was enough")


def _nudged(tensor: tf.Tensor) -> tf.Tensor:
    units = _UNITS.get(tensor.dtype.name)
    if units is None:
        return tensor
    noise = np.random.default_rng(11).uniform(1.0, 4.0, tensor.shape)
    return tensor * tf.cast(1.0 + 4.0 * units * noise, tensor.dtype)


def _difference(want: Any, got: Any, near: Any, exact: bool) -> str:
    """Return in words how two results differ by more than is allowed; empty where they do not."""
    if want.shape != got.shape or want.dtype != got.dtype:
        return f"{got.dtype}{got.shape} instead of {want.dtype}{want.shape}"
    kind = str(want.dtype)
    if exact or kind not in _UNITS:
        if want.tobytes() == got.tobytes():
            return ""
        return f"{int(np.sum(want != got))} of {want.size} elements differ, none may"
    wide = np.complex128 if kind.startswith("complex") else np.float64
    want, got, near = (one.astype(wide) for one in (want, got, near))
    if not np.array_equal(np.isfinite(want), np.isfinite(got)):
        return f"{int(np.sum(np.isfinite(want) != np.isfinite(got)))} elements are not finite"
    finite = np.isfinite(want) & np.isfinite(near)
    scale = float(np.max(np.abs(want), initial=0.0, where=finite)) + 1.0
    floor = _UNITS[kind] * (_SHORT_FLOOR_UNITS if "16" in kind else _FLOOR_UNITS)
    moved = float(np.max(np.abs(near - want), initial=0.0, where=finite))
    worst = float(np.max(np.abs(got - want), initial=0.0, where=finite))
    allowed = AMPLIFICATION * moved + floor * scale
    return "" if worst <= allowed else f"they differ by {worst:.3g}, {allowed:.3g} is allowed"
