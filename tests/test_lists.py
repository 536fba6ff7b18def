"""The promise for loops that keep tensors of each iteration: see `list_programs.py`.

Of each two neighbours in the table, every run has the first at its smallest limit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from fresh_process import run_fresh
from list_programs import PROGRAMS, rarely_ends, repeat
from programs import normal
from programs_check import difference

import tf_exla
from tf_exla.frontends.tf.capture import capture
from tf_exla.frontends.tf.op_set import TensorFlowOps
from tf_exla.ir.clean import clean
from tf_exla.ir.traverse import walk
from tf_exla.moves.user_loops.item_parts import with_item_parts
from tf_exla.moves.user_loops.last_items import with_last_items
from tf_exla.moves.user_loops.loop_variables import part_loop_variables

NAMES = list(PROGRAMS)


def check_lists(names: list[str], factor: int) -> list[dict[str, Any]]:
    """Check each program at a multiple of the smallest limit that it can run with."""
    found = []
    for name in names:
        function, arguments = PROGRAMS[name]()
        stock = tf.function(function, autograph=False)
        with pytest.raises(tf_exla.MemoryLimitError) as info:
            tf_exla.explain(stock, *arguments, limit=1)
        limit = factor * info.value.smallest_limit
        optimized = tf_exla.optimize(stock, limit)
        found.append({
            "name": name,
            "limit": limit,
            "projected": optimized.report(*arguments).projected_peak,
            "measured": int(tf_exla.measured_peak(optimized, *arguments)),
            "worst": difference(stock(*arguments), optimized(*arguments), 1e-7),
        })  # fmt: skip
    return found


@pytest.mark.parametrize(
    ("names", "factor"),
    [
        pytest.param(NAMES[::2], 1, id="some"),
        pytest.param(NAMES[1::2], 1, id="others", marks=pytest.mark.thorough),
        pytest.param(NAMES, 2, id="twice the limit", marks=pytest.mark.thorough),
    ],
)
def test_lists(names: list[str], factor: int) -> None:
    for one in run_fresh(check_lists, names, factor):
        assert one["measured"] <= one["projected"] <= one["limit"], one
        assert one["worst"] <= 1, one


def few_places_written(x: tf.Tensor) -> tf.Tensor:
    """The places that are not written are zeros."""
    array = tf.TensorArray(x.dtype, x.shape[0], element_shape=x.shape[1:])
    step = lambda i, array: (i + 1, array.write(i, tf.sin(x[i])))  # noqa: E731
    return tf.while_loop(lambda i, _: i < 20, step, (0, array))[1].stack()


def growing(x: tf.Tensor) -> tf.Tensor:
    array = tf.TensorArray(x.dtype, 0, dynamic_size=True)
    step = lambda i, array: (i + 1, array.write(i, tf.sin(x[i])))  # noqa: E731
    return tf.while_loop(lambda i, _: i < 200, step, (0, array))[1].stack()


def measure_whole() -> list[tuple[str, int, int]]:
    """Return names, and measured and projected peaks of programs that are not split."""
    x = normal(301, 5001)
    found = []
    for name, function in {
        "rows read": lambda x: tf.map_fn(tf.reduce_sum, x),
        "rows computed": lambda x: tf.map_fn(tf.sin, tf.exp(x)),
        "few rows": lambda x: tf.map_fn(tf.sin, tf.reshape(x, [7, -1])),
        "states": lambda x: tf.scan(lambda state, row: tf.sin(state) + row, x),
        "few places written": few_places_written,
        "growing": growing,
    }.items():
        stock = tf.function(function, autograph=False)
        projected = tf_exla.explain(stock, x, limit=10**9).projected_peak_before
        found.append((name, int(tf_exla.measured_peak(stock, x, fresh=False)), projected))
    return found


def test_bytes_of_lists_are_bounded_closely() -> None:
    """Lists from the rows of a tensor, and tensors stacked from lists, take no scratch memory.

    A list of all rows may still be there, in part, while the next node runs: this is counted.
    """
    freed = 301 * 5001 * 8
    for name, measured, projected in run_fresh(measure_whole):
        assert measured <= projected <= 1.2 * measured + freed, name


def test_unknown_number_of_iterations_is_refused() -> None:
    function, arguments = rarely_ends()
    with pytest.raises(tf_exla.UnboundedMemoryError, match="maximum_iterations") as info:
        tf_exla.explain(function, *arguments, limit=10**12)
    assert info.value.bytes > 901 * 901 * 8
    assert "list_programs.py" in str(info.value)


def loop(**changes: Any) -> Any:
    """Return a loop over i, made of a start, a step and a condition."""

    def function(x: tf.Tensor) -> tf.Tensor:
        start = (tf.constant(changes.get("start", 0)), tf.constant(changes.get("end", 10)), x)
        step = changes.get("step", lambda i, n, x: (i + 1, n, x + 1.0))
        more = changes.get("more", lambda i, n, x: i < n)
        return tf.while_loop(more, step, start, maximum_iterations=changes.get("most"))[2]

    return function


@pytest.mark.parametrize(
    ("function", "count"),
    [
        (loop(), 10),
        (loop(start=3), 7),
        (loop(start=12), 0),
        (loop(most=4), 4),
        (loop(step=lambda i, n, x: (3 + i, n, x + 1.0)), 4),
        (loop(more=lambda i, n, x: i <= n), 11),
        (loop(more=lambda i, n, x: n > i), 10),
        (loop(more=lambda i, n, x: n >= i), 11),
        (loop(start=9, step=lambda i, n, x: (i - 2, n, x + 1.0), more=lambda i, n, x: i > 0), 5),
        (loop(step=lambda i, n, x: (i + 1, n - 1, x + 1.0)), 5),
        (loop(more=lambda i, n, x: i < n + 2), 12),
        (loop(more=lambda i, n, x: i + 2 <= n - 1), 8),
        (loop(more=lambda i, n, x: i < n - i), 5),
        (loop(more=lambda i, n, x: i < n - tf.cast(x[0], i.dtype)), None),
        (loop(more=lambda i, n, x: tf.logical_and(x[0] < 9.0, i < n)), 10),
        (loop(more=lambda i, n, x: tf.logical_or(x[0] < 9.0, i < n)), None),
        (loop(more=lambda i, n, x: x[0] < 5.0), None),
        (loop(step=lambda i, n, x: (i - 1, n, x + 1.0)), None),
        (loop(step=lambda i, n, x: (i * 2, n, x + 1.0)), None),
        (loop(step=lambda i, n, x: (i + tf.cast(x[0], i.dtype), n, x + 1.0)), None),
    ],
)  # fmt: skip
def test_iterations(function: Any, count: int | None) -> None:
    concrete = tf.function(function, autograph=False).get_concrete_function(normal(3))
    ops = TensorFlowOps()
    nodes = [node for node in walk(capture(concrete).graph) if node.op == "while"]
    assert [ops.iterations(node, {}) for node in nodes] == [count]


def test_a_loop_whose_end_an_outer_loop_counts_is_bounded() -> None:
    def inner(i: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        step = lambda j, w: (j + 1, tf.tanh(w))  # noqa: E731
        return tf.while_loop(lambda j, w: j < i + 1, step, (0, v))[1]

    def function(v: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(v)
            step = lambda i, v: (i + 1, inner(i, v))  # noqa: E731
            value = tf.while_loop(lambda i, v: i < 3, step, (0, v))[1]
        return tape.gradient(value, v)

    stock = tf.function(function, autograph=False)
    np.testing.assert_array_equal(tf_exla.optimize(stock, 10**8)(normal(7)), stock(normal(7)))


def test_integers_that_grow_in_a_list_are_no_bound() -> None:
    """Each integer of the list is twice the one before, so that the list has no upper bound."""

    def function(x: tf.Tensor) -> tf.Tensor:
        def step(i: tf.Tensor, sizes: tf.TensorArray) -> Any:
            return i + 1, sizes.write(i, 2 * sizes.read(i - 1))

        sizes = tf.TensorArray(tf.int32, 40, element_shape=[], clear_after_read=False).write(0, 1)
        sizes = tf.while_loop(lambda i, _: i < 12, step, (1, sizes))[1]
        return tf.reduce_sum(tf.sin(tf.fill([sizes.read(11), 5], x[0])))

    any_vector = tf.TensorSpec([3], tf.float64)  # of a vector, the sizes could be computed first
    with pytest.raises(tf_exla.UnboundedMemoryError):
        tf_exla.explain(tf.function(function, autograph=False), any_vector, limit=10**8)


def test_idle_variables_are_dropped() -> None:
    """Tensors that are kept for the gradient and not read by it are dropped."""

    def function(v: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(v)
            value = repeat(3, lambda i, w: (i + 1, 2.0 * tf.tanh(3.0 * w)), v)
        return tape.gradient(value, v)

    concrete = tf.function(function, autograph=False).get_concrete_function(normal(7))
    graph = capture(concrete).graph
    kept = [
        sum(node.op == "list_push" for node in walk(one))
        for one in (graph, clean(graph, TensorFlowOps()))
    ]
    assert kept == [2, 1]
    tf.debugging.assert_near(tf_exla.optimize(function, 10**9)(normal(7)), function(normal(7)))


def test_loops_that_begin_with_one_empty_list_are_split_apart() -> None:
    """The second loop waits for the first, so one loop over chunks cannot have both."""

    def gradient(x: tf.Tensor, times: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(repeat(times, lambda i, w: (i + 1, 1.1 * tf.sin(w)), x))
        return tape.gradient(loss, x)

    def function(x: tf.Tensor, n: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        first = gradient(x + tf.reduce_max(tf.cumsum(x)), tf.minimum(n, 30))
        return first, gradient(x + tf.reduce_max(tf.cumsum(first)), tf.minimum(n, 3))

    arguments = tf.linspace(tf.constant(-1.0, tf.float64), 1.0, 200_003), tf.constant(20)
    limit = 14_000_000  # the first list alone has 48 MB
    optimized = tf_exla.optimize(function, limit, strict=True)
    assert optimized.report(*arguments).projected_peak <= limit
    assert difference(function(*arguments), optimized(*arguments), 1e-9) <= 1


def test_gradients_of_gradients_of_nested_loops() -> None:
    """What a list of lists gives has no known shape."""

    def inner(z: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
        return repeat(3, lambda j, u: (j + 1, tf.tanh(u - w[:, None] * tf.sin(u))), z)

    def loss(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        step = lambda i, z, w: (i + 1, inner(z, w), w * 1.1)  # noqa: E731
        return tf.reduce_sum(tf.while_loop(lambda i, *_: i < 3, step, (0, y, x))[1])

    def function(x: tf.Tensor, y: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            value, first = loss_and_gradients(x, y)
            total = tf.reduce_sum(tf.sin(first[0])) + tf.reduce_sum(tf.sin(first[1]))
        return [value, *first, *tape.gradient(total, [x, y])]

    def loss_and_gradients(x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            value = loss(x, y)
        return value, tape.gradient(value, [x, y])

    arguments = normal(301), normal(301, 300)
    traced = tf.function(function, autograph=False)
    with pytest.raises(tf_exla.MemoryLimitError) as info:
        tf_exla.explain(traced, *arguments, limit=1)
    optimized = tf_exla.optimize(traced, info.value.smallest_limit, strict=True)
    assert difference(traced(*arguments), optimized(*arguments), 1e-9) <= 1


@pytest.mark.parametrize("reads", [False, True])
def test_a_growing_array_and_its_gradient_have_a_plan_or_an_answer(reads: bool) -> None:
    """The body of the gradient's loop does not know the shapes of the list that it reads."""
    weights, rows = normal(16, 16) / 9, normal(12, 101, 16, seed=1)

    def fn(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            array = tf.TensorArray(x.dtype, 0, dynamic_size=True, clear_after_read=False)
            state = x[0]
            for k in tf.range(tf.shape(x)[0]):
                state = tf.tanh(state @ weights + x[k])
                array = array.write(k, state)
            loss = tf.reduce_sum(array.stack() ** 2)
            if reads:
                loss += tf.reduce_sum(array.read(5))
        return loss, tape.gradient(loss, x)

    stock = tf.function(fn)
    with pytest.raises(tf_exla.MemoryLimitError) as info:
        tf_exla.optimize(stock, 1, strict=True).report(rows)
    optimized = tf_exla.optimize(stock, info.value.smallest_limit, strict=True)
    for one, other in zip(optimized(rows), stock(rows), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def test_the_original_is_projected_with_the_bound_of_its_loop() -> None:
    """Of a loop that a test of data ends first: three iterations keep a tensor each, not 1,000."""
    x, w = tf.random.stateless_normal([4000, 32], [1, 2]), tf.Variable(tf.eye(32))

    @tf.function
    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            made, count = tf.tanh(x @ w), 0
            while tf.norm(made) > 100.0 and count < 3:
                made, count = made * 0.5, count + 1
            loss = tf.reduce_mean(made**2)
        return tape.gradient(loss, w)

    size = 4000 * 32 * 4
    report = tf_exla.explain(step, x, limit="1GB")
    assert 4 * size < report.projected_peak_before < 16 * size


def test_a_loop_that_appends_no_columns_is_split() -> None:
    """A constant without elements is as good as one of equal elements: it has all sizes."""

    def function(x: tf.Tensor) -> tf.Tensor:
        def step(state: tf.Tensor, row: tf.Tensor) -> tf.Tensor:
            wide = tf.concat([state, np.zeros([4001, 0])], axis=1)
            return tf.tanh(wide * row) + 0.1

        states = tf.scan(step, tf.range(30, dtype=tf.float64) / 30.0, x)
        return tf.reduce_sum(states**2, axis=[0, 2])

    x = normal(4001, 5)
    stock = tf.function(function)
    optimized = tf_exla.optimize(stock, 1_500_000, strict=True)  # the list alone has 4.8 MB
    assert optimized.report(x).loops
    assert difference(stock(x), optimized(x), 1e-9) <= 1


def last_of_a_scan(x: tf.Tensor) -> tf.Tensor:
    return tf.scan(lambda state, row: tf.sin(state) + row, x, tf.zeros_like(x[0]))[-1]


def last_but_one_of_a_scan(x: tf.Tensor) -> tf.Tensor:
    return tf.scan(lambda state, row: tf.sin(state) + row, x, tf.zeros_like(x[0]))[-2]


def last_of_two_states(x: tf.Tensor) -> tf.Tensor:
    start = tf.zeros_like(x[0]), tf.ones_like(x[0])
    one, two = tf.scan(lambda pair, row: (pair[1], tf.sin(pair[0]) + row), x, start)
    return one[-1] + two[39] * two[-1]


def first_of_a_scan_from_the_end(x: tf.Tensor) -> tf.Tensor:
    made = tf.scan(lambda state, row: tf.sin(state) + row, x, tf.zeros_like(x[0]), reverse=True)
    return made[0]


def last_of_a_loop(x: tf.Tensor, places: int, ends: float) -> tf.Tensor:
    """The last place of `places`; a state that exceeds `ends` ends the loop."""

    def step(i: tf.Tensor, state: tf.Tensor, array: Any) -> Any:
        state = tf.sin(state) + x[i]
        return i + 1, state, array.write(i, state)

    array = tf.TensorArray(x.dtype, places, element_shape=x.shape[1:])
    go_on = lambda i, state, _: (i < 41) & (tf.reduce_max(state) < ends)  # noqa: E731
    if ends == np.inf:
        go_on = lambda i, *_: i < 41  # noqa: E731
    return tf.while_loop(go_on, step, (0, tf.zeros_like(x[0]), array))[2].stack()[-1]


@pytest.mark.parametrize(
    ("function", "carried"),
    [
        (last_of_a_scan, True),
        (last_but_one_of_a_scan, False),
        (last_of_two_states, False),
        (first_of_a_scan_from_the_end, True),
        (lambda x: last_of_a_loop(x, 41, np.inf), True),
        (lambda x: last_of_a_loop(x, 43, np.inf), False),  # the last place is never written
        (lambda x: last_of_a_loop(x, 41, 3.0), False),
        (lambda x: tf.reduce_sum(last_of_a_scan(x) ** 2), True),
        (lambda x: tf.unstack(tf.scan(tf.add, x))[-1], False),
    ],
)
def test_the_last_of_a_list_is_what_the_loop_carries(function: Any, carried: bool) -> None:
    x = normal(41, 3001)
    stock = tf.function(function, autograph=False)
    graph = clean(capture(stock.get_concrete_function(x)).graph, TensorFlowOps())
    made = clean(with_last_items(graph, TensorFlowOps()), TensorFlowOps())
    assert carried == (not any(node.op == "list_set" for node in walk(made)))
    with pytest.raises(tf_exla.MemoryLimitError) as info:
        tf_exla.explain(stock, x, limit=1)
    optimized = tf_exla.optimize(stock, info.value.smallest_limit, strict=True)
    assert difference(stock(x), optimized(x), 1e-12) <= 1


def states(x: tf.Tensor) -> tf.Tensor:
    return tf.scan(lambda state, row: tf.sin(state) + row, x)


def parts_of_two_lists(x: tf.Tensor) -> Any:
    first = (tf.zeros_like(x[0]), tf.zeros_like(x[0]))
    s, c = tf.scan(lambda state, row: (tf.sin(state[0]) + row, state[1] + tf.cos(row)), x, first)
    return s[:, -1], c[:, ::1000], c[:, 5:7]


def parts_of_rows_that_were_written(x: tf.Tensor) -> tf.Tensor:
    """The loop ends before all rows are written: the others are zeros."""

    def step(i: tf.Tensor, state: tf.Tensor, array: Any) -> Any:
        state = tf.sin(state) + x[i]
        return i + 1, state, array.write(i, state)

    array = tf.TensorArray(x.dtype, 41, element_shape=x.shape[1:])
    go_on = lambda i, state, _: (i < 41) & (tf.reduce_max(state) < 4.0)  # noqa: E731
    return tf.while_loop(go_on, step, (0, tf.zeros_like(x[0]), array))[2].stack()[:, -3:-1]


def parts_of_matrices(x: tf.Tensor) -> tf.Tensor:
    return tf.map_fn(lambda row: tf.sin(row)[:, None] * row[:7], x)[:, 17, ::2]


def parts_in_a_loop(x: tf.Tensor) -> tf.Tensor:
    return tf.map_fn(lambda shift: tf.reduce_sum(states(x + shift)[:, -1]), x[0, :3])


def parts_of_a_raw_list(x: tf.Tensor) -> tf.Tensor:
    """The shape that the list is reserved with has another dtype than that of a TensorArray."""
    raw, shape = tf.raw_ops, tf.constant([3001], tf.int64)
    listed = raw.TensorListReserve(element_shape=shape, num_elements=41, element_dtype=x.dtype)

    def step(i: tf.Tensor, listed: tf.Tensor) -> Any:
        item = tf.sin(x[i])
        return i + 1, raw.TensorListSetItem(input_handle=listed, index=i, item=item)

    listed = tf.while_loop(lambda i, _: i < 41, step, (0, listed))[1]
    stacked = raw.TensorListStack(
        input_handle=listed, element_shape=[3001], element_dtype=x.dtype, num_elements=41
    )
    return stacked[:, ::1000]


def gradient_of_parts(x: tf.Tensor) -> tf.Tensor:
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_sum(states(x)[:, -1] ** 2)
    return tape.gradient(loss, x)


@pytest.mark.parametrize(
    ("function", "parted"),
    [
        (lambda x: states(x)[:, -1], True),
        (lambda x: tf.exp(states(x)[:, :2]) @ tf.ones((2, 3), x.dtype), True),
        (parts_of_two_lists, True),
        (parts_of_rows_that_were_written, True),
        (parts_of_matrices, True),
        (parts_in_a_loop, True),
        (parts_of_a_raw_list, True),
        (lambda x: states(x)[5:, -1], False),
        (lambda x: (states(x)[:, -1], tf.reduce_sum(states(x)), states(x)), False),
        (lambda x: (lambda s: (s[:, -1], tf.reduce_sum(s)))(states(x)), False),
        (lambda x: (lambda s: s[:, :2000] + s[:, -2000:])(states(x)), False),  # no less than whole
        (gradient_of_parts, False),  # the gradient reads whole states
    ],
)
def test_a_list_keeps_the_part_that_is_read(function: Any, parted: bool) -> None:
    x = normal(41, 3001)
    stock = tf.function(function, autograph=False)
    graph = clean(capture(stock.get_concrete_function(x)).graph, TensorFlowOps())
    made = with_item_parts(part_loop_variables(graph, TensorFlowOps()), TensorFlowOps())
    stacked = sum(node.output.nbytes for node in walk(made) if node.op == "list_stack")
    before = sum(node.output.nbytes for node in walk(graph) if node.op == "list_stack")
    assert (stacked < before) == parted
    with pytest.raises(tf_exla.MemoryLimitError) as info:
        tf_exla.explain(stock, x, limit=1)
    optimized = tf_exla.optimize(stock, info.value.smallest_limit, strict=True)
    assert difference(stock(x), optimized(x), 1e-12) <= 1
