"""Programs that were refused once: indices by row, random tensors, moved or merged axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from programs import Case, Made, normal, with_gradients


def kernel(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.exp(-tf.reduce_sum(tf.square(x[:, None] - y[None]), -1))


def points(*sizes: int) -> tuple[tf.Tensor, ...]:
    return tuple(normal(size, 3, seed=seed) for seed, size in enumerate(sizes))


def sliced_wasserstein() -> Made:
    """The distance of two clouds along random directions, and its gradients."""

    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        directions = tf.random.stateless_normal([x.shape[1], 300], [1, 2], dtype=x.dtype)
        directions = tf.linalg.l2_normalize(directions, 0)
        x, y = (tf.sort(tf.matmul(cloud, directions), 0) for cloud in (x, y))
        return tf.reduce_mean(tf.square(x - y))

    return with_gradients(function), (normal(2003, 5), normal(2003, 5, seed=1))


def sorted_rows() -> Made:
    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        rank = tf.range(y.shape[0], dtype=x.dtype)
        return tf.reduce_sum(tf.sort(kernel(x, y), 1) * rank)

    return with_gradients(function), points(1009, 907)


def best_of_rows() -> Made:
    """In a batch: two leading axes."""

    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        near = tf.exp(-tf.square(x[:, :, None] - y[:, None]))
        return tf.reduce_sum(tf.math.top_k(near, 5).values)

    return with_gradients(function), (normal(2, 701), normal(2, 601, seed=1))


def picked_of_rows() -> Made:
    """Gathers with a batch dimension, with constant indices, some twice in a row."""

    def function(x: tf.Tensor, y: tf.Tensor, picked: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.square(tf.gather(kernel(x, y), picked, batch_dims=1)))

    picked = np.random.default_rng(0).integers(0, 907, [1009, 7])
    picked[:, 1] = picked[:, 0]

    def all_of_it(x: tf.Tensor, y: tf.Tensor) -> Any:
        return function(x, y, tf.constant(picked, tf.int32))

    return with_gradients(all_of_it), points(1009, 907)


def picked_vectors() -> Made:
    """The gathered elements are vectors."""

    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        apart = x[:, None] - y[None]
        near = tf.math.top_k(-tf.reduce_sum(tf.square(apart), -1), 6).indices
        return tf.reduce_sum(tf.exp(-tf.gather(apart, near, batch_dims=1)))

    return with_gradients(function), points(503, 401)


def permuted_rows() -> Made:
    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        near = kernel(x, y)
        order = tf.argsort(tf.stop_gradient(near), 1)
        rank = tf.range(y.shape[0], dtype=x.dtype)
        return tf.reduce_sum(tf.gather(near, order, batch_dims=1) * rank)

    return with_gradients(function), points(1009, 907)


def permutation_test() -> Made:
    """A measure of dependence, and its values for pairs in random orders."""

    def function(x: tf.Tensor, y: tf.Tensor, orders: tf.Tensor) -> Any:
        first, second = kernel(x, x), kernel(y, y)
        second -= tf.reduce_mean(second, 0)

        def shuffled(order: tf.Tensor) -> tf.Tensor:
            rows = tf.gather(second, order)
            return tf.reduce_sum(first * tf.gather(rows, order, axis=1))

        null = tf.map_fn(shuffled, orders, fn_output_signature=x.dtype)
        return tf.reduce_sum(first * second), null

    orders = np.argsort(np.random.default_rng(2).random((5, 907)), 1)
    return function, (*points(907, 907), tf.constant(orders))


def centred_kernels() -> Made:
    """How well two centred kernels are aligned, centred by products as in the formula."""

    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        size = x.shape[0]
        centring = tf.eye(size, dtype=x.dtype) - tf.ones([size, size], x.dtype) / size
        first, second = (centring @ kernel(z, z) @ centring for z in (x, y))
        return tf.reduce_sum(first * second) / tf.norm(first) / tf.norm(second)

    return with_gradients(function), points(907, 907)


def first_coupling() -> Made:
    """The cost of a Gromov-Wasserstein coupling that is a product of weights, and gradients."""

    def function(x: tf.Tensor, y: tf.Tensor, a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        first, second = kernel(x, x), kernel(y, y)
        coupling = tf.nn.softmax(a)[:, None] * tf.nn.softmax(b)
        moved = tf.matmul(tf.matmul(first, coupling), second, transpose_b=True)
        return tf.reduce_sum((1.0 - 2.0 * moved) * coupling)

    return with_gradients(function), (*points(701, 907), normal(701), normal(907, seed=1))


def potential() -> Made:
    """The Laplacian of a network at many points, by the Jacobians of its gradient."""

    def function(x: tf.Tensor, *weights: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                value = tf.tanh(tf.matmul(x, weights[0]))
                value = tf.matmul(tf.tanh(tf.matmul(value, weights[1])), weights[2])
            slope = inner.gradient(value, x)
        return tf.reduce_sum(tf.linalg.trace(outer.batch_jacobian(slope, x)) ** 2)

    weights = [normal(rows, columns, seed=rows) for rows, columns in ((4, 24), (24, 24), (24, 1))]
    return function, (normal(6007, 4), *weights)


def several_outputs() -> Made:
    """A kernel matrix of three related outputs at the same points, and gradients."""

    def function(x: tf.Tensor, mixed: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        related = tf.matmul(mixed, mixed, transpose_b=True)
        between = tf.einsum("ab,ij->aibj", related, kernel(x, x))
        between = tf.reshape(between, [v.shape[0], v.shape[0]])
        return tf.reduce_sum(tf.matmul(between, v) ** 2)

    return with_gradients(function), (normal(503, 3), normal(3, 2, seed=1), normal(1509, 2, seed=2))


def neighbour_graph() -> Made:
    """A matrix with the weights of nearest neighbours, and its product with the points."""

    def function(x: tf.Tensor) -> Any:
        size = x.shape[0]
        weights, near = tf.math.top_k(kernel(x, x), 5)
        rows = tf.repeat(tf.range(size)[:, None], 5, 1)
        places = tf.reshape(tf.stack([rows, near], -1), [-1, 2])
        graph = tf.scatter_nd(places, tf.reshape(weights, [-1]), [size, size])
        return tf.reduce_sum(graph, 1), tf.matmul(graph, x)

    return function, points(1103)


def neighbour_updates() -> Made:
    """The weights of nearest neighbours overwritten in an existing matrix."""

    def function(x: tf.Tensor) -> Any:
        size = x.shape[0]
        near = kernel(x, x)
        best = tf.math.top_k(near, 5).indices
        rows = tf.range(size)[:, None] + tf.zeros_like(best)
        places = tf.concat([rows[..., None], best[..., None]], -1)
        far = tf.tensor_scatter_nd_update(near, places, tf.zeros_like(best, x.dtype))
        return tf.reduce_max(far, 1), tf.matmul(far, x)

    return function, points(1103)


def two_random() -> Made:
    """Random matrices of three dtypes, with a seed that is an argument; rows of odd length."""

    def function(x: tf.Tensor, seed: tf.Tensor) -> Any:
        shape = [1501, x.shape[0]]
        noise = tf.random.stateless_normal(shape, seed, dtype=tf.float64)
        levels = tf.random.stateless_uniform(shape, seed + 1, 0, 9, tf.int32)
        kept = tf.random.stateless_uniform(shape, seed + 2) < 0.7
        made = tf.where(kept, noise * x, tf.cast(levels, x.dtype))
        return tf.reduce_sum(made, 0), tf.reduce_max(made, 1)

    return function, (normal(1003), tf.constant([3, 4]))


def dropout_attention() -> Made:
    """Attention with dropout, and gradients."""

    def function(q: tf.Tensor, k: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        weights = tf.nn.softmax(tf.matmul(q, k, transpose_b=True))
        weights = tf.nn.experimental.stateless_dropout(weights, 0.3, [5, 6])
        return tf.matmul(weights, v)

    return with_gradients(function), [normal(701, 8, seed=k, dtype="float32") for k in range(3)]


def batch_with_dropout() -> Made:
    """Attention of several heads with dropout, for a batch."""

    def function(q: tf.Tensor, k: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        weights = tf.nn.softmax(tf.matmul(q, k, transpose_b=True))
        weights = tf.nn.experimental.stateless_dropout(weights, 0.3, [5, 6])
        return tf.matmul(weights, v)

    inputs = [normal(2, 3, 401, 8, seed=k, dtype="float32") for k in range(3)]
    return with_gradients(function), inputs


def coupled_kernels() -> Made:
    """A function of the product of two kernel matrices: both are computed, and both are large."""

    def function(x: tf.Tensor, y: tf.Tensor, z: tf.Tensor) -> tf.Tensor:
        first, second = (
            tf.exp(-0.5 * tf.reduce_sum(tf.square(a[:, None] - b), -1)) for a, b in ((x, y), (y, z))
        )
        return tf.reduce_sum(tf.tanh(first @ second))

    return with_gradients(function), [normal(n, 2, seed=n) for n in (501, 401, 453)]


def decorrelation() -> Made:
    """The covariance of wide features; arXiv 2105.04906 (VICReg)."""

    def function(x: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
        features = tf.tanh(x @ w)
        features -= tf.reduce_mean(features, 0)
        covariance = tf.matmul(features, features, transpose_a=True) / (x.shape[0] - 1)
        own = tf.linalg.diag_part(covariance)
        return tf.reduce_sum(tf.square(covariance)) - tf.reduce_sum(tf.square(own))

    return with_gradients(function), [normal(301, 8), normal(8, 701, seed=1)]


def median_bandwidth() -> Made:
    """The median of all distances as the bandwidth of a kernel; arXiv 1608.04471 (SVGD)."""

    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        distances = tf.reduce_sum(tf.square(x[:, None] - y), -1)
        ordered = tf.sort(tf.reshape(distances, [-1]))
        median = tf.stop_gradient(0.5 * (ordered[x.shape[0]] + ordered[-x.shape[0] * 9]))
        return tf.reduce_sum(tf.exp(-distances / median))

    return with_gradients(function), points(701, 653)


def gumbel() -> Made:
    """A sample from a categorical distribution of each row, by Gumbel's noise."""

    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        near = kernel(x, y)
        noise = tf.random.stateless_uniform(near.shape, [1, 2], dtype=x.dtype)
        return tf.argmax(near - tf.math.log(-tf.math.log(noise)), 1)

    return function, points(1009, 907)


