"""Whiles of few iterations are written out: the same numbers, no loop, no list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from programs import normal, with_gradients

import tf_exla
from tf_exla.frontends.tf.capture import capture
from tf_exla.frontends.tf.op_set import TensorFlowOps
from tf_exla.frontends.tf.restore import restore
from tf_exla.ir.check import check_graph
from tf_exla.ir.clean import clean
from tf_exla.ir.graph import Graph
from tf_exla.model.settings import SETTINGS
from tf_exla.moves.user_loops.iterations import write_iterations

OPS = TensorFlowOps()
Function = Callable[..., Any]


def kernel(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.exp(-0.5 * tf.reduce_sum(tf.square(x[:, None] - y[None]), -1))


def mapped(x: tf.Tensor, scales: tf.Tensor) -> tf.Tensor:
    return tf.map_fn(lambda s: tf.reduce_sum(kernel(x * s, x), 1), scales)


def several(x: tf.Tensor, scales: tf.Tensor) -> Any:
    """Two lists are read, two are written."""
    signature = (tf.TensorSpec([], x.dtype), tf.TensorSpec([None], x.dtype))
    return tf.map_fn(
        lambda pair: (tf.reduce_sum(pair[0]), pair[1] * x[:, 0]),
        (scales, tf.sqrt(scales)),
        fn_output_signature=signature,
    )


def scanned(x: tf.Tensor, scales: tf.Tensor) -> tf.Tensor:
    return tf.scan(lambda v, s: tf.tanh(kernel(x, x) @ v * s), scales, x)


def folded(x: tf.Tensor, scales: tf.Tensor) -> tf.Tensor:
    return tf.foldl(lambda v, s: tf.tanh(kernel(x, x) @ v * s), scales, x)


def counted(x: tf.Tensor, scales: tf.Tensor) -> tf.Tensor:
    """No list at all; the condition is a conjunction, the counter falls."""
    return tf.while_loop(
        lambda i, v: tf.logical_and(i > 0, i <= 100),
        lambda i, v: (i - 2, tf.sin(kernel(x, x) @ v) * tf.cast(i, x.dtype)),
        (tf.constant(5), x),
    )[1]


def after(x: tf.Tensor, scales: tf.Tensor) -> tf.Tensor:
    """What one loop counts, another one asks for."""
    first = tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v + x), (0, x))
    return tf.while_loop(lambda i, v: i < first[0] + 1, lambda i, v: (i + 1, v * x), (0, first[1]))


def half_written(x: tf.Tensor, scales: tf.Tensor) -> tf.Tensor:
    """Places that nothing is written to are zeros."""
    array = tf.TensorArray(x.dtype, 6, element_shape=x.shape)
    return tf.while_loop(
        lambda i, a: i < 3, lambda i, a: (i + 1, a.write(2 * i, x * scales[0])), (0, array)
    )[1].stack()


def nested(x: tf.Tensor, scales: tf.Tensor) -> tf.Tensor:
    return tf.map_fn(lambda a: tf.map_fn(lambda b: kernel(a * x, b * x) @ x, scales), scales[:2])


WRITTEN: dict[str, Function] = {
    "mapped": mapped,
    "several": several,
    "scanned": scanned,
    "folded": folded,
    "counted": counted,
    "after": after,
    "half written": half_written,
    "nested": nested,
    "one": lambda x, scales: mapped(x, scales[:1]),
    **{
        f"gradient, {name}": with_gradients(function)
        for name, function in {
            "mapped": lambda x, s: tf.reduce_sum(tf.sin(mapped(x, s))),
            "several": lambda x, s: tf.add_n([tf.reduce_sum(tf.sin(y)) for y in several(x, s)]),
            "scanned": lambda x, s: tf.reduce_sum(scanned(x, s) * x),
            "folded": lambda x, s: tf.reduce_sum(folded(x, s) * x),
            "counted": lambda x, s: tf.reduce_sum(counted(x, s)),
            "half written": lambda x, s: tf.reduce_sum(tf.exp(half_written(x, s))),
            "nested": lambda x, s: tf.reduce_sum(tf.square(nested(x, s))),
        }.items()
    },
}
STAY: dict[str, Function] = {
    "many iterations": lambda x, s: tf.map_fn(
        lambda row: tf.reduce_sum(row * x), tf.tile(x, [2, 1])
    ),
    "as often as data say": lambda x, s: tf.while_loop(
        lambda v: tf.reduce_sum(v) < 1e3, lambda v: 2 * v + 1, (x,)
    ),
    "a choice inside": lambda x, s: tf.map_fn(
        lambda one: tf.cond(one > 1, lambda: x * one, lambda: x), s
    ),
    "an effect inside": lambda x, s: tf.while_loop(
        lambda i, v: i < 2, lambda i, v: (i + 1, shown(v)), (0, x)
    ),
}


def shown(v: tf.Tensor) -> tf.Tensor:
    tf.debugging.assert_less(v, tf.constant(1e6, v.dtype))
    return 2 * v


def graph_of(function: Function, *arguments: tf.Tensor) -> tuple[Graph, Any]:
    captured = capture(tf.function(function, autograph=False).get_concrete_function(*arguments))
    return clean(captured.graph, OPS), captured.constants


X, SCALES = normal(37, 2), tf.constant([0.7, 1.1, 1.3], tf.float64)


@pytest.mark.parametrize("name", WRITTEN)
def test_written_out(name: str) -> None:
    before, constants = graph_of(WRITTEN[name], X, SCALES)
    after = write_iterations(before, OPS)
    check_graph(after, before)
    assert not any(node.op == "while" or node.op.startswith("list") for node in after.nodes)
    found = restore(clean(after, OPS))([X, SCALES, *constants])
    expected = [one for one in tf.nest.flatten(WRITTEN[name](X, SCALES)) if one is not None]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", STAY)
def test_what_stays(name: str) -> None:
    before, _ = graph_of(STAY[name], X, SCALES)
    assert write_iterations(before, OPS) is before


def test_a_constant_of_the_body_is_there_once() -> None:
    matrix = np.random.default_rng(0).normal(size=(2, 2))

    def function(x: tf.Tensor) -> tf.Tensor:
        return tf.while_loop(
            lambda i, v: i < 9, lambda i, v: (i + 1, tf.tanh(v @ tf.constant(matrix))), (0, x)
        )[1]

    before, _ = graph_of(function, X)
    after = write_iterations(before, OPS)
    shapes = [node.output.shape for node in after.nodes if node.op == "constant"]
    assert shapes.count((2, 2)) == 1
    assert sum(node.op == "matmul" for node in after.nodes) == 9


def test_a_list_that_a_loop_reads_stays() -> None:
    """The second loop runs too often; so the first one's list, which it reads, is made."""

    def function(x: tf.Tensor, scales: tf.Tensor) -> tf.Tensor:
        array = tf.TensorArray(x.dtype, 3, element_shape=x.shape, clear_after_read=False)
        array = tf.while_loop(
            lambda i, a: i < 3, lambda i, a: (i + 1, a.write(i, x * scales[i])), (0, array)
        )[1]
        often = SETTINGS.written_iterations + 1
        return tf.while_loop(
            lambda i, v: i < often, lambda i, v: (i + 1, v + array.read(i % 3)), (0, x)
        )[1]

    before, _ = graph_of(function, X, SCALES)
    assert write_iterations(before, OPS) is before


