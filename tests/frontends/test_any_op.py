"""No public op of TensorFlow makes a program fail, and none gives other numbers.

Each program runs whole under a limit that is no limit, with every tensor split that can be, on
constants, beside what is split at the smallest limit, and under a tape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from frontends.any_ops import PROGRAMS

import tf_exla

# Some have results of a size that nothing bounds.
optimize = partial(tf_exla.optimize, unbounded="warn", strict=True)
LARGE = 10**10
GROUPS = 8
POINTS = tf.constant(np.random.default_rng(0).normal(size=[301, 3]))
# Sums and vectorized code of chunks; short floats have two to three digits.
TOLERANCE = {"float32": 2e-5, "float64": 1e-11, "complex64": 2e-5, "complex128": 1e-11}


def flat(results: Any) -> list[tf.Tensor]:
    return tf.nest.flatten(results, expand_composites=True)


def check(found: Any, expected: Any) -> None:
    for left, right in zip(flat(found), flat(expected), strict=True):
        assert left.dtype == right.dtype
        assert left.shape == right.shape
        if left.dtype.is_quantized:
            left, right = (tf.cast(tensor, tf.int32) for tensor in (left, right))
        if left.dtype.is_floating or left.dtype.is_complex:
            tolerance = TOLERANCE.get(left.dtype.name, 1e-2)
            wide = [np.asarray(tensor.numpy(), np.complex128) for tensor in (left, right)]
            np.testing.assert_allclose(*wide, tolerance, tolerance)
        else:
            np.testing.assert_array_equal(left, right)


def gradients(function: Callable[..., Any], arguments: Sequence[Any]) -> list[Any]:
    """The gradients of all floating-point results by all arguments."""
    with tf.GradientTape() as tape:
        tape.watch(arguments)
        made = [y for y in flat(function(*arguments)) if y.dtype.is_floating]
    found = tape.gradient(made, arguments, unconnected_gradients="zero") if made else []
    return [tf.convert_to_tensor(tensor) for tensor in found]


@pytest.mark.one_of(3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_any_op(name: str) -> None:
    function, arguments = PROGRAMS[name]
    expected = tf.function(function)(*arguments)
    check(optimize(function, LARGE)(*arguments), expected)
    check(optimize(lambda: function(*arguments), LARGE)(), expected)
    check(optimize(function, LARGE, tensor_size_threshold=1)(*arguments), expected)


@pytest.mark.one_of(4)
@pytest.mark.parametrize("group", range(GROUPS))
def test_beside_what_is_split(group: int) -> None:
    """Several programs in one, at the smallest limit."""
    chosen = list(PROGRAMS.values())[group::GROUPS]

    def program(points: tf.Tensor, *arguments: Any) -> Any:
        pairs = tf.reduce_sum(tf.square(points[:, None] - points[None]), 2)
        rows = tf.reduce_sum(tf.exp(-pairs), 1)
        return rows, [fn(*args) for (fn, _), args in zip(chosen, arguments, strict=True)]

    arguments = [list(args) for _, args in chosen]
    with pytest.raises(tf_exla.MemoryLimitError) as info:
        optimize(program, 1).report(POINTS, *arguments)
    optimized = optimize(program, info.value.smallest_limit)
    check(optimized(POINTS, *arguments), tf.function(program)(POINTS, *arguments))


DIFFERENTIABLE = [
    name for name, (_, arguments) in PROGRAMS.items() if all(x.dtype.is_floating for x in arguments)
]


@pytest.mark.one_of(3, 1)
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_under_a_tape(name: str) -> None:
    function, arguments = PROGRAMS[name]
    try:
        expected = gradients(tf.function(function), arguments)
    except LookupError:  # it has no gradient
        return
    check(gradients(optimize(function, LARGE), arguments), expected)
