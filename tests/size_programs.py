"""Programs with data-dependent sizes, and with copied lists: the worst case of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from programs import normal

Program = tuple[Callable[..., Any], Sequence[Any]]
ROWS = 20011
X = normal(ROWS, 50)  # 8 MB
ALL = X[:, 0] > -1e9


def where(x: tf.Tensor, keep: tf.Tensor) -> Any:
    return tf.reduce_sum(tf.gather(x, tf.where(keep)[:, 0]) ** 3, 1)


def masked(x: tf.Tensor, keep: tf.Tensor) -> Any:
    y = tf.boolean_mask(x, keep)
    return tf.exp(y) + 1.0, tf.shape(y)


def masked_gradient(x: tf.Tensor, keep: tf.Tensor) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_sum(tf.tanh(tf.boolean_mask(x, keep)) ** 2)
    return tape.gradient(loss, x)


def slices(x: tf.Tensor, keep: tf.Tensor) -> Any:
    y = tf.boolean_mask(x, keep)
    return tf.reduce_sum(tf.abs(y[1:] - y[:-1]), 1), tf.reshape(y, [-1])[::7], y[:, 3]


def products(x: tf.Tensor, keep: tf.Tensor) -> Any:
    y = tf.boolean_mask(x, keep)
    return tf.matmul(y, x[:70], transpose_b=True)


def unique(x: tf.Tensor, keep: tf.Tensor) -> Any:
    values, places = tf.unique(tf.range(ROWS) * 3)
    return tf.math.unsorted_segment_sum(x, places, tf.size(values))


def parts(x: tf.Tensor, keep: tf.Tensor) -> Any:
    a, b, c = tf.dynamic_partition(x, tf.cast(keep, tf.int32), 3)
    return tf.reduce_sum(tf.exp(a)), tf.reduce_sum(tf.sin(b), 1), tf.shape(c)


def stitched(x: tf.Tensor, keep: tf.Tensor) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        a, b = tf.dynamic_partition(x, tf.cast(keep, tf.int32), 2)
        loss = tf.reduce_sum(tf.exp(-(b**2))) + tf.reduce_sum(a) ** 2
    return tape.gradient(loss, x)


def repeated(x: tf.Tensor, keep: tf.Tensor) -> Any:
    times = tf.minimum(tf.cast(keep, tf.int32) * 3, 3)
    return tf.reduce_max(tf.repeat(x, times, axis=0), 1)


def sparse(x: tf.Tensor, keep: tf.Tensor) -> Any:
    found = tf.sparse.from_dense(x)
    return tf.sparse.to_dense(found), tf.sparse.sparse_dense_matmul(found, x[:50])


def embedded(x: tf.Tensor, keep: tf.Tensor) -> Any:
    ids = tf.sparse.from_dense(tf.cast(keep, tf.int64)[:, None] * 7)
    return tf.nn.embedding_lookup_sparse(x, ids, None, combiner="mean")


def counted(x: tf.Tensor, keep: tf.Tensor) -> Any:
    count = tf.reduce_sum(tf.cast(keep, tf.int32))
    return tf.zeros([count, 40]), tf.range(count), x[:count] * 2.0


def mapped(x: tf.Tensor, keep: tf.Tensor) -> Any:
    rows = tf.boolean_mask(x[:701], keep[:701])
    return tf.map_fn(lambda row: tf.tile(row, [50]) * tf.reduce_sum(row), rows)


def grown(x: tf.Tensor, keep: tf.Tensor) -> Any:
    start = (tf.constant(0), x[:1])
    step = lambda i, y: (i + 1, tf.concat([y, x[:5000]], 0))  # noqa: E731
    shapes = (tf.TensorShape([]), tf.TensorShape([None, 50]))
    return tf.while_loop(lambda i, y: i < 5, step, start, shape_invariants=shapes)[1]


def chosen(x: tf.Tensor, keep: tf.Tensor) -> Any:
    y = tf.cond(x[0, 0] > -1e9, lambda: tf.boolean_mask(x, keep), lambda: x[:3])
    return tf.sin(y) * 2.0


def ragged(x: tf.Tensor, keep: tf.Tensor) -> Any:
    lengths = tf.ones([3], tf.int64) * (ROWS // 3)
    return tf.RaggedTensor.from_row_lengths(x[: ROWS // 3 * 3], lengths).to_tensor()


def growing_array(x: tf.Tensor, keep: tf.Tensor) -> Any:
    rows = tf.TensorArray(x.dtype, size=0, dynamic_size=True, element_shape=x.shape)
    step = lambda i, one: (i + 1, one.write(i, x + tf.cast(i, x.dtype)))  # noqa: E731
    return tf.while_loop(lambda i, one: i < 3, step, (tf.constant(0), rows))[1].stack()


def _pushed(x: tf.Tensor) -> tf.Tensor:
    found = tf.raw_ops.EmptyTensorList(
        element_shape=[ROWS, 50], max_num_elements=-1, element_dtype=x.dtype
    )
    for k in range(3):
        found = tf.raw_ops.TensorListPushBack(input_handle=found, tensor=x * (k + 1.0))
    return found


def _popped(found: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    shape = tf.constant([ROWS, 50])
    return tf.raw_ops.TensorListPopBack(
        input_handle=found, element_shape=shape, element_dtype=x.dtype
    )[1]


def list_of_zeros(x: tf.Tensor, keep: tf.Tensor) -> Any:
    found = _pushed(x)
    zeros = tf.raw_ops.ZerosLike(x=found)
    return _popped(found, x), _popped(zeros, x)


def sums_of_lists(x: tf.Tensor, keep: tf.Tensor) -> Any:
    found = _pushed(x)
    total = tf.raw_ops.AddN(inputs=[found, found, found])
    return _popped(total, x)


def list_in_a_loop(x: tf.Tensor, keep: tf.Tensor) -> Any:
    """Each iteration adds to all tensors of a list, which does not become longer."""

    def step(i: tf.Tensor, found: tf.Tensor) -> Any:
        return i + 1, tf.raw_ops.AddN(inputs=[found, tf.raw_ops.ZerosLike(x=found)])

    return _popped(tf.while_loop(lambda i, found: i < 4, step, (0, _pushed(x)))[1], x)


def second_gradient(x: tf.Tensor, keep: tf.Tensor) -> Any:
    """The gradient of a gradient of a While: the gradients of its lists start from zeros."""
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            step = lambda i, w: (i + 1, tf.sin(w * x))  # noqa: E731
            loss = tf.reduce_sum(tf.while_loop(lambda i, w: i < 3, step, (0, x))[1])
        first = tf.reduce_sum(inner.gradient(loss, x) ** 2)
    return outer.gradient(first, x)


def scanned(x: tf.Tensor, keep: tf.Tensor) -> Any:
    """Rows of a product of masked matrices: neither their number nor their length is known."""
    y = tf.boolean_mask(x, keep)[:1500]
    return tf.scan(
        lambda carry, row: carry * 0.5 + tf.tanh(row), tf.matmul(y[::-1], tf.transpose(y[:300]))
    )


def folded_gradient(x: tf.Tensor, keep: tf.Tensor) -> Any:
    """The gradient writes to a list as long as that of the rows, whose number is unknown."""
    part = x[:901]
    with tf.GradientTape() as tape:
        tape.watch(part)
        rows = tf.boolean_mask(part, keep[:901])
        loss = tf.reduce_sum(tf.foldl(lambda c, row: tf.tanh(c + row), rows, tf.zeros_like(x[0])))
    return tape.gradient(loss, part)


def mapped_again_gradient(x: tf.Tensor, keep: tf.Tensor) -> Any:
    """The gradient adds lists: all are as long as the one whose length is known."""
    part = x[:901]
    with tf.GradientTape() as tape:
        tape.watch(part)
        rows = tf.boolean_mask(part, keep[:901])
        again = tf.while_loop(
            lambda i, v: i < 2, lambda i, v: (i + 1, tf.map_fn(tf.tanh, v)), (0, rows)
        )
        loss = tf.reduce_sum(again[1] ** 2)
    return tape.gradient(loss, part)


def flagged(x: tf.Tensor, keep: tf.Tensor) -> Any:
    """The lowest bit of a number is at most one."""
    counts = tf.histogram_fixed_width(x[:, 0], [-2.0, 2.0], ROWS)
    return tf.sin(tf.repeat(x, counts & 1, axis=0)) * 2.0


PROGRAMS: dict[str, Callable[..., Any]] = {
    one.__name__: one
    for one in (where, masked, masked_gradient, slices, products, unique, parts, stitched, repeated,
                sparse, embedded, counted, mapped, grown, chosen, ragged, growing_array,
                list_of_zeros, sums_of_lists, list_in_a_loop, second_gradient, scanned,
                folded_gradient, mapped_again_gradient, flagged)
}  # fmt: skip
