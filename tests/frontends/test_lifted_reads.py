"""Reads of variables that move out of loops, and those that must not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

import tf_exla
from tf_exla.frontends.tf.capture import capture
from tf_exla.ir.graph import Graph


def reads(graph: Graph) -> tuple[int, int]:
    """Count the reads of variables in a graph itself, and those in its loops."""
    own = sum(node.op == "read_variable" for node in graph.nodes)
    subs = [reads(sub) for node in graph.nodes for _, sub in node.subgraphs]
    return own, sum(map(sum, subs))


def repeat(body: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
    start = (tf.constant(0), tf.constant(1.0, tf.float64))
    loop = lambda i, total: (i + 1, body(total))  # noqa: E731
    return tf.while_loop(lambda i, total: i < 3, loop, start)[1]


class Programs(tf.Module):
    """Each returns a number and leaves the variables changed; `start` sets them."""

    def __init__(self) -> None:
        self.v = tf.Variable(2.0, dtype=tf.float64)
        self.w = tf.Variable(3.0, dtype=tf.float64)

    def start(self) -> None:
        self.v.assign(2.0)
        self.w.assign(3.0)

    def written_around(self) -> tf.Tensor:
        self.v.assign_add(1.0)
        found = repeat(lambda total: total * self.v)
        self.v.assign_add(found)
        return found + repeat(lambda total: total * self.v)

    def nested(self) -> tf.Tensor:
        self.v.assign_add(1.0)
        return repeat(lambda total: total + repeat(lambda inner: inner * self.v))

    def written_inside(self) -> tf.Tensor:
        def body(total: tf.Tensor) -> tf.Tensor:
            self.v.assign_add(total)
            return total * self.v

        return repeat(body)

    def another_is_written_inside(self) -> tf.Tensor:
        def body(total: tf.Tensor) -> tf.Tensor:
            self.w.assign_add(total)
            return total * self.v

        self.v.assign_add(1.0)
        return repeat(body) + self.w

    def written_by_python(self) -> tf.Tensor:
        def effect(total: tf.Tensor) -> tf.Tensor:
            self.v.assign_add(total)
            return total

        def body(total: tf.Tensor) -> tf.Tensor:
            read = total * self.v
            return tf.ensure_shape(tf.py_function(effect, [read], tf.float64), [])

        self.v.assign_add(1.0)
        return repeat(body)


LIFTED = ("written_around", "nested")
WHOLE = ("written_inside", "another_is_written_inside", "written_by_python")


@pytest.mark.parametrize("name", LIFTED + WHOLE)
def test_same_numbers_and_variables(name: str) -> None:
    found: list[Any] = []
    for optimized in (False, True):
        module = Programs()
        function = tf.function(getattr(module, name), autograph=False)
        if optimized:
            _, inside = reads(capture(function.get_concrete_function()).graph)
            assert (inside == 0) == (name in LIFTED)
            function = tf_exla.optimize(function, "1GB", strict=True)
        for _ in range(2):
            module.start()
            found.append((float(function()), float(module.v), float(module.w)))
    assert len(set(found)) == 1
