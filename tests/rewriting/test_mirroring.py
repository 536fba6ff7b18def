"""What a symmetric tensor gives in two ways is computed once, and nothing else is merged."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from rewriting.rewritten import OPS, random
from tf_exla.frontends.tf.capture import capture
from tf_exla.frontends.tf.restore import restore
from tf_exla.ir.check import check_graph
from tf_exla.ir.clean import clean
from tf_exla.rewrite.mirroring import mirror

N = 70


def kernel(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    rows, columns = (tf.reduce_sum(tf.square(z), 1, keepdims=True) for z in (x, y))
    return tf.exp(2.0 * tf.matmul(x, y, transpose_b=True) - rows - tf.transpose(columns))


def both(k: tf.Tensor, v: tf.Tensor) -> list[tf.Tensor]:
    return [
        tf.matmul(k, v) + tf.matmul(k, v, transpose_a=True),
        tf.reduce_sum(k, 0),
        tf.reduce_sum(k, 1, keepdims=True),
        tf.matmul(tf.transpose(k), tf.exp(v)),
    ]


def symmetric(x: tf.Tensor, y: tf.Tensor, v: tf.Tensor) -> Any:
    return both(kernel(x, x), v)


def asymmetric(x: tf.Tensor, y: tf.Tensor, v: tf.Tensor) -> Any:
    return both(kernel(x, y), v)


def antisymmetric(x: tf.Tensor, y: tf.Tensor, v: tf.Tensor) -> Any:
    return both(v[:, :1] - tf.transpose(v[:, :1]), v)


def gradients(x: tf.Tensor, y: tf.Tensor, v: tf.Tensor) -> Any:
    with tf.GradientTape() as tape:
        tape.watch([x, v])
        loss = tf.reduce_sum(v * tf.matmul(kernel(x, x), v))
    return tape.gradient(loss, [x, v])


def in_a_while(x: tf.Tensor, y: tf.Tensor, v: tf.Tensor) -> Any:
    def body(i: tf.Tensor, a: tf.Tensor) -> Any:
        k = kernel(a, a)
        return i + 1, tf.matmul(k, a) - tf.matmul(k, a, transpose_a=True) + 0.9 * a

    return tf.while_loop(lambda i, a: i < 3, body, (0, x))


# The products and sums over rows or columns that are left, and the transposes.
CASES = [
    (symmetric, {"matmul": 3, "permute_dims": 1, "sum": 2}),  # K, K v, K exp(v); |x|^2, of K
    (asymmetric, {"matmul": 4, "permute_dims": 2, "sum": 4}),
    (antisymmetric, {"matmul": 3, "permute_dims": 2, "sum": 2}),
    (gradients, {}),
    (in_a_while, {}),
]


@pytest.mark.parametrize(("fn", "left"), CASES, ids=lambda one: getattr(one, "__name__", ""))
def test_mirror(fn: Any, left: dict[str, int]) -> None:
    args = random(N, 3), random(N, 3, seed=1), random(N, 2)
    concrete = tf.function(fn, autograph=False).get_concrete_function(*args)
    captured = capture(concrete)
    before = clean(captured.graph, OPS)
    found = mirror(before, OPS)
    graph = clean(found.graph, OPS)
    check_graph(graph, before)
    assert mirror(graph, OPS).graph is graph
    if left:
        assert len(found.applications) == sum(node.op in left for node in before.nodes) - sum(
            left.values()
        )
    counts = Counter(node.op for node in graph.nodes)
    assert {op: counts[op] for op in left} == left
    run = restore(graph, name="mirrored", like=concrete.graph.inputs, keep=captured.functions)
    for got, want in zip(
        run([*args, *captured.constants]), tf.nest.flatten(fn(*args)), strict=True
    ):
        scale = np.abs(want.numpy()).max()
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-12 * scale)


def test_gradients_share() -> None:
    """Of x xᵀ the gradient has G x and Gᵀ x, and of the distance the sums of both axes."""
    args = random(N, 3), random(N, 3, seed=1), random(N, 2)
    captured = capture(tf.function(gradients, autograph=False).get_concrete_function(*args))
    before = clean(captured.graph, OPS)
    after = clean(mirror(before, OPS).graph, OPS)

    def reductions(graph: Any) -> int:
        large = [n for n in graph.nodes if any(t.shape == (N, N) for t in n.inputs)]
        return sum(node.output.shape != (N, N) for node in large)

    assert reductions(after) < reductions(before)
