"""Programs of equal parts: copies of a program, layers, heads, members of an ensemble.

Several parts then have the same peak, and a step of the search that splits one of them does not
lower it. Most programs are only planned.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
import tensorflow as tf
from control_flow_programs import PROGRAMS as CONTROL_FLOW
from programs import normal, rbf, with_gradients
from programs_check import ALL, difference

import tf_exla

Function = Callable[..., Any]
Made = tuple[Function, Sequence[Any]]
N = 1201


def copies(made: Made, times: int) -> Made:
    """Return a function that does the same to each of several sets of arguments."""
    function, arguments = made
    count = len(arguments)

    def repeated(*given: Any) -> Any:
        return [function(*given[count * k : count * (k + 1)]) for k in range(times)]

    return repeated, [tf.identity(one) for _ in range(times) for one in arguments]


class Smallest(NamedTuple):
    limit: int
    least: int  # bytes of any plan: arguments, results
    before: int


def smallest_of(made: Made) -> Smallest:
    function, arguments = made
    stock = tf.function(function, autograph=False)
    results = stock.get_concrete_function(*arguments).graph.outputs
    outputs = sum(one.shape.num_elements() * one.dtype.size for one in results)
    with pytest.raises(tf_exla.MemoryLimitError) as caught:
        tf_exla.explain(stock, *arguments, limit=1)
    error = caught.value
    return Smallest(error.smallest_limit, error.resident + outputs, error.projected_peak)


NODES = 1.1
"""Allowed factor, since more nodes are counted for the whole run."""
SMALL = 4
"""Number of tensors, as small as arguments and results, that a part leaves while another runs."""


def is_bounded(one: Smallest, several: Smallest) -> bool:
    """Return whether several parts need no more than one, except for small tensors."""
    first, all_ = one.limit - one.least, several.limit - several.least
    return all_ <= NODES * first + one.least + SMALL * (several.least - one.least)


TABLES = {
    **{name: case.make for name, case in ALL.items()},
    **{f"control flow: {name}": make for name, (make, *_) in CONTROL_FLOW.items()},
}
PLANNED = tuple(TABLES) if "TF_EXLA_FULL" in os.environ else ("K(X, X) v", "K K v")
"""With TF_EXLA_FULL=1 all programs, which takes an hour."""


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", PLANNED)
def test_copies_need_no_more_than_one(name: str) -> None:
    made = TABLES[name]()
    one = smallest_of(made)
    for times in (2, 5):
        repeated = copies(made, times)
        several = smallest_of(repeated)
        assert is_bounded(one, several), times
        for limit in (several.limit, (several.limit + several.before) // 2):
            assert tf_exla.explain(*_flat(repeated), limit=limit).projected_peak <= limit


def _flat(made: Made) -> tuple[Any, ...]:
    return made[0], *made[1]


# Programs of equal parts of one kind each.


def kernel_means(times: int) -> Made:
    def function(*points: tf.Tensor) -> tf.Tensor:
        return tf.add_n([tf.reduce_mean(rbf(x, x)) for x in points])

    return function, [normal(N, 3, seed=k) for k in range(times)]


def gradients(times: int) -> Made:
    function, arguments = kernel_means(times)
    return with_gradients(function), arguments


def matvecs_in_turn(times: int) -> Made:
    def function(v: tf.Tensor, *points: tf.Tensor) -> tf.Tensor:
        for x in points:
            v = tf.tanh(tf.matmul(rbf(x, x), v))
        return v

    return function, [normal(N, 1), *(normal(N, 3, seed=k) for k in range(times))]


def attention_layers(times: int) -> Made:
    def function(x: tf.Tensor, *weights: tf.Tensor) -> tf.Tensor:
        for w in weights:
            q = tf.matmul(x, w)
            x += tf.matmul(tf.nn.softmax(tf.matmul(q, x, transpose_b=True)), x)
        return x

    return function, [0.3 * normal(N, 8), *(normal(8, 8, seed=k) for k in range(times))]


def heads(times: int) -> Made:
    """All scores are computed before all results, so that they are alive together."""

    def function(x: tf.Tensor, *weights: tf.Tensor) -> tf.Tensor:
        scores = [tf.matmul(tf.matmul(x, w), x, transpose_b=True) for w in weights]
        return tf.concat([tf.matmul(tf.nn.softmax(one), x) for one in scores], 1)

    return function, [0.3 * normal(N, 8), *(normal(8, 8, seed=k) for k in range(times))]


def ensemble(times: int) -> Made:
    def function(x: tf.Tensor, *weights: tf.Tensor) -> tf.Tensor:
        pairs = zip(weights[::2], weights[1::2], strict=True)
        members = [tf.matmul(tf.nn.relu(tf.matmul(x, a)), b) for a, b in pairs]
        return tf.add_n([tf.reduce_mean(tf.square(one)) for one in members])

    weights = [normal(*shape, seed=k) for k in range(times) for shape in ((8, 300), (300, 1))]
    return with_gradients(function), [normal(10_007, 8), *weights]


def loops(times: int) -> Made:
    """Each While has a kernel matrix in its body."""

    def function(v: tf.Tensor, *points: tf.Tensor) -> Any:
        def settled(x: tf.Tensor) -> tf.Tensor:
            step = lambda i, w: (i + 1, tf.tanh(tf.matmul(rbf(x + w, x), w)))  # noqa: E731
            return tf.while_loop(lambda i, _: i < 3, step, (tf.constant(0), v))[1]

        return [settled(x) for x in points]

    return function, [normal(N, 1), *(normal(N, 3, seed=k) for k in range(times))]


def two_in_a_loop(times: int) -> Made:
    """One While with several kernel matrices in its body."""

    def function(v: tf.Tensor, *points: tf.Tensor) -> Any:
        def step(i: tf.Tensor, w: tf.Tensor) -> Any:
            return i + 1, tf.add_n([tf.tanh(tf.matmul(rbf(x + w, x), w)) for x in points])

        return tf.while_loop(lambda i, _: i < 3, step, (tf.constant(0), v))[1]

    return function, [normal(N, 1), *(normal(N, 3, seed=k) for k in range(times))]


def branches(times: int) -> Made:
    def function(v: tf.Tensor, *points: tf.Tensor) -> Any:
        product = lambda x, s: tf.reduce_sum(tf.matmul(rbf(x, x, s), v))  # noqa: E731
        return tf.add_n(
            [
                tf.cond(tf.reduce_sum(x) > 0, lambda: product(x, 1.0), lambda: product(x, 2.0))  # noqa: B023
                for x in points
            ]
        )

    return function, [normal(N, 1), *(normal(N, 3, seed=k) for k in range(times))]


PARTS: dict[str, Callable[[int], Made]] = {
    one.__name__: one
    for one in (
        kernel_means, gradients, matvecs_in_turn, attention_layers, heads, ensemble, loops,
        two_in_a_loop, branches,
    )
}  # fmt: skip


@pytest.mark.one_of(3)
@pytest.mark.parametrize("name", PARTS)
def test_equal_parts(name: str) -> None:
    one, several = (smallest_of(PARTS[name](times)) for times in (1, 4))
    assert is_bounded(one, several)
    function, arguments = made = PARTS[name](2)
    two = smallest_of(made)
    expected = tf.function(function, autograph=False)(*arguments)
    for limit in (two.limit, (4 * two.limit + two.before) // 5):
        optimized = tf_exla.optimize(function, limit)
        assert optimized.report(*arguments).projected_peak <= limit
        assert difference(expected, optimized(*arguments), 1e-7) <= 1
