"""Programs whose large tensors live in, before and after loops and branches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from programs import normal, rbf

Program = tuple[Callable[..., Any], Sequence[Any]]
X, V = normal(1201, 3), normal(1201, 1)


def repeat(times: int, step: Callable[..., Any], start: Any) -> Any:
    return tf.while_loop(lambda i, *_: i < times, step, (tf.constant(0), start))[1]


def used_after() -> Program:
    """K in the loop and after it."""

    def function(x: tf.Tensor, v: tf.Tensor) -> Any:
        k = rbf(x, x)
        w = repeat(3, lambda i, w: (i + 1, tf.tanh(tf.matmul(k, w))), v)
        return w, tf.reduce_sum(k, 0), tf.matmul(k, w)

    return function, (X, V)


def passed_out() -> Program:
    """K is a loop variable that no iteration changes, and its value is read after the loop."""

    def function(x: tf.Tensor, v: tf.Tensor) -> Any:
        k = rbf(x, x)
        start = (tf.constant(0), k, v)
        after = tf.while_loop(
            lambda i, k, w: i < 3, lambda i, k, w: (i + 1, k, tf.tanh(tf.matmul(k, w))), start
        )
        return tf.reduce_sum(after[1], 1), after[2]

    return function, (X, V)


def nested() -> Program:
    """A loop in a loop; K is the same in both."""

    def function(x: tf.Tensor, v: tf.Tensor) -> Any:
        k = rbf(x, x)

        def outer(i: tf.Tensor, w: tf.Tensor) -> Any:
            return i + 1, repeat(2, lambda j, u: (j + 1, tf.tanh(tf.matmul(k, u))), w)

        return repeat(2, outer, v)

    return function, (X, V)


def changing() -> Program:
    """Another K in each iteration; it exists in the body only."""

    def function(x: tf.Tensor, v: tf.Tensor) -> Any:
        def step(i: tf.Tensor, w: tf.Tensor) -> Any:
            k = rbf(x, x, 1.0 + tf.cast(i, x.dtype))
            return i + 1, tf.tanh(tf.matmul(k, w))

        return repeat(3, step, v)

    return function, (X, V)


def two_kernels() -> Program:
    """Two loops, one kernel each; the second starts from the result of the first."""

    def function(x: tf.Tensor, v: tf.Tensor) -> Any:
        k = rbf(x, x)
        w = repeat(2, lambda i, w: (i + 1, tf.tanh(tf.matmul(k, w))), v)
        m = rbf(x + w, x)
        return repeat(2, lambda i, w: (i + 1, tf.tanh(tf.matmul(m, w))), w)

    return function, (X, V)


def in_condition() -> Program:
    """The condition reads a scalar computed from K."""

    def function(x: tf.Tensor, v: tf.Tensor) -> Any:
        k = rbf(x, x)
        bound = tf.reduce_sum(k) / 1e5
        return tf.while_loop(
            lambda i, w: tf.logical_and(i < 3, tf.reduce_sum(w) < 1e3 * bound),
            lambda i, w: (i + 1, tf.tanh(tf.matmul(k, w))),
            (tf.constant(0), v),
        )

    return function, (X, V)


def branches() -> Program:
    """A kernel in each branch."""

    def function(x: tf.Tensor, v: tf.Tensor) -> Any:
        return tf.cond(
            tf.reduce_sum(v) > 0,
            lambda: tf.matmul(rbf(x, x), v),
            lambda: tf.matmul(rbf(x, x, 2.0), v) + 1,
        )

    return function, (X, V)


def branch_in_loop() -> Program:
    """A branch in a loop that calls another `tf.function`."""
    inner = tf.function(lambda x, w: tf.matmul(rbf(x, x), w), autograph=False)

    def function(x: tf.Tensor, v: tf.Tensor) -> Any:
        def step(i: tf.Tensor, w: tf.Tensor) -> Any:
            return i + 1, tf.cond(i % 2 > 0, lambda: tf.tanh(inner(x, w)), lambda: -w)

        return repeat(4, step, v)

    return function, (X, V)


def switch() -> Program:
    """One of three kernels."""

    def function(x: tf.Tensor, v: tf.Tensor) -> Any:
        which = tf.cast(tf.reduce_sum(tf.abs(v)), tf.int32) % 3
        kernels = [lambda s=s: tf.matmul(rbf(x, x, s), v) for s in (0.5, 1.0, 2.0)]
        return tf.switch_case(which, kernels)

    return function, (X, V)


def around_branches() -> Program:
    """Large sums before and after branches, which also return an existing tensor."""

    def function(x: tf.Tensor, v: tf.Tensor) -> Any:
        before = tf.matmul(rbf(x, 3 * x), v)
        chosen = tf.cond(
            before[0, 0] > -1e9,
            lambda: (v, tf.reduce_sum(rbf(x, 2 * x), 1)),
            lambda: (v, x[:, 0]),
        )
        return before, chosen, tf.reduce_sum(rbf(4 * x, x), 0)

    return function, (X, V)


def before_branches() -> Program:
    """Two branches that use one matrix."""

    def function(x: tf.Tensor, v: tf.Tensor) -> Any:
        k = rbf(x, 3 * x)
        return tf.reduce_sum(k, 0), tf.cond(
            tf.reduce_sum(v) > 0,
            lambda: tf.matmul(k, v),
            lambda: tf.matmul(tf.square(k), v),
        )

    return function, (X, V)


def with_variable() -> Program:
    """The lengthscale of K is a variable, and the loop writes another one."""
    lengthscale, count = tf.Variable(1.5, dtype=tf.float64), tf.Variable(0, dtype=tf.int64)

    def function(x: tf.Tensor, v: tf.Tensor) -> Any:
        k = rbf(x, x, lengthscale)
        count.assign(0)

        def step(i: tf.Tensor, w: tf.Tensor) -> Any:
            count.assign_add(1)
            return i + 1, tf.tanh(tf.matmul(k, w))

        w = repeat(3, step, v)
        return w, count.read_value()

    return function, (X, V)


def graded(loss: Callable[..., tf.Tensor]) -> Program:
    """The gradient of a loss of x and v."""

    def function(x: tf.Tensor, v: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, v])
            value = loss(x, v)
        return value, tape.gradient(value, [x, v])

    return function, (X, V)


def _product(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    return tf.matmul(rbf(x, x), v)


def _rational(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    return tf.matmul(1.0 / (2.0 - rbf(x, x)), v)


def gradient_of_branches() -> Program:
    """The gradient of a choice is a choice, which reads what the first one computed."""

    def loss(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        taken = tf.reduce_sum(v) > -1e9
        made = tf.cond(taken, lambda: _product(x, v), lambda: _rational(x, v))
        return tf.reduce_sum(tf.square(made))

    return graded(loss)


def gradient_of_switch() -> Program:
    """Branches that return two results, of which the loss reads one twice."""

    def loss(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        number = tf.cast(tf.reduce_sum(v) < -1e9, tf.int32) + 1
        makers = (_rational, _product, lambda x, v: v)
        made, scale = tf.switch_case(
            number, [lambda f=f: (f(x, v), tf.reduce_sum(x)) for f in makers]
        )
        return tf.reduce_sum(made * scale + tf.square(made))

    return graded(loss)


def gradient_of_nested_branches() -> Program:
    """A choice in a choice, whose gradients are nested as well."""

    def loss(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        taken = tf.reduce_sum(v) > -1e9

        def inner() -> tf.Tensor:
            other = tf.reduce_sum(x) > 1e9
            return tf.sin(tf.cond(other, lambda: _rational(x, v), lambda: _product(x, v)))

        return tf.reduce_sum(tf.cond(taken, inner, lambda: _rational(x, v)))

    return graded(loss)


def solved(loss: Callable[..., tf.Tensor]) -> Program:
    """The gradient of a loss of x, v and a product with the inverse of K."""

    def function(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        k = rbf(x, x) + 99 * tf.eye(x.shape[0], dtype=x.dtype)

        def step(w: tf.Tensor, r: tf.Tensor, p: tf.Tensor, size: tf.Tensor) -> Any:
            q = tf.matmul(k, p)
            rate = size / tf.reduce_sum(p * q)
            r = r - rate * q
            after = tf.reduce_sum(tf.square(r))
            return w + rate * p, r, r + after / size * p, after

        start = tf.zeros_like(v), v, v, tf.reduce_sum(tf.square(v))
        found = tf.while_loop(lambda *now: now[-1] > 1e-8, step, start, maximum_iterations=20)
        return loss(x, v, found[0])

    return graded(function)


def gradient_of_a_solver() -> Program:
    """Conjugate gradients until a tolerance; each step of their gradient adds to that of K."""
    return solved(lambda x, v, w: tf.reduce_sum(v * w))


def gradient_of_a_solver_and_a_product() -> Program:
    """The gradient of K has a product besides the sum over the steps."""
    return solved(lambda x, v, w: tf.reduce_sum(tf.sin(tf.matmul(rbf(x, x), w))))


PROGRAMS: dict[str, tuple[Callable[[], Program], float]] = {
    "used after": (used_after, 8),
    "passed out": (passed_out, 8),
    "nested": (nested, 8),
    "changing": (changing, 8),
    "two kernels": (two_kernels, 8),
    "in condition": (in_condition, 8),
    "branches": (branches, 8),
    "around branches": (around_branches, 8),
    "before branches": (before_branches, 8),
    "branch in loop": (branch_in_loop, 8),
    "switch": (switch, 8),
    "with variable": (with_variable, 8),
    "gradient of branches": (gradient_of_branches, 40),
    "gradient of switch": (gradient_of_switch, 40),
    "gradient of nested branches": (gradient_of_nested_branches, 40),
    "gradient of a solver": (gradient_of_a_solver, 8),
    "gradient of a solver and a product": (gradient_of_a_solver_and_a_product, 8),
}
