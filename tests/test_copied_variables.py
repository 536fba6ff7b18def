"""Variables that are read whole, and whose rows are gathered or scattered: no kernel copies them.

A gather or scatter by the handle of a variable copies the variable if a tensor that was read before
shares its buffer. From then on each read copies it, until `DisableCopyOnRead`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from fresh_process import run_fresh

import tf_exla
from tf_exla.frontends.tf.capture import capture
from tf_exla.frontends.tf.nodes.emit import DEVICE
from tf_exla.ir.traverse import walk

ROWS, WIDTH = 120_011, 64
Program = tuple[Callable[..., Any], list[Any]]


def looked_up() -> Program:
    """A table that also is the matrix of the last layer."""
    table = tf.Variable(np.random.default_rng(0).normal(size=(ROWS, WIDTH)).astype("float32"))
    places = tf.constant(np.random.default_rng(1).integers(0, ROWS, 300))

    def function() -> Any:
        rows = tf.nn.embedding_lookup(table, places)
        scores = tf.tanh(tf.matmul(rows, table, transpose_b=True))
        return tf.reduce_sum(scores, 1)

    return function, []


def scattered() -> Program:
    """Rows of a table are replaced by the step that reads all of it."""
    table = tf.Variable(np.random.default_rng(0).normal(size=(ROWS, WIDTH)).astype("float32"))
    places = tf.constant(np.random.default_rng(1).integers(0, ROWS, 300))

    def function(x: Any) -> Any:
        total = tf.reduce_sum(tf.tanh(tf.matmul(x, table, transpose_b=True)), 1)
        table.scatter_sub(tf.IndexedSlices(0.1 * x, places))
        return total

    return function, [tf.ones([300, WIDTH])]


def inside_a_choice() -> Program:
    """The table is read in a branch, and its rows in a loop."""
    table = tf.Variable(np.random.default_rng(0).normal(size=(ROWS, WIDTH)).astype("float32"))

    def function(x: Any, many: Any) -> Any:
        for k in tf.range(3):
            x += tf.gather(table, [7 * k])
        return tf.cond(
            many > 2,
            lambda: tf.reduce_sum(tf.tanh(tf.matmul(x, table, transpose_b=True)), 1),
            lambda: tf.zeros([300]),
        )

    return tf.autograph.to_graph(function), [tf.ones([300, WIDTH]), tf.constant(5)]


def many_rows() -> Program:
    """The rows of the update are many times as many as those of the table."""
    table = tf.Variable(tf.zeros([1_000, WIDTH]))
    places = tf.constant(np.random.default_rng(1).integers(0, 1_000, 60_000))

    def function(x: Any) -> Any:
        table.scatter_sub(tf.IndexedSlices(tf.exp(tf.tanh(x) * x), places))
        return tf.reduce_sum(tf.gather(table, [3, 5]))

    return function, [tf.ones([60_000, WIDTH])]


SHARE = 0.27
"""The limit as a part of stock's projected peak."""
PROGRAMS = {one.__name__: one for one in (looked_up, scattered, inside_a_choice)}


def _peak_of_a_later_call(name: str, share: float) -> tuple[int, int, int]:
    """Return the bytes that a third call takes, those projected, and those within the limit."""
    function, arguments = {**PROGRAMS, "many_rows": many_rows}[name]()
    stock = tf.function(function, autograph=False)
    before = tf_exla.explain(stock, *arguments, limit="10GB").projected_peak_before
    limit = int(share * before)
    optimized = tf_exla.optimize(stock, limit, strict=True)
    report = tf_exla.explain(stock, *arguments, limit=limit)
    for _ in range(2):
        optimized(*arguments)
    Path("/proc/self/clear_refs").write_text("5")
    exists = _high_water_mark()
    optimized(*arguments)
    working_set = report.projected_peak - report.resident
    return _high_water_mark() - exists, working_set, limit - report.resident


def _high_water_mark() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_later_calls_are_within_the_limit(name: str) -> None:
    measured, projected, room = run_fresh(_peak_of_a_later_call, name, SHARE)
    assert room < ROWS * WIDTH * 4, "a copy of the table would exceed the limit"
    assert 0 < measured <= projected <= room


def test_a_scatter_takes_no_memory_but_for_the_table() -> None:
    made, arguments = many_rows()
    stock = tf.function(made, autograph=False)
    report = tf_exla.explain(stock, *arguments, limit="10GB")
    update, table = 60_000 * WIDTH * 4, 1_000 * WIDTH * 4
    assert report.projected_peak - report.resident < update + 2 * table + (2 << 20)
    measured, projected, room = run_fresh(_peak_of_a_later_call, "many_rows", 1.0)
    assert 0 < measured <= projected <= room


@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers(name: str) -> None:
    outputs = []
    for limit in (None, SHARE):
        function, arguments = PROGRAMS[name]()
        made: Any = tf.function(function, autograph=False)
        if limit:
            peak = tf_exla.explain(made, *arguments, limit="10GB").projected_peak_before
            made = tf_exla.optimize(made, int(limit * peak), strict=True)
        outputs.append([made(*arguments).numpy() for _ in range(2)])
    np.testing.assert_allclose(*outputs, rtol=1e-4, atol=1e-2)


def test_rows_are_gathered_from_the_value_if_the_variable_is_read_whole() -> None:
    both, rows = tf.Variable(tf.ones([50, 3])), tf.Variable(tf.ones([50, 3]))

    def function() -> Any:
        gathered = tf.gather(both, [1]), tf.gather_nd(both, [[2, 0]]), tf.gather(rows, [3])
        return gathered, both + 1.0

    made = tf.function(function, autograph=False).get_concrete_function()
    graph = capture(made).graph
    names = sorted(node.op for node in walk(graph))
    assert names.count("ResourceGather") == 1
    assert {"take", "GatherNd"} <= {*names}
    assert names.count("read_variable") == 1


def test_gathers_stay_on_their_device() -> None:
    table = tf.Variable(tf.ones([50, 3]))

    def function() -> Any:
        with tf.device("/device:CPU:0"):
            return tf.gather(table, [1]), table + 1.0

    graph = capture(tf.function(function, autograph=False).get_concrete_function()).graph
    placed = [node.op for node in walk(graph) if "CPU:0" in str(node.attrs.get(DEVICE))]
    assert {"read_variable", "take", "add"} <= {*placed}


def test_gradients_of_rows_and_of_the_whole_table() -> None:
    outputs = []
    for limit in (None, "20MB"):
        table = tf.Variable(np.random.default_rng(0).normal(size=(20_011, 16)).astype("float32"))

        def loss(table: tf.Variable = table) -> Any:
            rows = tf.nn.embedding_lookup(table, [[1, 2], [2, 3]])
            scores = tf.tanh(tf.einsum("abi,ci->abc", rows, table))
            return tf.reduce_sum(scores) + tf.reduce_sum(tf.gather(table, [5], batch_dims=0))

        made: Any = tf.function(loss, autograph=False)
        made = tf_exla.optimize(made, limit, strict=True) if limit else made
        with tf.GradientTape() as tape:
            value = made()
        outputs.append((value, tf.convert_to_tensor(tape.gradient(value, table))))
    for expected, found in zip(*outputs, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