def test_gradients_of_maps_over_few_are_split() -> None:
    """Sums over rows are partial sums of a chunk: no list of a loop could hold them."""
    function = with_gradients(lambda x, s: tf.reduce_sum(tf.square(mapped(x, s))))
    x = normal(701, 2)
    stock = tf.function(function, autograph=False)
    report = tf_exla.explain(stock, x, SCALES, limit=10**9)
    limit = report.projected_peak_before // 10
    optimized = tf_exla.optimize(stock, limit, strict=True)
    assert "iterations written out" in optimized.report(x, SCALES).details()
    for one, other in zip(
        tf.nest.flatten(optimized(x, SCALES)), tf.nest.flatten(stock(x, SCALES)), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_what_the_last_iteration_computed_is_split() -> None:
    """Distances of the last step of Lloyd's algorithm are read after the loop."""

    def function(x: tf.Tensor) -> Any:
        def step(i: tf.Tensor, centres: tf.Tensor, _: tf.Tensor) -> Any:
            distances = tf.reduce_sum(x**2, 1)[:, None] - 2 * x @ tf.transpose(centres)
            distances += tf.reduce_sum(centres**2, 1)
            nearest = tf.argmin(distances, 1)
            ones = tf.ones_like(x[:, :1])
            count = tf.math.unsorted_segment_sum(ones, nearest, 50)
            sums = tf.math.unsorted_segment_sum(x, nearest, 50)
            return i + 1, sums / tf.maximum(count, 1.0), distances

        start = 0, x[:50], tf.zeros([x.shape[0], 50], x.dtype)
        _, centres, distances = tf.while_loop(lambda i, c, d: i < 20, step, start)
        return centres, tf.reduce_mean(tf.reduce_min(distances, 1))

    x = normal(5003, 4)
    stock = tf.function(function, autograph=False)
    limit = tf_exla.explain(stock, x, limit=10**9).projected_peak_before // 4
    optimized = tf_exla.optimize(stock, limit, strict=True)
    for one, other in zip(optimized(x), stock(x), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)
