"""Moved tensors made in their place: the same numbers, for all ways to move; what stays."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from frontends.op_cases import reals

from tf_exla.frontends.tf.capture import capture
from tf_exla.frontends.tf.op_set import TensorFlowOps
from tf_exla.frontends.tf.restore import restore
from tf_exla.ir.graph import Graph
from tf_exla.moves.moving import move
from tf_exla.moves.places import runs

X, Y = tf.constant(reals(11, 2)), tf.constant(reals(7, 2)[::-1])
LEAST = 8 * 22  # bytes of X: what is larger is made again


def grid(x: Any, y: Any) -> Any:
    return tf.exp(-tf.reduce_sum(tf.square(x[:, None] - y[None]), -1))


def gradient_of(way: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The gradient of a sum over what moved."""

    def gradient(u: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(u)
            y = tf.reduce_sum(way(u) ** 3)
        return tape.gradient(y, u)

    return gradient


def order(u: Any, axis: int) -> Any:
    """Indices of an axis in an order that is not known before."""
    return tf.argsort(tf.reduce_sum(u, 1 - axis))


WAYS: dict[str, Callable[[Any], Any]] = {
    "roll": lambda u: tf.roll(u, 3, 0),
    "roll back": lambda u: tf.roll(u, -8, 1),
    "roll both": lambda u: tf.roll(u, [2, 1, 1], [0, 1, 0]),
    "reverse": lambda u: tf.reverse(u, [0, 1]),
    "slice": lambda u: tf.slice(u, [2, 1], [5, -1]),
    "strided": lambda u: u[1:9:3, ::-1],
    "ellipsis": lambda u: u[..., 2:],
    "negative": lambda u: u[-4:-1, :-2],
    "pad": lambda u: tf.pad(u, [[2, 1], [0, 3]]),
    "pad with a number": lambda u: tf.pad(u, [[0, 1], [1, 0]], constant_values=2.5),
    "reflected": lambda u: tf.pad(u, [[2, 1], [0, 3]], "REFLECT"),
    "symmetric": lambda u: tf.pad(u, [[2, 1], [3, 3]], "SYMMETRIC"),
    "tile": lambda u: tf.tile(u, [2, 3]),
    "twice": lambda u: tf.roll(tf.pad(u, [[1, 1], [2, 0]]), 4, 0)[::2],
    "of a product": lambda u: tf.roll(tf.matmul(u, u, transpose_b=True), 1, 1),
    "of a transpose": lambda u: tf.roll(tf.transpose(tf.cumsum(u, 1)), 2, 1),
    "of the best": lambda u: tf.math.top_k(u, 3).values[::-1],
    "take": lambda u: tf.gather(u, order(u, 0)),
    "take columns": lambda u: tf.gather(u, order(u, 1), axis=1),
    "take both": lambda u: tf.gather(tf.gather(u, order(u, 0)), order(u, 1)[:4], axis=1),
    "take pairs": lambda u: tf.gather(u, tf.reshape(order(u, 1)[:6], [2, 3]), axis=1),
    "take what moved": lambda u: tf.gather(tf.roll(u, 2, 0), order(u, 0)[::2]),
}
WAYS |= {
    f"gradient of {name}": gradient_of(WAYS[name])
    for name in ("roll both", "slice", "strided", "pad", "tile", "twice", "of a product")
}
STAY: dict[str, Callable[[Any], Any]] = {
    "along what is summed up": lambda u: tf.roll(tf.cumsum(u, 0), 1, 0),
    "an axis that goes": lambda u: u[3],
    "by an argument": lambda u: tf.roll(u, tf.cast(u[0, 0], tf.int32), 0),
    "many runs": lambda u: tf.tile(u, [20, 1]),
    "more than there are": lambda u: tf.gather(u, tf.tile(order(u, 0), [2])),
    "rows of their own": lambda u: tf.gather(u, tf.argsort(u, 1), batch_dims=1),
    "of unknown size": lambda u: tf.roll(tf.boolean_mask(u, u[:, 0] > 0.5), 1, 0),
}


def moved(way: Callable[[Any], Any]) -> tuple[Graph, Graph, Any]:
    def function(x: tf.Tensor, y: tf.Tensor) -> Any:
        return way(grid(x, y))

    captured = capture(tf.function(function).get_concrete_function(X, Y))
    graph = move(captured.graph, TensorFlowOps(), LEAST)
    (found,) = restore(graph)([X, Y, *captured.constants])
    np.testing.assert_allclose(found, function(X, Y), 1e-14, 1e-14)
    return captured.graph, graph, found


@pytest.mark.parametrize("name", WAYS)
def test_ways_to_move(name: str) -> None:
    before, after, _ = moved(WAYS[name])
    assert after is not before
    # What stays moves something small: the operands, or numbers of elements.
    ways = ("Roll", "ReverseV2", "Tile", "Pad", "PadV2", "MirrorPad", "StridedSliceGrad")
    large = [n for n in after.nodes if n.op in ways and n.inputs[-1].nbytes > LEAST]
    large += [n for n in after.nodes if n.op == "take" and n.inputs[0].nbytes > LEAST]
    assert not large or name.startswith("gradient")


@pytest.mark.parametrize("name", STAY)
def test_what_stays(name: str) -> None:
    before, after, _ = moved(STAY[name])
    assert after is before


def test_what_is_compared_stays_one() -> None:
    """A shifted copy would not have the bits of what its maximum was found in."""

    def way(u: Any) -> Any:
        return tf.cast(tf.roll(u, 1, 0) == tf.reduce_max(u, 0), tf.int32)

    before, after, found = moved(way)
    assert after is before
    assert np.sum(found) >= 7


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ([0, 1, 2], [(0, 3, 1)]),
        ([3, 4, 0, 1, 2], [(3, 2, 1), (0, 3, 1)]),
        ([-1, -1, 0, 1], [(-1, 2, 0), (0, 2, 1)]),
        ([6, 4, 2], [(6, 3, -2)]),
        ([5], [(5, 1, 1)]),
    ],
)
def test_runs(places: list[int], expected: list[tuple[int, int, int]]) -> None:
    assert list(runs(np.asarray(places))) == expected
    made = [
        first + k * step for first, count, step in runs(np.asarray(places)) for k in range(count)
    ]
    assert made == places


def test_runs_are_found_one_by_one() -> None:
    """Every other place of a long axis: nobody waits for all of its runs."""
    places = np.where(np.arange(10**6) % 2, np.arange(10**6), -1)
    assert list(islice(runs(places), 3)) == [(-1, 1, 1), (1, 1, 1), (-1, 1, 1)]
