"""Random programs as Python source, drawn by hypothesis, which can shrink them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hypothesis import assume
from hypothesis import strategies as st

from tf_exla.fuzz.table import FAMILIES
from tf_exla.fuzz.values import (
    ALL,
    FLOATS,
    INTEGERS,
    MOST_ELEMENTS,
    Draw,
    Pool,
    Shape,
    Value,
    count,
)

SIZES = (301, 512, 997)
"""Sizes of axes. The product of two is large."""
ODD_SIZES = (64, 7, 2, 1, 0)
WIDTHS = (3, 1, 8)
KINDS = ("values", "inner gradient", "outer gradient", "unknown sizes")
FEWEST_STEPS = 2
LARGE = (
    "tf.exp(-tf.square(tf.matmul(x0, x1, transpose_b=True)))",
    "tf.exp(-tf.reduce_mean(tf.square(x0[:, None] - x1[None]), -1))",
    "tf.tanh(x0[:, :1] - x2)",
)
"""Choices of the first line, whose result does not fit."""


@dataclass(frozen=True)
class FuzzProgram:
    """A program: `source` defines `program(state, flag, *inputs)`, which returns a list.

    `inputs`: shape and dtype of each argument. `exact`: which outputs have the same bits in every
    plan. `kind`: one of `KINDS`.
    """

    source: str
    inputs: tuple[tuple[Shape, str], ...]
    exact: tuple[bool, ...]
    kind: str


HELPERS = {
    "nested": "nested = tf.function(lambda x: tf.tanh(x) * tf.sin(x), autograph=False)",
    "image": """def image(x):  # [n, d] -> [n, 4, 4, d]
    waves = tf.reshape(tf.sin(tf.cast(tf.range(16), x.dtype)), [4, 4, 1])
    return tf.tanh(x[:, None, None] * waves)""",
    "gram": """def gram(x):  # [..., m, d] -> [..., m, m], symmetric positive definite
    identity = tf.eye(tf.shape(x)[-2], dtype=x.dtype)
    return tf.matmul(x, x, transpose_b=True) / tf.cast(tf.shape(x)[-1], x.dtype) + identity""",
    "rows": """sevens = iter(tf.data.Dataset.from_tensors(tf.fill([7, 3], 0.5)).repeat())
def rows():  # [7, 3], of known sizes
    return tf.stop_gradient(tf.cast(next(sevens), tf.float64))""",
    "batch": """fifties = iter(tf.data.Dataset.range(50).repeat().batch(50))
def batch():  # [50], of a size that the batch decides
    return tf.stop_gradient(tf.cast(next(fifties), tf.float64) / 50)""",
}
"""By name: functions that lines call in addition to TensorFlow's."""


def with_helpers(source: str) -> str:
    """Return the source of a program, preceded by the helpers that it calls."""
    named = [code for name, code in HELPERS.items() if re.search(rf"\b{name}\(", source)]
    return "\n".join([*named, source])


MOST_RANK = 5
MOST_RETURNED = 10_000
"""Elements of a result. A larger result is reduced, since a result must exist whole."""


def _reduced(value: Value) -> Value:
    """Return a value reduced over its first axis, as an expression: a sum or a mean."""
    if value.dtype == "bool" or value.dtype in INTEGERS:
        code = f"tf.reduce_sum(tf.cast({value.name}, tf.int64), 0)"
        return Value(code, value.shape[1:], "int64", value.exact)
    return Value(f"tf.reduce_mean({value.name}, 0)", value.shape[1:], value.dtype, False)


@st.composite
def programs(draw: Draw, most_steps: int = 9) -> FuzzProgram:
    """Draw a program of at most `most_steps` steps."""
    # Hypothesis begins with the simplest program, whatever the seed: reject it.
    assume(draw(st.integers(0, 1 << 16)))
    kind = draw(st.sampled_from(KINDS))
    main = draw(st.sampled_from(("float64", "float32", *FLOATS)))
    odd = draw(st.sampled_from((False, False, False, True)))
    n, m = (draw(st.sampled_from(ODD_SIZES if odd else SIZES)) for _ in range(2))
    d = draw(st.sampled_from(WIDTHS))
    shapes: list[tuple[Shape, str]] = [((n, d), main), ((m, d), main), ((m,), main)]
    if draw(st.booleans()):
        shapes.append(((n,), draw(st.sampled_from(ALL))))
    if draw(st.booleans()):
        shapes.append(((2, n, d), draw(st.sampled_from(ALL))))
    pool = Pool([Value(f"x{k}", shape, t, True) for k, (shape, t) in enumerate(shapes)])
    lines = [f"y0 = {draw(st.sampled_from(LARGE))}"]
    pool.values.append(Value("y0", (n, m), main, False))
    for _ in range(draw(st.integers(FEWEST_STEPS, most_steps))):
        family = FAMILIES[draw(st.sampled_from(sorted(FAMILIES)))]
        step = draw(st.sampled_from(family))(draw, pool)
        if step is None or count(step.shape) > MOST_ELEMENTS or len(step.shape) > MOST_RANK:
            continue
        name = f"y{len(lines)}"
        lines.append(f"{name} = {step.code}")
        pool.values.append(Value(name, step.shape, step.dtype, step.exact))
    assume(len(lines) >= FEWEST_STEPS)
    text = "\n".join(lines)
    # Every line counts: values that no other line reads are results, reduced if they are large.
    leaves = [
        value
        for value in pool.values
        if value.name.startswith("y") and len(re.findall(rf"\b{value.name}\b", text)) == 1
    ]
    outputs = [_reduced(value) if value.size > MOST_RETURNED else value for value in leaves]
    exact = tuple(value.exact for value in outputs)
    names = ", ".join(value.name for value in outputs)
    arguments = ", ".join(f"x{k}" for k in range(len(shapes)))
    body = "\n".join(f"    {line}" for line in lines)
    source = f"def program(state, flag, {arguments}):\n{body}\n    return [{names}]\n"
    return FuzzProgram(source, tuple(shapes), exact, kind)
