"""What only TensorFlow's graphs have: gradients, GPflow's formulas, flags of its ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from core.test_mirroring import kernel
from frontends.tensorflow_namespace import TENSORFLOW

import tf_exla
from rewriting.rewritten import OPS, QUIET, Outcome, check_numbers, only, random, rewritten
from tf_exla.frontends.tf.capture import capture
from tf_exla.frontends.tf.restore import restore
from tf_exla.ir.check import check_graph
from tf_exla.ir.clean import clean
from tf_exla.rewrite.mirroring import mirror

DISTANCE = only("naive-distance", "cleanup")
SUMS = only("sums-of-products", "cleanup")
RANK_ONE = only("rank-one-terms", "cleanup")
DIAGONALS = only("diagonals", "chains", "cleanup")
M, N, MANY = 20, 300, 400


def naive(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    gpflow = pytest.importorskip("gpflow")
    return tf.reduce_sum(tf.square(gpflow.utilities.ops.difference_matrix(x, y)), -1)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_gpflows_differences(dtype: str) -> None:
    outcome = check_numbers(
        naive, random(200, 5, dtype=dtype), random(150, 5, dtype=dtype), families=DISTANCE
    )
    assert outcome.names.count("naive-distance") == 1
    assert outcome.largest <= 200 * 150


def test_gradients_of_a_naive_distance() -> None:
    def fn(x: tf.Tensor, y: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            gaps = x[..., :, None, :] - y[..., None, :, :]
            loss = tf.reduce_sum(tf.exp(-0.5 * tf.reduce_sum(tf.square(gaps), -1)))
        return tape.gradient(loss, [x, y])

    check_numbers(fn, random(200, 5), random(150, 5), families=True)


def gpflow_distance(x: tf.Tensor, y: tf.Tensor | None) -> tf.Tensor:
    gpflow = pytest.importorskip("gpflow")
    return gpflow.utilities.ops.square_distance(x, y)


@pytest.mark.parametrize(
    "fn",
    [
        gpflow_distance,
        lambda x, y: gpflow_distance(x, None),
        lambda x, y: tf.exp(-0.5 * gpflow_distance(x, y)),
    ],
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_gpflows_distance_is_one_product(fn: Callable[..., Any], dtype: str) -> None:
    args = random(60, 3, dtype=dtype), random(50, 3, dtype=dtype)
    outcome = check_numbers(fn, *args, families=RANK_ONE)
    assert "rank-one-terms" in outcome.names
    assert outcome.ops[-1] in ("matmul", "exp")


def test_gradient_of_a_gram_matrix() -> None:
    def fn(a: tf.Tensor, g: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(a)
            loss = tf.reduce_sum(tf.sin(tf.matmul(a, a, transpose_b=True)) * g)
        return tape.gradient(loss, a)

    outcome = check_numbers(fn, random(M, N), random(M, M), families=SUMS)
    assert outcome.ops.count("matmul") == 2


def test_gradients_of_einsums() -> None:
    def fn(a: Any, b: Any, c: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([a, b])
            loss = tf.reduce_sum(tf.einsum("bij,bkj,bk->bi", a, b, c) ** 2)
        return tape.gradient(loss, [a, b])

    outcome = check_numbers(fn, random(3, 40, 4), random(3, 50, 4), random(3, 50), families=None)
    assert "einsum" not in outcome.ops


@pytest.mark.parametrize(
    "fn",
    [
        lambda k, d: tf.linalg.diag_part(k @ k, k=(-1, 1)),
        lambda k, d: k[:8, :8] @ tf.linalg.diag(d[:7], k=1),
        lambda k, d: tf.linalg.diag(d, padding_value=2.0) @ k,
        lambda k, d: tf.reduce_sum(tf.linalg.diag(d, num_cols=12, num_rows=9), 1),
        lambda k, d: tf.linalg.diag_part(tf.matmul(k, k, adjoint_a=True) * k),
    ],
)
def test_other_diagonals_keep_their_numbers(fn: Callable[..., Any]) -> None:
    check_numbers(fn, random(9, 9), random(9), families=DIAGONALS)


def test_complex_adjoints_stay() -> None:
    a = tf.complex(random(9, 3), random(9, 3, seed=1))
    outcome = rewritten(lambda a: tf.linalg.diag_part(tf.matmul(a, a, adjoint_b=True)), a)
    assert not outcome.result.applications
    b = tf.cast(random(8, 8), "complex128")
    outcome = rewritten(lambda b: tf.matmul(b, b, adjoint_a=True) @ b[:, :1], b)
    assert not [name for name in outcome.names if "chain" in name]


def test_the_sign_of_a_sum_of_one_zero_stays() -> None:
    x = tf.constant([-0.0, 0.0, 1.0], tf.float64)
    check_numbers(lambda x: 1 / tf.reduce_sum(x[:, None], 1), x, families=only("cleanup"))


@pytest.mark.parametrize("value", [1, 2**30])  # sums of the second wrap
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
def test_sums_of_equal_integers(value: int, exclusive: bool, reverse: bool) -> None:
    def fn(x: tf.Tensor) -> tf.Tensor:
        sums = tf.cumsum(tf.fill([7, 9], value), 1, exclusive, reverse)
        return x * tf.cast(sums, x.dtype)

    outcome = check_numbers(fn, random(7, 9), families=only("cleanup"))
    assert "cumsum" not in outcome.ops


def test_a_mask_of_two_running_sums_is_split_along_both() -> None:
    """As Keras makes a causal mask."""
    x = random(1201, 4)

    def fn(x: tf.Tensor) -> tf.Tensor:
        ones = tf.ones([1201, 1201], tf.int32)
        causal = tf.cumsum(ones, -2) >= tf.cumsum(ones, -1)
        scores = tf.where(causal, tf.matmul(x, x, transpose_b=True), -1e9)
        return tf.matmul(tf.nn.softmax(scores), x)

    found = tf_exla.optimize(fn, "2MB", strict=True)(x)  # the mask: 1.4 MB, a sum: 5.8 MB
    np.testing.assert_allclose(found, tf.function(fn)(x), rtol=1e-9, atol=1e-12)


def large(outcome: Outcome) -> list[str]:
    """Return the ops that make something as large as the matrix, in order."""
    return [
        node.op
        for node in outcome.result.graph.nodes
        for tensor in node.outputs
        if tensor.size >= MANY * MANY and node.op not in QUIET
    ]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_gradients_of_a_kernel_read_it_twice(dtype: str) -> None:
    gpflow = pytest.importorskip("gpflow")
    args = (
        random(MANY, 3, dtype=dtype),
        random(MANY, 1, dtype=dtype),
        random(MANY, 2, dtype=dtype)[:, 1:],
    )
    with gpflow.config.as_context(gpflow.config.Config(float=tf.as_dtype(dtype).as_numpy_dtype)):
        rbf = gpflow.kernels.SquaredExponential(lengthscales=[1.0, 1.2, 0.7])

        def gradients(x: tf.Tensor, v: tf.Tensor, w: tf.Tensor) -> Any:
            with tf.GradientTape() as tape:
                tape.watch([x, v])
                loss = tf.reduce_sum(w * (rbf(x) @ v))
            return loss, tape.gradient(loss, [x, v, *rbf.trainable_variables])

        outcome = check_numbers(gradients, *args)
    assert large(outcome) == ["matmul", "exp"]
    readers = [
        n for n in outcome.result.graph.nodes if any(t.size >= MANY * MANY for t in n.inputs)
    ]
    assert [node.op for node in readers] == ["exp", "matmul", "matmul"]


def test_blocks_are_summed_over_chunks() -> None:
    """Nothing of [m, n] is left, and the numbers stay."""

    def fn(x: tf.Tensor, z: tf.Tensor, l: tf.Tensor) -> Any:  # noqa: E741
        with tf.GradientTape() as tape:
            tape.watch(l)
            a = tf.linalg.triangular_solve(l, tf.sin(tf.matmul(z, x, transpose_b=True)))
            value = tf.reduce_sum(
                tf.linalg.slogdet(
                    tf.matmul(a, a, transpose_b=True) + 1e3 * tf.eye(250, dtype=a.dtype)
                )[1]
            )
        return value, tape.gradient(value, l)

    l = tf.linalg.band_part(0.1 * random(250, 250), -1, 0) + 3.0 * tf.eye(250, dtype=tf.float64)  # noqa: E741
    args = random(40_000, 3), random(250, 3), l
    limit = 30_000_000
    optimized = tf_exla.optimize(fn, limit)
    for made, want in zip(
        tf.nest.flatten(optimized(*args)), tf.nest.flatten(fn(*args)), strict=True
    ):
        scale = float(tf.reduce_max(tf.abs(want)))
        np.testing.assert_allclose(made, want, rtol=1e-9, atol=1e-11 * scale)
    report = optimized.report(*args)
    assert {"gram", "masked"} <= {one.name for one in report.rewrites}
    assert report.projected_peak <= limit


def test_the_gradient_of_a_sparse_gp_solves_once() -> None:
    gpflow = pytest.importorskip("gpflow")
    X = np.random.default_rng(0).standard_normal((4_001, 3))
    Y = np.sin(X.sum(1, keepdims=True))
    kernel = gpflow.kernels.Matern32(lengthscales=np.ones(3))
    model = gpflow.models.SGPR((X, Y), kernel, X[:40].copy(), noise_variance=0.1)

    def fn() -> Any:
        with tf.GradientTape() as tape:
            loss = model.training_loss()
        return loss, tape.gradient(loss, model.trainable_variables)

    made = tf_exla.optimize(fn, "2MB", rewrites={"solves": True})
    report = made.report()
    assert {one.name for one in report.rewrites} >= {"solve-of-product", "product-of-sum"}
    assert report.projected_peak <= 2_000_000
    for got, want in zip(tf.nest.flatten(made()), tf.nest.flatten(fn()), strict=True):
        got, want = tf.convert_to_tensor(got).numpy(), tf.convert_to_tensor(want).numpy()
        scale = float(np.max(np.abs(want)))  # gradients of a sum of 4,001 terms that cancel
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-9 * scale)


def mirrored(x: tf.Tensor, y: tf.Tensor, v: tf.Tensor) -> Any:
    with tf.GradientTape() as tape:
        tape.watch([x, v])
        loss = tf.reduce_sum(v * tf.matmul(kernel(TENSORFLOW, x, x), v))
    return tape.gradient(loss, [x, v])


def test_numbers_of_mirrored_gradients_stay() -> None:
    args = random(70, 3), random(70, 3, seed=1), random(70, 2)
    concrete = tf.function(mirrored, autograph=False).get_concrete_function(*args)
    captured = capture(concrete)
    before = clean(captured.graph, OPS)
    graph = clean(mirror(before, OPS).graph, OPS)
    check_graph(graph, before)
    assert mirror(graph, OPS).graph is graph
    run = restore(graph, name="mirrored", like=concrete.graph.inputs, keep=captured.functions)
    for got, want in zip(run([*args, *captured.constants]), mirrored(*args), strict=True):
        scale = np.abs(want.numpy()).max()
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-12 * scale)


def test_gradients_share() -> None:
    """Of x xᵀ the gradient has G x and Gᵀ x, and of the distance the sums of both axes."""
    args = random(70, 3), random(70, 3, seed=1), random(70, 2)
    captured = capture(tf.function(mirrored, autograph=False).get_concrete_function(*args))
    before = clean(captured.graph, OPS)
    after = clean(mirror(before, OPS).graph, OPS)

    def reductions(graph: Any) -> int:
        large = [n for n in graph.nodes if any(t.shape == (70, 70) for t in n.inputs)]
        return sum(node.output.shape != (70, 70) for node in large)

    assert reductions(after) < reductions(before)