def laplacian() -> Made:
    """A stencil of both axes by rolling, and gradients."""

    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        u = kernel(x, y)
        around = sum(tf.roll(u, shift, axis) for shift in (1, -1) for axis in (0, 1))
        return tf.reduce_mean(tf.square(around - 4 * u))

    return with_gradients(function), points(1009, 907)


def total_variation() -> Made:
    """Differences of neighbours along both axes, and gradients: slices, and pads of gradients."""

    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        u = kernel(x, y)
        return tf.reduce_sum(tf.abs(u[1:] - u[:-1])) + tf.reduce_sum(tf.abs(u[:, 1:] - u[:, :-1]))

    return with_gradients(function), points(1009, 907)


def steepest() -> Made:
    """The gradient of the largest difference of neighbours: a maximum of moved elements."""

    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        u = kernel(x, y)
        return tf.reduce_sum(tf.reduce_max(tf.abs(u[1:] - u[:-1]), 1)) + tf.reduce_max(u[:, 2:])

    return with_gradients(function), points(1009, 907)


def windows() -> Made:
    """Padding; every third column of every second row; tiling."""

    def function(x: tf.Tensor, y: tf.Tensor) -> Any:
        u = kernel(x, y)
        padded = tf.pad(u, [[2, 1], [0, 3]], constant_values=0.5)
        part = u[::2, 7:900:3]
        wide = tf.tile(part, [1, 3])
        return tf.reduce_sum(padded**2, 1), tf.reduce_max(part, 0), tf.reduce_sum(wide, 0)

    return function, points(1009, 907)


