"""Programs that search for a number among those it was selected from: maxima, sorted rows, ties.

Each takes x: [n, 3] and y: [m, 3]. On a grid of integers sums and products are exact, and there are
many ties. Others take a root or an exponential of numbers that each occur once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

Function = Callable[[tf.Tensor, tf.Tensor], Any]


def distances(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Return squared distances [n, m], by products."""
    norms = tf.reduce_sum(x * x, 1)[:, None] + tf.reduce_sum(y * y, 1)
    return norms - 2.0 * tf.matmul(x, y, transpose_b=True)


def differences(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Return absolute distances [n, m], by differences [n, m, 3]."""
    return tf.reduce_sum(tf.abs(x[:, None] - y), 2)


def far(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.sqrt(tf.maximum(distances(x, y), 0.0) + 1.25)


def decayed(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.exp(-0.125 * distances(x, y))


def graded(function: Function) -> Function:
    """Return the sum of a function's results and its gradients in both arguments, as a function."""

    def with_gradient(x: tf.Tensor, y: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            made = function(x, y)
            value = tf.add_n([tf.reduce_sum(leaf) for leaf in tf.nest.flatten(made)])
        return value, tape.gradient(value, [x, y])

    return with_gradient


def of(matrix: Function, reduce: Callable[[tf.Tensor], Any]) -> Function:
    return graded(lambda x, y: reduce(matrix(x, y)))


def both_axes(d: tf.Tensor) -> Any:
    return tf.square(tf.reduce_max(d, 0)), tf.square(tf.reduce_min(d, 1))


def everywhere(d: tf.Tensor) -> Any:
    return tf.square(tf.reduce_max(d)) + tf.reduce_min(d)


def halves(d: tf.Tensor) -> tf.Tensor:
    """Return the elementwise maximum of two halves."""
    size = d.shape[1] // 2
    return tf.maximum(d[:, :size], d[:, size : 2 * size])


def segments(reduce: Any) -> Callable[[tf.Tensor], tf.Tensor]:
    def function(d: tf.Tensor) -> tf.Tensor:
        ids = tf.range(d.shape[0]) // 7
        return tf.square(reduce(d, ids))

    return function


def unsorted_segments(reduce: Any) -> Callable[[tf.Tensor], tf.Tensor]:
    def function(d: tf.Tensor) -> tf.Tensor:
        ids = tf.math.floormod(tf.range(d.shape[0]) * 5, 11)
        return tf.square(reduce(d, ids, 11))

    return function


def means_of_segments(d: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(tf.math.unsorted_segment_min(d, tf.range(d.shape[0]) * 5 % 64, 64), 0)


def products(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.exp(-tf.square(tf.matmul(x, y, transpose_b=True)))


def pool(d: tf.Tensor) -> tf.Tensor:
    return tf.square(tf.nn.max_pool2d(d[None, :, :, None], 3, 2, "VALID"))


def median(d: tf.Tensor) -> tf.Tensor:
    return tf.sort(d, 1)[:, d.shape[1] // 2]


def column_median(d: tf.Tensor) -> tf.Tensor:
    return tf.sort(d, 0)[d.shape[0] // 2]


def best(d: tf.Tensor) -> tf.Tensor:
    return tf.gather(d, tf.argmax(d, 1), batch_dims=1)


def above_third(d: tf.Tensor) -> tf.Tensor:
    least = tf.math.top_k(d, 3).values[:, -1:]
    return tf.where(d >= least, tf.square(d), tf.zeros_like(d))


def equal_rows(d: tf.Tensor) -> tf.Tensor:
    """Find and sum by hand the elements that equal the maximum of their row."""
    hits = tf.cast(tf.equal(d, tf.reduce_max(d, 1, keepdims=True)), d.dtype)
    return tf.reduce_sum(hits * d, 0)


def equal_columns(d: tf.Tensor) -> tf.Tensor:
    hits = tf.cast(d <= tf.reduce_min(d, 0, keepdims=True), d.dtype)
    return tf.reduce_sum(hits * d, 1)


def own_log_sum_exp(d: tf.Tensor) -> tf.Tensor:
    largest = tf.reduce_max(d, 1, keepdims=True)
    return tf.math.log(tf.reduce_sum(tf.exp(d - largest), 1)) + largest[:, 0]


def attention(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.matmul(tf.nn.softmax(-distances(x, y)), y)


def rows_and_all(matrix: Function, total: Callable[[tf.Tensor], Any]) -> Function:
    """The gradient of the row maxima waits for a reduction of the whole matrix."""

    def function(x: tf.Tensor, y: tf.Tensor) -> Any:
        d = matrix(x, y)
        return tf.reduce_sum(tf.square(tf.reduce_max(d, 1))) * total(d)

    return graded(function)


def hits_and_all(x: tf.Tensor, y: tf.Tensor) -> Any:
    d = far(x, y)
    hits = tf.cast(tf.equal(d, tf.reduce_max(d, 1, keepdims=True)), d.dtype)
    return tf.matmul(hits, y * tf.reduce_sum(tf.matmul(d, y), 0))


def order_and_all(x: tf.Tensor, y: tf.Tensor) -> Any:
    """The third largest of each row is a small tensor of an earlier stage."""
    d = far(x, y)
    least = tf.math.top_k(d, 3).values[:, -1:]
    return tf.matmul(tf.cast(d >= least, d.dtype), y * tf.reduce_sum(tf.matmul(d, y), 0))


def relu_pool(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    h = tf.nn.relu(tf.matmul(x, y, transpose_b=True) - 3.0)
    return tf.square(tf.reduce_max(tf.nn.relu(h - 2.0), 0))


def hausdorff(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    d = far(x, y)
    return tf.maximum(tf.reduce_max(tf.reduce_min(d, 1)), tf.reduce_max(tf.reduce_min(d, 0)))


# Within control flow.


def mapped(matrix: Function, reduce: Callable[[tf.Tensor], Any]) -> Function:
    """The reduction of a few multiples of one matrix."""

    def function(x: tf.Tensor, y: tf.Tensor) -> Any:
        d = matrix(x, y)
        scales = tf.constant([1.0, 2.0, 4.0], x.dtype)
        return tf.map_fn(lambda scale: reduce(scale * d), scales)

    return graded(function)


def mapped_rows(matrix: Function) -> Function:
    """The maximum of each row, for batches of rows."""

    def function(x: tf.Tensor, y: tf.Tensor) -> Any:
        count = x.shape[0] // 4
        batches = tf.reshape(x[: 4 * count], [4, count, 3])
        return tf.map_fn(lambda one: tf.reduce_max(matrix(one, y), 1), batches)

    return graded(function)


def repeated(matrix: Function, axis: int) -> Function:
    def function(x: tf.Tensor, y: tf.Tensor) -> Any:
        d = matrix(x, y)

        def body(i: tf.Tensor, v: tf.Tensor) -> Any:
            return i + 1, v + tf.reduce_max(d * tf.cast(i + 1, d.dtype), axis)

        start = tf.zeros([d.shape[1 - axis]], x.dtype)
        return tf.while_loop(lambda i, v: i < 3, body, (0, start), maximum_iterations=3)[1]

    return graded(function)


def moved(x: tf.Tensor, y: tf.Tensor) -> Any:
    """Points that move by a quarter of the farthest other point, step by step."""

    def body(i: tf.Tensor, z: tf.Tensor) -> Any:
        d = distances(z, y)
        hit = tf.cast(tf.equal(d, tf.reduce_max(d, 1, keepdims=True)), d.dtype)
        return i + 1, z + 0.25 * tf.matmul(hit, y)

    return tf.while_loop(lambda i, z: i < 3, body, (0, x), maximum_iterations=3)[1]


def rounds(x: tf.Tensor, y: tf.Tensor) -> Any:
    """A loop that searches for the extremes that were found before it."""
    d = far(x, y)
    largest, least = tf.reduce_max(d, 1, keepdims=True), tf.reduce_min(d, 0, keepdims=True)

    def body(i: tf.Tensor, v: tf.Tensor) -> Any:
        hits = tf.cast(tf.equal(d, largest), d.dtype) + tf.cast(d <= least, d.dtype)
        return i + 1, v + tf.matmul(hits, tf.ones([y.shape[0], 1], d.dtype))

    start = tf.zeros([x.shape[0], 1], x.dtype)
    return tf.while_loop(lambda i, v: i < 3, body, (0, start))[1]


def carried(x: tf.Tensor, y: tf.Tensor) -> Any:
    """A loop that searches for the maxima that its previous iteration found."""
    d = far(x, y)

    def body(i: tf.Tensor, largest: tf.Tensor, v: tf.Tensor) -> Any:
        hits = tf.cast(tf.equal(d, largest), d.dtype)
        return i + 1, tf.reduce_max(d, 1, keepdims=True), v + tf.reduce_sum(hits, 0)

    start = tf.zeros([x.shape[0], 1], x.dtype), tf.zeros([y.shape[0]], x.dtype)
    return tf.while_loop(lambda i, m, v: i < 3, body, (0, *start))[2]


def listed(x: tf.Tensor, y: tf.Tensor) -> Any:
    """Maxima in an array, for which a second loop searches."""
    d = far(x, y)
    scales = tf.constant([1.0, 2.0, 4.0], x.dtype)
    largest = tf.map_fn(lambda s: tf.reduce_max(s * d, 1, keepdims=True), scales)

    def count(pair: Any) -> tf.Tensor:
        scale, one = pair
        return tf.reduce_sum(tf.cast(tf.equal(scale * d, one), d.dtype), 0)

    return tf.map_fn(count, (scales, largest), fn_output_signature=x.dtype)


def looked_up_after(x: tf.Tensor, y: tf.Tensor) -> Any:
    """Maxima found by a loop, and searched for after it."""
    d = far(x, y)
    loop = tf.while_loop(
        lambda i, m: i < 3,
        lambda i, m: (i + 1, tf.maximum(m, tf.reduce_max(d, 1, keepdims=True))),
        (0, tf.zeros([x.shape[0], 1], x.dtype)),
    )
    return tf.reduce_sum(tf.cast(tf.equal(d, loop[1]), d.dtype), 0)


def chosen(reduces: list[Callable[[tf.Tensor], tf.Tensor]], which: int) -> Function:
    """A data-dependent choice of reductions of one matrix."""

    def function(x: tf.Tensor, y: tf.Tensor) -> Any:
        d = far(x, y)
        number = tf.cast(tf.reduce_sum(x) * 0.0, tf.int32) + which
        return tf.switch_case(number, [lambda r=r: tf.reduce_sum(r(d)) for r in reduces])

    return graded(function)


def inside(reduces: list[Callable[[tf.Tensor], tf.Tensor]], which: int) -> Function:
    """A choice whose branches compute the matrix themselves; so does its gradient."""

    def function(x: tf.Tensor, y: tf.Tensor) -> Any:
        number = tf.cast(tf.reduce_sum(x) * 0.0, tf.int32) + which
        made = tf.switch_case(number, [lambda r=r: r(far(x, y)) for r in reduces])
        return tf.square(made)

    return graded(function)


ROWS_OR_COLUMNS: list[Callable[[tf.Tensor], tf.Tensor]] = [
    lambda d: tf.reduce_max(d, 1),
    lambda d: tf.reduce_min(d, 0),
    lambda d: tf.square(tf.reduce_max(d, 0)),
]


def mapped_alone(reduce: Callable[[tf.Tensor], Any]) -> Function:
    """A loop's gradient reads the matrix as its iterations did, and their maxima from a list."""

    def function(x: tf.Tensor, y: tf.Tensor) -> Any:
        d = far(x, y)
        return tf.map_fn(lambda scale: scale * reduce(d), tf.constant([1.0, 2.0, 4.0], x.dtype))

    return graded(function)


def mapped_choice(x: tf.Tensor, y: tf.Tensor) -> Any:
    d = far(x, y)
    return tf.map_fn(
        lambda i: tf.switch_case(i, [lambda r=r: tf.reduce_sum(r(d)) for r in ROWS_OR_COLUMNS]),
        tf.constant([0, 1, 2]),
        fn_output_signature=x.dtype,
    )


def scanned(x: tf.Tensor, y: tf.Tensor) -> Any:
    """A recurrence over the row maxima of a matrix that each step computes."""

    def step(state: tf.Tensor, point: tf.Tensor) -> tf.Tensor:
        d = tf.abs(state[:, None] - distances(x, y + point)[:, ::5])
        return tf.reduce_max(d, 1)

    return tf.scan(step, y[:3], tf.zeros([x.shape[0]], x.dtype))


def conditional(reduce: Callable[[tf.Tensor], tf.Tensor], other: Callable[..., Any]) -> Function:
    """A data-dependent choice between two reductions."""

    def function(x: tf.Tensor, y: tf.Tensor) -> Any:
        d = far(x, y)
        taken = tf.reduce_sum(tf.abs(x)) > 0.0
        return tf.cond(taken, lambda: tf.reduce_sum(reduce(d)), lambda: tf.reduce_sum(other(d)))

    return graded(function)


def repeated_best(x: tf.Tensor, y: tf.Tensor) -> Any:
    """A loop that keeps elements of at least the third largest of their row."""
    d = far(x, y)

    def body(i: tf.Tensor, v: tf.Tensor) -> Any:
        e = d + v
        least = tf.math.top_k(e, 3).values[:, -1:]
        kept = tf.where(e >= least, e, tf.zeros_like(e))
        return i + 1, v + 0.125 * tf.reduce_sum(kept, 1, keepdims=True)

    start = tf.zeros([x.shape[0], 1], x.dtype)
    return tf.while_loop(lambda i, v: i < 3, body, (0, start), maximum_iterations=3)[1]


def scanned_best(x: tf.Tensor, y: tf.Tensor) -> Any:
    """A recurrence over relus and the second largest of their rows."""

    def step(state: tf.Tensor, point: tf.Tensor) -> tf.Tensor:
        d = tf.nn.relu(distances(x + 0.5 * point, y) - state[:, None])
        return tf.math.top_k(d, 2).values[:, 1]

    return tf.scan(step, y[:3], tf.zeros([x.shape[0]], x.dtype))


def relu_rows(d: tf.Tensor) -> tf.Tensor:
    return tf.reduce_max(tf.nn.relu(d - 2.0), 1)


PROGRAMS: dict[str, Function] = {
    "rows' largest": of(distances, lambda d: tf.reduce_max(d, 1)),
    "rows' least": of(distances, lambda d: tf.reduce_min(d, 1)),
    "columns' largest": of(distances, lambda d: tf.reduce_max(d, 0)),
    "both axes": of(distances, both_axes),
    "both axes, far": of(far, both_axes),
    "both axes, decayed": of(decayed, both_axes),
    "everywhere": of(distances, everywhere),
    "everywhere, far": of(far, everywhere),
    "everywhere, differences": of(differences, everywhere),
    "differences": of(differences, both_axes),
    "maximum": of(distances, halves),
    "maximum and rows": of(far, lambda d: tf.reduce_max(halves(d), 0)),
    "segment max": of(distances, segments(tf.math.segment_max)),
    "segment min": of(far, segments(tf.math.segment_min)),
    "unsorted segment max": of(distances, unsorted_segments(tf.math.unsorted_segment_max)),
    "unsorted segment min": of(far, unsorted_segments(tf.math.unsorted_segment_min)),
    "segments of products": of(products, means_of_segments),
    "max pool": of(distances, pool),
    "max pool, far": of(far, pool),
    "top k": of(distances, lambda d: tf.math.top_k(d, 5).values),
    "top k of columns": of(far, lambda d: tf.math.top_k(tf.transpose(d), 5).values),
    "sort": of(distances, lambda d: tf.sort(d, 1)[:, ::3]),
    "median": of(distances, median),
    "column median": of(far, column_median),
    "argmax": of(distances, best),
    "above third": of(distances, above_third),
    "above third, far": of(far, above_third),
    "equal rows": of(distances, equal_rows),
    "equal rows, far": of(far, equal_rows),
    "equal columns": of(distances, equal_columns),
    "equal columns, far": of(far, equal_columns),
    "rows and all": rows_and_all(far, lambda d: tf.reduce_sum(tf.sin(d))),
    "rows and all, decayed": rows_and_all(decayed, tf.reduce_logsumexp),
    "hits and all": hits_and_all,
    "order and all": order_and_all,
    "softmax": graded(attention),
    "log sum exp": of(distances, lambda d: tf.reduce_logsumexp(-d, 1)),
    "log sum exp of columns": of(far, lambda d: tf.reduce_logsumexp(-d, 0)),
    "own log sum exp": of(distances, own_log_sum_exp),
    "relu": graded(relu_pool),
    "hausdorff": graded(hausdorff),
    "mapped": mapped(distances, lambda d: tf.reduce_max(d, 1)),
    "mapped, far": mapped(far, lambda d: tf.reduce_max(d, 1)),
    "mapped columns, far": mapped(far, lambda d: tf.reduce_min(d, 0)),
    "mapped, everywhere": mapped(decayed, everywhere),
    "mapped rows": mapped_rows(distances),
    "mapped rows, far": mapped_rows(far),
    "mapped alone": mapped_alone(lambda d: tf.reduce_max(d, 1)),
    "mapped alone, columns": mapped_alone(lambda d: tf.reduce_min(d, 0)),
    "mapped choice": graded(mapped_choice),
    "repeated": repeated(far, 1),
    "repeated columns": repeated(far, 0),
    "moved": graded(moved),
    "rounds": rounds,
    "carried": carried,
    "listed": listed,
    "looked up after": looked_up_after,
    "first choice": chosen(ROWS_OR_COLUMNS, 0),
    "second choice": chosen(ROWS_OR_COLUMNS, 1),
    "third choice": chosen(ROWS_OR_COLUMNS, 2),
    "scanned": graded(scanned),
    "scanned, best": graded(scanned_best),
    "mapped relu": mapped_alone(relu_rows),
    "mapped sort": graded(mapped(distances, median)),
    "mapped top k": mapped_alone(lambda d: tf.math.top_k(d, 3).values[:, -1]),
    "mapped above third": graded(mapped(far, lambda d: tf.reduce_sum(above_third(d), 0))),
    "repeated best": graded(repeated_best),
    "condition": conditional(relu_rows, column_median),
    "condition, sorted": conditional(median, lambda d: tf.reduce_min(d, 0)),
    "condition, best": conditional(above_third, lambda d: tf.reduce_max(d, 0)),
    "inside a choice": inside([lambda d: tf.reduce_max(d, 1), lambda d: tf.reduce_min(d, 1)], 0),
    "median in a choice": inside([median, lambda d: tf.reduce_max(d, 1)], 0),
    "chosen best": chosen([best, median, above_third], 2),
}


def points(name: str, count: int, seed: int, dtype: str) -> tf.Tensor:
    """Return points on a grid, many of them equal; for "far" and `ONCE`, distinct normal points."""
    rng = np.random.default_rng(seed)
    if "far" in name or name in ONCE:
        return tf.constant(rng.standard_normal((count, 3)), dtype)
    return tf.constant(rng.integers(-3, 4, (count, 3)), dtype)


ONCE = {
    "rows and all", "rows and all, decayed", "hits and all", "order and all", "mapped alone",
    "mapped alone, columns", "mapped choice",
    "both axes, decayed", "column median", "hausdorff", "log sum exp of columns", "max pool, far",
    "mapped, everywhere", "maximum and rows", "repeated", "repeated columns", "rounds", "carried",
    "listed", "looked up after", "first choice", "second choice", "third choice", "scanned",
    "segment min", "unsorted segment min", "top k of columns", "moved", "log sum exp",
    "segments of products",
    "mapped relu", "mapped top k", "mapped above third", "repeated best", "condition",
    "condition, sorted", "condition, best", "chosen best", "scanned, best",
    "inside a choice", "median in a choice",
}  # fmt: skip
