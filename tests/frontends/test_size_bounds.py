"""Bounds of sizes that depend on data, against the sizes that data of any kind make."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tf_exla.frontends.tf.capture import capture
from tf_exla.frontends.tf.op_set import OPS
from tf_exla.model.sizes import Sizes
from tf_exla.model.unbounded import unbounded

X = tf.constant(np.arange(24.0).reshape(12, 2))
Made = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
"""A program of some rows of X, and of their number c."""


def slices() -> dict[str, Made]:
    """Return all kinds of slices: their ends from either side, both directions."""
    ends = (None, 0, 3, 7, -1, -3, -9)
    made: dict[str, Made] = {}
    for begin, end, step in itertools.product(ends, ends, (1, 2, -1)):
        part = slice(begin, end, step)
        text = ":".join("" if one is None else str(one) for one in (begin, end, step))
        made[f"y[{text}]"] = lambda y, c, part=part: y[part]
        made[f"y[{text}, :]"] = lambda y, c, part=part: y[part, :]
        made[f"transpose(y)[:, {text}]"] = lambda y, c, part=part: tf.transpose(y)[:, part]
    return made


def unknown(c: tf.Tensor) -> tf.Tensor:
    """An integer of which nothing is known, from -36 to 0."""
    return tf.cast(-3.0 * tf.cast(c, tf.float32), tf.int32)


def nothing(y: tf.Tensor) -> tf.Tensor:
    """Numbers of which there are none, which only the run tells."""
    return tf.cast(tf.reduce_sum(y) * tf.zeros([0], y.dtype), tf.float32)


def bins(x: tf.Tensor) -> tf.Tensor:
    return tf.raw_ops.Bucketize(input=x, boundaries=[-1.0, 0.0, 1.0])


def logits(y: tf.Tensor) -> tf.Tensor:
    """Logits of three classes for two sequences, with a step for each row."""
    return tf.cast(y, tf.float32)[:, :, None] * tf.constant([1.0, 2.0, -1.0])


def repeated(
    step: Callable[[tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]], n: Any, m: Any
) -> tf.Tensor:
    """Return the first of two integers after three steps; nothing tells how many there are."""
    made = tf.while_loop(
        lambda i, n, m: i < 2.5, lambda i, n, m: (i + 1.0, *step(n, m)), (tf.constant(0.0), n, m)
    )
    return tf.convert_to_tensor(made[1])


def listed(c: tf.Tensor) -> tf.Tensor:
    """Return a vector whose size follows from a list that its loop changes."""
    sizes = tf.TensorArray(tf.int32, 1, clear_after_read=False, element_shape=[]).write(0, c // 6)

    def step(i: tf.Tensor, x: tf.Tensor, sizes: tf.TensorArray) -> Any:
        n = sizes.read(0)
        return i + 1.0, tf.zeros([tf.minimum(n, 30)]), sizes.write(0, n + 9)

    shapes = (tf.TensorShape([]), tf.TensorShape([None]), tf.TensorShape(None))
    first = tf.constant(0.0), tf.zeros([c // 6]), sizes
    return tf.while_loop(lambda i, *_: i < 2.5, step, first, shape_invariants=shapes)[1]


SIZES: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "12 - c": lambda c: 12 - c,
    "12 - (c - 3)": lambda c: 12 - (c - 3),
    "12 - (3 - c)": lambda c: 12 - (3 - c),
    "(c - 3) ** 2": lambda c: (c - 3) * (c - 3),
    "(3 - c) ** 2": lambda c: (3 - c) * (3 - c),
    "(c - 9) (2 - c)": lambda c: (c - 9) * (2 - c),
    "product": lambda c: tf.reduce_prod(tf.stack([3 - c, 3 - c])),
    "product of three": lambda c: (2 - c) * (1 - c) * (c - 3),
    "sum of differences": lambda c: 20 - tf.reduce_sum(tf.stack([3 - c, c, 1 - c])),
    "quotient": lambda c: 3 - 12 // (c - 13),
    "squared quotient": lambda c: (12 // (c - 13)) * (12 // (c - 13)),
    "maximum": lambda c: tf.maximum(c, 12 - c) * tf.maximum(3 - c, 0),
    "squared maximum": lambda c: tf.maximum(3 - c, c - 9) * tf.maximum(3 - c, c - 9),
    "minimum": lambda c: tf.minimum(c, 12 - c),
    "choice": lambda c: tf.where(c > 5, 3 - c, 12 - c) * -1 + 12,
    "clipped": lambda c: tf.clip_by_value(12 - (3 - c), 0, 20),
    "clipped where bounds exclude each other": lambda c: tf.raw_ops.ClipByValue(
        t=c, clip_value_min=9, clip_value_max=5
    ),
    "remainder": lambda c: c % 5,
    "gathered": lambda c: tf.gather(tf.constant([12, 3, 1, 4, 5, 6, 7, 8, 9, 10, 11, 12, 2]), c),
    "less a clipped unknown": lambda c: 12 - tf.clip_by_value(unknown(c), -7, 5),
    "squared clipped unknown": lambda c: tf.math.multiply(
        tf.clip_by_value(unknown(c), -7, 5), tf.clip_by_value(unknown(c), -6, 1)
    ),
    "less a minimum": lambda c: 12 - tf.minimum(unknown(c), 5),
    "less a least": lambda c: 12 - tf.reduce_min(tf.stack([tf.minimum(unknown(c), 5), 3])),
    "less a chosen": lambda c: 12 - tf.where(c > 5, tf.minimum(unknown(c), 5), 3),
    "less a truncated remainder": lambda c: 12 - tf.truncatemod(unknown(c), 5),
    "less a remainder": lambda c: 12 - unknown(c) % 5,
    "less a quotient": lambda c: 12 - tf.minimum(unknown(c), 5) // 2,
    "less a sum": lambda c: 12 - tf.reduce_sum(tf.stack([tf.minimum(unknown(c), 5), c])),
    "less a product": lambda c: 12 - 2 * tf.minimum(unknown(c), 5),
    "less a distinct": lambda c: 12 - tf.unique(tf.stack([tf.minimum(unknown(c), 5), 3]))[0][0],
    "less a position": lambda c: 12 - tf.argmax(tf.stack([unknown(c), -3]), output_type=tf.int32),
    "less a counter": lambda c: (
        12 - tf.while_loop(lambda i, n: i < c, lambda i, n: (i + 1, n - 1), (-2, -5))[1]
    ),
    "carried": lambda c: repeated(lambda n, m: (tf.where(n > 3, n, n), m), c, c),
    "carried and swapped": lambda c: repeated(lambda n, m: (m, n), c, c),
    "carried by the next": lambda c: repeated(lambda n, m: (m, m + 1), c, 0),
    "carried and enlarged": lambda c: repeated(lambda n, m: (2 * n, m), c % 3, c),
    "carried and cut": lambda c: repeated(lambda n, m: (tf.minimum(2 * n, 9), m), c, c),
    "enlarged, then cut": lambda c: repeated(lambda n, m: (tf.minimum(2 * n, 9), m), 1, c),
    "less a carried": lambda c: 20 - repeated(lambda n, m: (-n, m), c, c),
    "less a cut": lambda c: 20 - repeated(lambda n, m: (tf.maximum(n - 2, -5), m), c, c),
    "carried by loops of loops": lambda c: repeated(
        lambda n, m: (repeated(lambda p, q: (tf.where(p > 3, p, q), p), n, n), m), c, c
    ),
    "enlarged in loops of loops": lambda c: repeated(
        lambda n, m: (repeated(lambda p, q: (p + q, p), n, m), m), c % 2, c % 2
    ),
    "negative": lambda c: -(c - 12),
    "distance": lambda c: tf.abs(c - 7),
    "squared distance": lambda c: tf.square(c - 7),
    "times a negative": lambda c: (c - 12) * -3,
    "less a negative": lambda c: 12 - c * -2,
    "quotient of negatives": lambda c: (c - 30) // (c - 14),
    "least of some": lambda c: tf.minimum(tf.reduce_min(tf.range(c)), 30),
    "less the largest of some": lambda c: 5 - tf.maximum(tf.reduce_max(tf.range(c)), -30),
    "unsigned": lambda c: tf.cast(tf.minimum(tf.cast(3 - c, tf.uint8), 100), tf.int32),
    "less a masked": lambda c: 12 - tf.bitwise.bitwise_and(unknown(c), 7),
    "counted down": lambda c: tf.while_loop(
        lambda i, n: i < c, lambda i, n: (i + 1, n - 1), (0, 12)
    )[1],
}
OTHERS: dict[str, Made] = {
    "range to 12": lambda y, c: tf.range(c, 12),
    "range back": lambda y, c: tf.range(12, c, -1),
    "range in steps": lambda y, c: tf.range(0, 12, c + 1),
    "range in steps up or down": lambda y, c: tf.range(30, 3 * c, tf.where(c > 10, 1, -1)),
    "range back to below zero": lambda y, c: tf.range(5, 3 - c, -2),
    "X[:c - 5]": lambda y, c: X[: c - 5],
    "begin without an effect": lambda y, c: tf.strided_slice(y, [9], [11], [1], begin_mask=1),
    "padded boxes": lambda y, c: tf.raw_ops.NonMaxSuppressionV4(
        boxes=tf.zeros([5, 4]),
        scores=tf.zeros([5]),
        max_output_size=c + 9,
        iou_threshold=0.5,
        score_threshold=0.0,
        pad_to_max_output_size=True,
    )[0],
    "X[c:]": lambda y, c: X[c:],
    "X[-c:]": lambda y, c: X[-c:],
    "X[:-c]": lambda y, c: X[:-c],
    "X[3 - c : 5 - c]": lambda y, c: X[3 - c : 5 - c],
    "slice": lambda y, c: tf.slice(X, [c, 0], [-1, -1]),
    "parts": lambda y, c: tf.split(X, [c, 12 - c])[0],
    "other part": lambda y, c: tf.split(tf.transpose(X), [c, 12 - c], -1)[1],
    "the rest": lambda y, c: tf.split(X, [c, -1])[1],
    "part of an unknown size": lambda y, c: tf.split(X, [12 + unknown(c) // 3, -1])[0],
    "parts of some rows": lambda y, c: tf.split(y, 2, 1)[1],
    "static parts of some rows": lambda y, c: tf.split(tf.concat([y, X[:4]], 0), [4, -1])[1],
    "rows by parts of a shape": lambda y, c: tf.zeros(tf.split(tf.shape(y), 2)[0]),
    "less a part of integers": lambda y, c: tf.zeros(
        [20 - tf.split(tf.stack([3 - c, c]), [tf.size(y) // 24 + 1, -1])[0][0]]
    ),
    "slice of a size": lambda y, c: tf.slice(X[:, 0], [0], [c - 1]),
    "sparse sum": lambda y, c: tf.reshape(
        tf.sparse.reduce_sum(tf.SparseTensor([[0, 0]], [1.0], tf.cast([13 - c, 2], tf.int64)), 1),
        [-1],
    ),
    "crosses": lambda y, c: tf.sparse.cross_hashed([tf.cast(y, tf.int64)] * 2, 9).values,
    "crosses of sparse features": lambda y, c: tf.sparse.to_dense(
        tf.sparse.cross_hashed(
            [tf.sparse.from_dense(tf.cast(y, tf.int64)), tf.cast(y, tf.int64)], 9
        )
    ),
    "labels": lambda y, c: (
        tf.nn.ctc_greedy_decoder(logits(y), tf.fill([2], c), merge_repeated=False)[0][0].values
    ),
    "places of labels by beams": lambda y, c: (
        tf.nn.ctc_beam_search_decoder(logits(y), tf.fill([2], c))[0][0].indices
    ),
    "pad": lambda y, c: tf.pad(y, [[12 - c, c], [0, 0]]),
    "tridiagonal of five": lambda y, c: tf.linalg.tridiagonal_solve(
        tf.tile(tf.constant([[1.0], [4.0], [1.0]], y.dtype), [1, 5]), y
    ),
    "repeat of nothing": lambda y, c: tf.repeat(nothing(y), bins(nothing(y)) & 1),
    "sizes that a list of a loop tells": lambda y, c: listed(c),
    "tile": lambda y, c: tf.tile(y, [12 - c, 1]),
    "repeat": lambda y, c: tf.repeat(y[:, 0], 12 - c),
    "fill": lambda y, c: tf.fill([13 - c, c], 1.0),
    "concat": lambda y, c: tf.concat([y, X[c:]], 0),
    "outer": lambda y, c: tf.matmul(y, X[c:], transpose_b=True),
    "broadcast": lambda y, c: tf.broadcast_to(X[:1], [13 - c, 2]),
    "other rows": lambda y, c: tf.boolean_mask(X, tf.range(12) >= c),
    "choice": lambda y, c: tf.cond(c > 4, lambda: y, lambda: X[c:]),
}
PROGRAMS: dict[str, Made] = {
    **slices(),
    **{name: lambda y, c, size=size: tf.zeros([size(c)]) for name, size in SIZES.items()},
    **OTHERS,
}
UNBOUNDED = {
    *("product", "range to 12", "choice", "quotient", "squared quotient"),
    *(f"less a {name}" for name in ("minimum", "least", "chosen", "quotient", "sum", "product")),
    "less a distinct",
    *("carried by the next", "carried and enlarged", "enlarged, then cut"),
    *("less a carried", "less a cut", "enlarged in loops of loops"),
    "sizes that a list of a loop tells",
}
"""Programs that may have no bound: they are refused."""


@pytest.mark.one_of(4)
@pytest.mark.parametrize("part", range(8))
def test_no_result_is_larger_than_its_bound(part: int) -> None:
    for name in list(PROGRAMS)[part::8]:
        program = PROGRAMS[name]
        function = tf.function(
            lambda keep, program=program: program(
                tf.boolean_mask(X, keep), tf.reduce_sum(tf.cast(keep, tf.int32))
            ),
            autograph=False,
        )
        graph = capture(function.get_concrete_function(tf.TensorSpec([12], tf.bool))).graph
        sizes = Sizes(OPS)
        sizes.lists(graph)
        (result,) = graph.outputs
        bound = result.size if result.is_static else sizes.most(result).size
        assert name in UNBOUNDED or not list(unbounded(sizes, graph)), name
        if bound is None:
            assert name in UNBOUNDED, name
            continue
        for count in range(13):
            try:
                made = function(tf.range(12) < count)
            except tf.errors.InvalidArgumentError:
                continue  # a negative size
            assert int(tf.size(made)) <= bound, (name, count)
