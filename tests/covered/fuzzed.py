"""Which ops the rows of the fuzz table draw, with their gradients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tf_exla.fuzz.check import build
from tf_exla.fuzz.plain import draw_inputs
from tf_exla.fuzz.programs import FuzzProgram
from tf_exla.fuzz.table import FAMILIES
from tf_exla.fuzz.table.row import Row
from tf_exla.fuzz.values import Pool, Shape, Step, Value

DATA = Path(__file__).with_name("fuzzed.json")
DTYPES = ("float32", "float64", "complex64", "int32")
SIZES = ((), (1, 4), (2, 6, 3), (6, 6), (24, 3), (6,), (64,), (64, 4))


def drawn_ops(names: list[str]) -> list[str]:
    """Return the ops of `names` in graphs of each row's expressions; run in a fresh process."""
    found: set[str] = set()
    for program in _programs():
        flag, state = tf.Variable(True), tf.Variable(0.75, dtype=tf.float64)
        plain = build(program)
        call = tf.function(lambda *inputs, p=plain, s=state, f=flag: p(s, f, *inputs),
                           autograph=False)  # fmt: skip
        try:
            graph = call.get_concrete_function(*draw_inputs(program.inputs)).graph.as_graph_def()
        except Exception:
            continue  # no gradient in this dtype
        found.update(node.op for node in graph.node)
        found.update(node.op for one in graph.library.function for node in one.node_def)
    return [name for name in names if name in found]


def _programs() -> Iterator[FuzzProgram]:
    for rows in FAMILIES.values():
        for dtype in DTYPES:
            inputs = tuple((size, one) for one in (dtype, "bool") for size in SIZES)
            names = ", ".join(f"x{k}" for k in range(len(inputs)))
            for step in _steps(rows, inputs):
                source = f"def program(state, flag, {names}):\n    return [{step.code}]\n"
                for kind in ("values", "inner gradient"):
                    yield FuzzProgram(source, inputs, (step.exact,), kind)


def _steps(rows: Sequence[Row], inputs: tuple[tuple[Shape, str], ...]) -> list[Step]:
    """Return a step of each row that takes such inputs."""
    lines: dict[int, Step] = {}

    @given(st.data())
    @settings(
        max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    def draw_lines(data: st.DataObject) -> None:
        for k, row in enumerate(rows):
            values = [Value(f"x{i}", *one, True) for i, one in enumerate(inputs)]
            step = row(data.draw, Pool(values))
            if step is not None:
                lines.setdefault(k, step)

    draw_lines()
    return list(lines.values())
