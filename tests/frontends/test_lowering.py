"""Every lowering computes what the op computes, also on what is no number."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf
from frontends.op_cases import reals

import tf_exla
from tf_exla.frontends.tf.capture import capture
from tf_exla.frontends.tf.op_set import TensorFlowOps
from tf_exla.frontends.tf.restore import restore
from tf_exla.ir.graph import Array, Shape
from tf_exla.moves.lowering import LOWERINGS, lower
from tf_exla.moves.scattering import scatter_rows


def holes(*shape: int) -> Array:
    """Ties, and rows of what is no number, of infinities, and of both."""
    values = np.round(3 * reals(*shape))
    values[0] = np.nan
    values[1] = np.inf
    values[2, ::2] = -np.inf
    values[3, 1::2] = np.nan
    return values


def moved_diagonal(x: tf.Tensor, k: int, combine: Callable[..., tf.Tensor]) -> tf.Tensor:
    d = tf.linalg.diag_part(x, k=k)
    return tf.linalg.set_diag(x, combine(d, tf.sin(d)), k=k)


def test_a_diagonal_that_is_added_is_not_looked_for() -> None:
    function = tf.function(lambda x: moved_diagonal(x, 0, tf.add))
    graph = capture(function.get_concrete_function(tf.TensorSpec([5, 5], tf.float64))).graph
    made = [node.op for node in lower(graph, TensorFlowOps(), 0).nodes]
    assert made.count("add") == 1
    assert made.count("where") == 2  # of x, for the diagonal itself, and of what is added


PROGRAMS: dict[str, tuple[Callable[..., tf.Tensor], Array]] = {
    "softmax": (tf.nn.softmax, reals(3, 5, 7)),
    "cross entropy": (
        lambda x: tf.nn.sparse_softmax_cross_entropy_with_logits([0, 6, 3], x), reals(3, 7)),
    "cross entropy, far": (
        lambda x: tf.nn.sparse_softmax_cross_entropy_with_logits(
            tf.constant([0, 6, 3], tf.int64), x), 900 * reals(3, 7)),
    "log_softmax": (tf.nn.log_softmax, 900 * reals(5, 7)),
    "mean": (lambda x: tf.reduce_mean(x, [0, 2]), reals(3, 5, 7)),
    "mean of all": (tf.reduce_mean, reals(5, 7)),
    "mean, kept": (lambda x: tf.reduce_mean(x, 1, keepdims=True), reals(5, 7)),
    "mean of integers": (lambda x: tf.reduce_mean(x, 1), np.arange(35).reshape(5, 7) - 20),
    "mean of bytes": (lambda x: tf.reduce_mean(x, 1), np.full([3, 300], 200, np.uint8)),
    "mean of wrapped": (lambda x: tf.reduce_mean(x, 1), np.full([3, 9], 2**30, np.int32)),
    "mean of unsigned": (lambda x: tf.reduce_mean(x, 1), np.full([3, 9], 2**30, np.uint32)),
    "mean in half": (lambda x: tf.reduce_mean(x, 1), np.full([3, 99], 9, np.float16)),
    "mean of complex": (lambda x: tf.reduce_mean(x, 1), reals(5, 7) * (1 + 2j)),
    "argmin": (lambda x: tf.argmin(x, 1), holes(9, 7)),
    "argmax": (lambda x: tf.argmax(x, 1, tf.int32), holes(9, 7)),
    "argmax of columns": (lambda x: tf.argmax(x, 0), holes(9, 7)),
    "argmin of one axis of three": (lambda x: tf.argmin(x, -2), np.round(9 * reals(4, 6, 5))),
    "argmin of integers": (
        lambda x: tf.argmin(x, 0), np.asarray([[5, 2**31 - 1], [2, 2**31 - 1]], np.int32)),
    **{
        f"band {lower} {upper}": (
            lambda x, b=(lower, upper): tf.linalg.band_part(x, *b), reals(3, 5, 7))
        for lower in (-1, 0, 2)
        for upper in (-1, 0, 3, 6)
    },
    "scatter_add": (
        lambda x: tf.tensor_scatter_nd_add(x, [[0, 1], [2, 4], [0, 1]], x[0, :3]), reals(3, 5)),
    "scatter_add of rows": (
        lambda x: tf.tensor_scatter_nd_add(x, tf.constant([[2], [0], [2]], tf.int64), x[:3]),
        reals(4, 5)),
    "scatter_sub of integers": (
        lambda x: tf.tensor_scatter_nd_sub(x, [[1], [1]], x[2:4]), np.arange(12).reshape(4, 3)),
    "set_diag": (lambda x: tf.linalg.set_diag(x, 2 * x[..., 0]), reals(3, 5, 5)),
    "set_diag of an oblong": (lambda x: tf.linalg.set_diag(x, x[..., 0]), reals(3, 5, 7)),
    **{
        f"{name} a diagonal{where}": (
            lambda x, k=k, sum=sum: moved_diagonal(x, k, sum), reals(*shape))
        for name, sum in (("added to", tf.add), ("subtracted from", tf.subtract))
        for where, k, shape in ((" of a batch", 0, (3, 5, 5)), (" above", 1, (5, 7)))
    },
    "set_diag of another diagonal": (
        lambda x: tf.linalg.set_diag(x, tf.linalg.diag_part(2 * x) + x[0]), reals(5, 5)),
    "set_diag of a negative diagonal": (
        lambda x: tf.linalg.set_diag(x, x[0] - tf.linalg.diag_part(x)), reals(5, 5)),
    "diag": (tf.linalg.diag, reals(3, 5)),
    "diag above": (lambda x: tf.linalg.diag(x, k=1), reals(3, 5)),
    "diag below": (lambda x: tf.linalg.diag(x, k=-2), reals(3, 5)),
    "diag in an oblong": (lambda x: tf.linalg.diag(x, k=-2, num_cols=5, num_rows=9), reals(3, 5)),
    "diagonals": (lambda x: tf.linalg.diag(x, k=(0, 1)), reals(3, 2, 5)),
    "diag, padded": (lambda x: tf.linalg.diag(x, padding_value=2.0), reals(3, 5)),
    "diag_part": (tf.linalg.diag_part, holes(7, 7)),
    "diag_part of truth": (tf.linalg.diag_part, reals(2, 7, 7) > 0.5),
    **{
        f"diag_part {k} of {shape}": (lambda x, k=k: tf.linalg.diag_part(x, k=k), holes(*shape))
        for k in (-2, 0, 1)
        for shape in ((7, 7), (5, 9), (9, 4))
    },
    "diag_part of truth above": (lambda x: tf.linalg.diag_part(x, k=1), reals(2, 7, 5) > 0.5),
    "diag_part of one": (lambda x: tf.linalg.diag_part(x, k=(1, 1)), reals(3, 5, 5)),
    "diag_parts": (lambda x: tf.linalg.diag_part(x, k=(-1, 1)), reals(3, 5, 5)),
    "set_diag above": (lambda x: tf.linalg.set_diag(x, x[..., 0, 2:], k=2), reals(3, 5, 5)),
    "set_diag below": (lambda x: tf.linalg.set_diag(x, x[..., :3, 0], k=-2), reals(3, 5, 4)),
    **{
        f"patches {sizes} {steps} {rates} {padding}": (
            lambda x, s=sizes, t=steps, r=rates, p=padding: tf.image.extract_patches(
                x, [1, *s, 1], [1, *t, 1], [1, *r, 1], p), reals(2, 9, 12, 3))
        for padding in ("VALID", "SAME")
        for sizes, steps, rates in (
            ((3, 3), (1, 1), (1, 1)), ((2, 4), (3, 2), (1, 1)), ((3, 2), (1, 2), (2, 3)))
    },
    "one of each row": (lambda x: tf.gather(x, [6, 0, 3, 1, 2], batch_dims=1), holes(5, 7)),
    "one of each row, kept": (
        lambda x: tf.gather(x, [[6], [0], [3], [1], [2]], axis=1, batch_dims=1), holes(5, 7)),
    "one slice of each row": (
        lambda x: tf.gather(x, tf.constant([6, 0, 3, 1, 2], tf.int64), batch_dims=1),
        holes(5, 7, 3)),
    "one of each row of a batch": (
        lambda x: tf.gather(x, [[[6], [0]], [[3], [1]]], batch_dims=2), reals(2, 2, 7)),
    "one truth of each row": (lambda x: tf.gather(x, [6, 0, 3], batch_dims=1), reals(3, 7) > 0),
    "one of each row by a short index": (
        lambda x: tf.gather(x, tf.constant([6, 0, 3, 1, 2], tf.int16), batch_dims=1), reals(5, 7)),
    "two of each row": (
        lambda x: tf.gather(x, [[6, 0], [3, 1], [2, 2]], batch_dims=1), reals(3, 7)),
    "eye": (lambda x: x + tf.eye(99, dtype=x.dtype), reals(99, 99)),
}  # fmt: skip
UNCHANGED = {
    "two of each row",
    "mean of unsigned",
    "diag, padded",
    "diagonals",
    "diag_parts",
    "band -1 -1",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_lowering(name: str) -> None:
    function, values = PROGRAMS[name]
    concrete = tf.function(function).get_concrete_function(tf.constant(values))
    captured = capture(concrete)
    graph = lower(captured.graph, TensorFlowOps(), 0)
    assert (graph is captured.graph) == (name in UNCHANGED)
    before = {node.name for node in captured.graph.nodes if node.op in LOWERINGS}
    left = [node.op for node in graph.nodes if node.op in LOWERINGS and node.name in before]
    assert not left or name in UNCHANGED
    (found,) = restore(graph)([tf.constant(values)])
    expected = function(tf.constant(values))
    assert found.dtype == expected.dtype
    # Softmax and mean add in another order than their kernels.
    np.testing.assert_allclose(found, expected, rtol=1e-14)


@pytest.mark.parametrize("label", [-1, 7, 2**30])
def test_a_label_that_does_not_exist(label: int) -> None:
    """The same error as from the op itself, on a CPU."""
    x, labels = tf.constant(reals(3, 7)), tf.constant([0, label, 3])
    function = tf.function(tf.nn.sparse_softmax_cross_entropy_with_logits)
    captured = capture(function.get_concrete_function(labels, x))
    lowered = restore(lower(captured.graph, TensorFlowOps(), 0))
    for run in (lambda: function(labels, x), lambda: lowered([labels, x])):
        with pytest.raises(tf.errors.InvalidArgumentError, match=str(label)):
            run()


def neighbours(x: tf.Tensor) -> tf.Tensor:
    """Products of each row with the next ones, over the sum of those with all rows."""
    k = tf.exp(tf.matmul(x, x, transpose_b=True))
    sums = tf.reduce_sum(k, 1)
    above, below = tf.linalg.diag_part(k, k=1), tf.linalg.diag_part(k, k=-2)
    return tf.reduce_sum(above / sums[1:]) + tf.reduce_sum(below / sums[2:])


def bands(x: tf.Tensor) -> tf.Tensor:
    """A matrix with other numbers on a side diagonal, plus a matrix of a diagonal."""
    k = tf.tanh(tf.matmul(x, x, transpose_b=True))
    k = tf.linalg.set_diag(k, x[3:, 0], k=3) + tf.linalg.diag(x[:-1, 1], k=-1)
    return tf.reduce_sum(tf.square(k), 1)


@pytest.mark.each_value
@pytest.mark.parametrize("padding", ["VALID", "SAME"])
@pytest.mark.parametrize("batch", [1, 2])
def test_patches_of_an_image_that_do_not_fit(padding: str, batch: int) -> None:
    """Weights of the pixels around each pixel, and the gradient."""
    image = tf.constant(reals(batch, 50, 60, 2))

    def function(image: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(image)
            around = tf.image.extract_patches(image, [1, 7, 7, 1], [1] * 4, [1] * 4, padding)
            result = tf.reduce_logsumexp(around * tf.reduce_mean(around, -1, keepdims=True), -1)
        return [result, tape.gradient(result, image)]

    optimized = tf_exla.optimize(function, 1_900_000 + 300_000 * batch, strict=True)
    assert optimized.report(image).projected_peak_before > 3_000_000 * batch
    for found, expected in zip(optimized(image), tf.function(function)(image), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("function", [neighbours, bands])
def test_side_diagonals_of_a_matrix_that_does_not_fit(function: Callable[..., tf.Tensor]) -> None:
    x = tf.constant(reals(1009, 3) - 0.5)

    def with_gradient(x: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(x)
            result = function(x)
        return [result, tape.gradient(result, x)]

    optimized = tf_exla.optimize(with_gradient, "2MB", strict=True)  # the matrix: 8 MB
    for found, expected in zip(optimized(x), tf.function(with_gradient)(x), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def extremes(x: tf.Tensor, y: tf.Tensor) -> list[tf.Tensor]:
    k = x * y + x
    return [tf.argmin(k, 1), tf.argmax(k, 1, tf.int32), tf.argmax(tf.transpose(k), 0)]


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32"])
@pytest.mark.parametrize("gaps", [False, True])
def test_extremes_of_chunks(dtype: str, gaps: bool) -> None:
    """Ties go to the lower index, across chunks too."""
    size = 100_003
    rng = np.random.default_rng(0)
    x, y = (np.round(3 * rng.standard_normal(shape)) for shape in ((3, 1), (1, size)))
    if gaps and dtype != "int32":
        y[0, rng.integers(0, size, size // 2)] = np.nan
        y[0, : size // 2] = np.nan
        y[0, size // 3 : size // 2] = np.inf
        x[0], x[1] = np.nan, np.inf
    arguments = tf.constant(x, dtype), tf.constant(y, dtype)
    with pytest.raises(tf_exla.MemoryLimitError) as info:
        tf_exla.explain(extremes, *arguments, limit=1)
    optimized = tf_exla.optimize(extremes, info.value.smallest_limit + 60_000)
    report = optimized.report(*arguments)
    assert {result.combine for loop in report.loops for result in loop.results} >= {"argmin"}
    for found, expected in zip(optimized(*arguments), extremes(*arguments), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("k", [1, 7, 300])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int32"])
def test_top_k_of_chunks(dtype: str, k: int) -> None:
    """Equal values keep the order of their indices, and minus infinity is a value like others."""
    size = 100_003
    y = np.round(3 * np.random.default_rng(0).standard_normal((1, size)))
    if dtype != "int32":
        y[0, : size - k // 2] = -np.inf
    arguments = tf.constant([[1], [2], [1]], dtype), tf.constant(y, dtype)

    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return tf.math.top_k(x * y, k)

    with pytest.raises(tf_exla.MemoryLimitError) as info:
        tf_exla.explain(function, *arguments, limit=1)
    optimized = tf_exla.optimize(function, info.value.smallest_limit + 60_000)
    report = optimized.report(*arguments)
    assert {result.combine for loop in report.loops for result in loop.results} >= {"top_k"}
    for found, expected in zip(optimized(*arguments), function(*arguments), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_gradient_of_cross_entropy() -> None:
    """Its second result."""
    x, labels = tf.constant(reals(4, 7)), tf.constant([2, 0, 6, 2])

    def function(x: tf.Tensor, labels: tf.Tensor) -> list[tf.Tensor]:
        made = tf.raw_ops.SparseSoftmaxCrossEntropyWithLogits(features=x, labels=labels)
        return [made.loss, made.backprop]

    concrete = tf.function(function).get_concrete_function(x, labels)
    graph = lower(capture(concrete).graph, TensorFlowOps(), 0)
    loss, gradient = restore(graph)([x, labels])
    expected = function(x, labels)
    np.testing.assert_allclose(loss, expected[0], rtol=1e-14)
    np.testing.assert_allclose(gradient, expected[1], rtol=1e-13)


def in_cells(x: tf.Tensor) -> tf.Tensor:
    """The mass of particles in the eight cells around each, added one after the other."""
    places = x * 9.0
    cell, part = tf.cast(places, tf.int32), places - tf.floor(places)
    mass = tf.zeros([1_000], x.dtype)
    for corner in np.ndindex(2, 2, 2):
        at = tf.linalg.matvec(cell + corner, tf.constant([100, 10, 1]))
        weight = tf.reduce_prod(tf.where(tf.constant(corner) == 1, part, 1.0 - part), 1)
        mass = tf.tensor_scatter_nd_add(mass, at[:, None], weight)
    return mass


def test_particles_in_cells() -> None:
    x = tf.constant(np.random.default_rng(0).random((50_021, 3)))
    before = tf_exla.explain(tf.function(in_cells), x, limit=10**12)
    working_set = before.projected_peak_before - before.resident
    optimized = tf_exla.optimize(in_cells, before.resident + working_set // 3, strict=True)
    assert optimized.report(x).loops
    np.testing.assert_allclose(optimized(x), in_cells(x), rtol=1e-10)


@pytest.mark.parametrize("shapes", [((5, 7), (5, 7)), ((1, 7), (5, 7)), ((5, 7), (1, 1))])
@pytest.mark.parametrize("lost", [False, True])
def test_cross_entropy(shapes: tuple[Shape, Shape], lost: bool) -> None:
    """Both results, with operands that broadcast; -inf times a label of 0 is NaN."""
    x, labels = (np.array(reals(*shape)) for shape in shapes)
    if lost:
        x[0, 2], labels[0, 0] = -np.inf, 0

    def function(x: tf.Tensor, labels: tf.Tensor) -> list[tf.Tensor]:
        made = tf.raw_ops.SoftmaxCrossEntropyWithLogits(features=x, labels=labels)
        return [made.loss, made.backprop]

    arguments = [tf.constant(x), tf.constant(labels)]
    concrete = tf.function(function).get_concrete_function(*arguments)
    graph = lower(capture(concrete).graph, TensorFlowOps(), 0)
    assert "cross_entropy" not in {node.op for node in graph.nodes}
    for found, expected in zip(restore(graph)(arguments), function(*arguments), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-13)


@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_one_hot(axis: int, dtype: str) -> None:
    """Indices that are out of range mark nothing."""
    indices = tf.constant([[3, 0, 300], [1, 299, 2]] if dtype != "uint8" else [[3, 255], [0, 7]])

    def function(indices: tf.Tensor) -> tf.Tensor:
        return tf.one_hot(indices - 1, 257, 2.0, -1.0, axis, "float32")

    arguments = [tf.cast(indices, dtype)]
    concrete = tf.function(function).get_concrete_function(*arguments)
    graph = lower(capture(concrete).graph, TensorFlowOps(), 0)
    assert "one_hot" not in {node.op for node in graph.nodes}
    (found,) = restore(graph)(arguments)
    np.testing.assert_array_equal(found, function(*arguments))


@pytest.mark.parametrize("inner", [(), (2,)])
def test_a_scatter_to_one_of_each_row_is_a_comparison(inner: tuple[int, ...]) -> None:
    def function(columns: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
        return tf.scatter_nd(tf.stack([tf.range(3), columns], 1), values, [3, 7, *inner])

    given = tf.constant([6, 0, 3]), tf.constant(reals(3, *inner))
    graph = capture(tf.function(function).get_concrete_function(*given)).graph
    by_rows = scatter_rows(graph, TensorFlowOps(), 0)
    assert "scatter_rows" in {node.op for node in by_rows.nodes}
    lowered = lower(by_rows, TensorFlowOps(), 0)
    assert "scatter_rows" not in {node.op for node in lowered.nodes}
    np.testing.assert_array_equal(restore(lowered)(list(given))[0], function(*given))


@pytest.mark.parametrize("scatters", [False, True])
def test_strings_are_not_added(scatters: bool) -> None:
    def function(x: tf.Tensor) -> tf.Tensor:
        text = tf.strings.as_string(x)
        if scatters:
            return tf.scatter_nd([[0, 4], [1, 0], [2, 6]], text[:, 0], [3, 7])
        return tf.gather(text, [6, 0, 3], batch_dims=1)

    values = tf.constant(reals(3, 7))
    graph = capture(tf.function(function).get_concrete_function(values)).graph
    lowered = lower(scatter_rows(graph, TensorFlowOps(), -1), TensorFlowOps(), -1)
    assert restore(lowered)([values])[0].numpy().tolist() == function(values).numpy().tolist()


def test_an_index_outside_of_its_row_stays_an_error() -> None:
    function = tf.function(lambda x, i: tf.gather(x, i, batch_dims=1))
    given = tf.constant(reals(3, 7)), tf.constant([0, 7, 1])
    graph = lower(capture(function.get_concrete_function(*given)).graph, TensorFlowOps(), 0)
    with pytest.raises(tf.errors.InvalidArgumentError):
        restore(graph)(list(given))
