"""Each reader of a large tensor gets its own; what the function returns stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from rewriting.rewritten import OPS

from tf_exla.frontends.tf.capture import capture
from tf_exla.frontends.tf.restore import restore
from tf_exla.ir.check import check_graph
from tf_exla.moves.unsharing import unshare


def returned(x: tf.Tensor) -> Any:
    """A large tensor that is made of another one, and read along both axes, is an output."""
    differences = x[:, None] - x[None]
    made = tf.tanh(differences)
    return made, tf.matmul(tf.nn.softplus(made), made), tf.reduce_sum(differences, 0)


def inside(x: tf.Tensor) -> Any:
    """What is read along both axes is lost."""
    made = tf.tanh(x[:, None] - x[None])
    return tf.matmul(made, x[:, None]), tf.reduce_max(made, 0)


@pytest.mark.parametrize("fn", [returned, inside])
def test_numbers_stay(fn: Any) -> None:
    x = tf.constant(np.random.default_rng(0).standard_normal(60))
    concrete = tf.function(fn, autograph=False).get_concrete_function(x)
    captured = capture(concrete)
    graph = unshare(captured.graph, OPS, 1 << 10)
    assert graph is not captured.graph
    check_graph(graph, captured.graph)
    assert len(graph.nodes) > len(captured.graph.nodes)
    made = restore(graph, like=concrete.graph.inputs, keep=captured.functions)([x])
    for got, want in zip(tf.nest.flatten(made), tf.nest.flatten(fn(x)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


def test_what_is_compared_with_its_maximum_is_one() -> None:
    """The last bits of two copies differ: what was the largest would not be found again."""

    def fn(x: tf.Tensor) -> Any:
        made = tf.tanh(x[:, None] - x[None])
        hits = tf.cast(tf.equal(made, tf.reduce_max(made, 0)), x.dtype)
        return tf.reduce_sum(hits, 1)

    concrete = tf.function(fn, autograph=False).get_concrete_function(tf.zeros(60, tf.float64))
    graph = capture(concrete).graph
    assert [node.op for node in unshare(graph, OPS, 1 << 10).nodes].count("tanh") == 1
