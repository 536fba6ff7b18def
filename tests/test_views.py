"""A view keeps the whole tensor alive that it is a part of, however small it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from fresh_process import run_fresh

import tf_exla

N = 1 << 20
X = tf.constant(np.random.default_rng(0).random(N))
VIEWS: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "slice": lambda a: a[:16],
    "one row": lambda a: tf.reshape(a, [-1, 16])[0],
    "last": lambda a: tf.reshape(a, [-1, 16])[-1][:4],
    "split": lambda a: tf.split(tf.reshape(a, [-1, 16]), [1, -1])[0][0],
}


@pytest.mark.parametrize("name", VIEWS)
def test_small_views_keep_their_tensor(name: str) -> None:
    def function(x: tf.Tensor) -> tf.Tensor:
        a = tf.cumsum(x)
        view, largest = VIEWS[name](a), tf.reduce_max(a)
        b = tf.cumsum(-x)  # a lives: the view is read after this
        return view * tf.reduce_max(b) + largest

    report = tf_exla.explain(tf.function(function), X, limit="1GB")
    # X, a, -X, and b with what its kernel allocates.
    assert report.projected_peak >= 5 * X.dtype.size * N


def of_unknown_size() -> list[tf.Tensor]:
    """Parts of tensors whose size only the run tells."""
    rows = tf.where(X >= 0.0)[:, 0]
    return [tf.gather(X * k, rows)[:16] for k in range(1, 9)]


ROWS = tf.constant(np.random.default_rng(1).random((12, 64)))
M = tf.constant(np.random.default_rng(2).random((4096, 64)))


def mapped() -> tf.Tensor:
    return tf.map_fn(lambda row: tf.sin(M * row)[0], ROWS)


def written() -> tf.Tensor:
    rows = tf.TensorArray(tf.float64, 12, element_shape=[64])
    for k in tf.range(12):
        rows = rows.write(k, tf.cumsum(M * ROWS[k])[-1])
    return rows.stack()


def carried() -> tf.Tensor:
    h = ROWS[0]
    for _ in tf.range(6):
        h = tf.sin(M * h)[1]
    return h


def chosen() -> list[tf.Tensor]:
    found = []
    for k in range(6):
        part = tf.cond(
            ROWS[k, 0] > -1.0, lambda k=k: tf.cumsum(M * ROWS[k])[3:200], lambda: M[:197]
        )
        found.append(part)
    return found


def in_place() -> list[tf.Tensor]:
    return [tf.exp(tf.cumsum(M * ROWS[k])[7]) for k in range(8)]


@pytest.mark.one_of(2)
@pytest.mark.parametrize("program", [mapped, written, carried, chosen, in_place, of_unknown_size])
def test_views_that_are_stored_are_copies(program: Callable[[], Any]) -> None:
    found = run_fresh(measured_at_smallest, program.__name__)
    assert found["measured"] <= found["projected"] <= found["limit"]


def measured_at_smallest(name: str) -> dict[str, float]:
    function = tf.function(globals()[name])
    with pytest.raises(tf_exla.MemoryLimitError) as error:
        tf_exla.explain(function, limit=1)
    limit = error.value.smallest_limit + (4 << 20)  # without loops over chunks
    optimized = tf_exla.optimize(function, limit, strict=True)
    for one, other in zip(tf.nest.flatten(optimized()), tf.nest.flatten(function()), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    return {
        "limit": limit,
        "projected": optimized.report().projected_peak,
        "measured": int(tf_exla.measured_peak(optimized, fresh=False)),
    }


PARTS: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "split": lambda a: tf.split(a, 4, axis=1)[1],
    "pieces": lambda a: tf.split(a, [16, -1], axis=1)[0],
    "unstacked": lambda a: tf.unstack(tf.reshape(a, [4096, 4, -1]), axis=1)[2],
    "strided": lambda a: a[:, :16],
    "sliced": lambda a: tf.slice(a, [0, 16], [4096, 16]),
    "a part of a row": lambda a: tf.reshape(a, [2, -1])[1, :16],
}


@pytest.mark.parametrize("name", PARTS)
def test_parts_of_other_axes_are_copies(name: str) -> None:
    """The kernels return views of whole rows only, so nothing else keeps the tensor alive."""
    part = PARTS[name]

    def function(x: tf.Tensor) -> tf.Tensor:
        a = tf.cumsum(tf.reshape(x, [4096, -1]))
        few, largest = part(a), tf.reduce_max(a)
        b = tf.cumsum(-x)  # the part is read after this
        return tf.reduce_sum(few) * tf.reduce_max(b) + largest

    report = tf_exla.explain(tf.function(function), X, limit="1GB")
    assert report.projected_peak < 4.6 * X.dtype.size * N
    whole = tf.reshape(X, [4096, -1])
    assert shares(lambda a: a[8:16], whole)
    assert not shares(part, whole)


def shares(part: Callable[[tf.Tensor], tf.Tensor], a: tf.Tensor) -> bool:
    """Return whether TensorFlow's part lies in the buffer of the tensor."""
    parts = a, part(a)
    whole, few = (np.asarray(memoryview(t)).__array_interface__["data"][0] for t in parts)
    return whole <= few < whole + a.dtype.size * N