ROW_CASES: Sequence[Case] = (
    Case("sliced Wasserstein and gradients", sliced_wasserstein, 8),
    Case("sorted rows and gradients", sorted_rows, 10),
    Case("best of rows and gradients", best_of_rows, 8),
    Case("picked of rows and gradients", picked_of_rows, 10),
    Case("picked vectors and gradients", picked_vectors, 8),
    Case("permuted rows and gradients", permuted_rows, 10),
    Case("first coupling and gradients", first_coupling, 10),
    Case("Laplacian of a network", potential, 8),
    Case("kernel of several outputs and gradients", several_outputs, 10),
    Case("centred kernels and gradients", centred_kernels, 10),
    Case("permutation test", permutation_test, 10),
    Case("graph of neighbours, scattered", neighbour_graph, 8),
    Case("graph of neighbours, written", neighbour_updates, 8),
    Case("a stencil and gradients", laplacian, 10),
    Case("total variation and gradients", total_variation, 10),
    Case("steepest rows and gradients", steepest, 3),
    Case("padded, strided and tiled", windows, 8),
    Case("two random matrices", two_random, 8),
    Case("attention with dropout and gradients", dropout_attention, 5),
    Case("attention with dropout of a batch and gradients", batch_with_dropout, 5),
    Case("product of two kernel matrices and gradients", coupled_kernels, 4),
    Case("covariance of wide features and gradients", decorrelation, 4),
    Case("samples by Gumbel's noise", gumbel, 8),
    Case("median bandwidth and gradients", median_bandwidth, 8),
)
