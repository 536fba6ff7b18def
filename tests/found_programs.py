"""Programs as people write them. Each names the source of its formulation; no code is copied.

They have one or several large tensors of pairs between small tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import tensorflow as tf
from programs import Case, Made, normal, with_gradients


def nt_xent() -> Made:
    """SimCLR's contrastive loss; github.com/google-research/simclr, objective.py."""

    def function(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        a, b = tf.math.l2_normalize(a, -1), tf.math.l2_normalize(b, -1)
        size, temperature = a.shape[0], 0.5
        labels = tf.one_hot(tf.range(size), 2 * size, dtype=a.dtype)
        own = 1e9 * tf.one_hot(tf.range(size), size, dtype=a.dtype)

        def loss(one: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
            within = tf.matmul(one, one, transpose_b=True) / temperature - own
            across = tf.matmul(one, other, transpose_b=True) / temperature
            logits = tf.concat([across, within], 1)
            return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels, logits))

        return loss(a, b) + loss(b, a)

    return with_gradients(function), (normal(801, 16), normal(801, 16, seed=1))


def info_nce(dtype: str = "float64", size: int = 1201) -> Made:
    """CLIP's symmetric loss: cross entropy along both axes of one matrix; arXiv 2103.00020."""

    def function(images: tf.Tensor, texts: tf.Tensor, scale: tf.Tensor) -> tf.Tensor:
        images, texts = tf.math.l2_normalize(images, -1), tf.math.l2_normalize(texts, -1)
        logits = tf.exp(scale) * tf.matmul(images, texts, transpose_b=True)
        own = tf.range(logits.shape[0])
        rows = tf.nn.sparse_softmax_cross_entropy_with_logits(own, logits)
        columns = tf.nn.sparse_softmax_cross_entropy_with_logits(own, tf.transpose(logits))
        return tf.reduce_mean(rows + columns) / 2

    both = (normal(size, 16, seed=seed, dtype=dtype) for seed in range(2))
    return with_gradients(function), (*both, tf.constant(1.0, dtype))


def triplets() -> Made:
    """Hardest positive and negative of each anchor; omoindrot.github.io/triplet-loss."""
    labels = tf.constant(np.random.default_rng(0).integers(0, 30, 1301), tf.int32)

    def function(x: tf.Tensor) -> tf.Tensor:
        products = tf.matmul(x, x, transpose_b=True)
        norms = tf.linalg.diag_part(products)
        distances = tf.maximum(norms[:, None] - 2.0 * products + norms[None, :], 0.0)
        same = tf.equal(labels[:, None], labels[None, :])
        hardest = tf.reduce_max(tf.where(same, distances, 0.0), 1)
        largest = tf.reduce_max(distances, 1, keepdims=True)
        nearest = tf.reduce_min(distances + largest * tf.cast(same, x.dtype), 1)
        return tf.reduce_mean(tf.maximum(hardest - nearest + 0.2, 0.0))

    return function, (normal(1301, 16),)


def many_bandwidths() -> Made:
    """A maximum mean discrepancy with a sum of kernels of differences, as in tf.contrib's domain
    adaptation; github.com/tensorflow/models, research/domain_adaptation."""

    def kernel(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        distances = tf.reduce_sum(tf.square(tf.expand_dims(x, 1) - y), 2)
        widths = tf.constant([0.1, 1.0, 5.0, 20.0, 100.0], x.dtype)
        scaled = tf.matmul(1 / (2 * widths[:, None]), tf.reshape(distances, [1, -1]))
        return tf.reshape(tf.reduce_sum(tf.exp(-scaled), 0), distances.shape)

    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return (
            tf.reduce_mean(kernel(x, x))
            + tf.reduce_mean(kernel(y, y))
            - 2 * tf.reduce_mean(kernel(x, y))
        )

    return with_gradients(function), (normal(401, 4), normal(367, 4, seed=1))


def chamfer() -> Made:
    """A batch of point clouds, by differences of all pairs; github.com/ThibaultGROUEIX/AtlasNet."""

    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        distances = tf.reduce_sum(tf.square(x[:, :, None] - y[:, None]), -1)
        return tf.reduce_mean(tf.reduce_min(distances, 2)) + tf.reduce_mean(
            tf.reduce_min(distances, 1)
        )

    return function, (normal(2, 801, 3), normal(2, 703, 3, seed=1))


def chamfer_gradients() -> Made:
    """The same by products; github.com/tensorflow/graphics, nn/loss/chamfer_distance.py."""

    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        square = tf.reduce_sum(tf.square(x), -1)[:, None] + tf.reduce_sum(tf.square(y), -1)
        distances = square - 2 * tf.matmul(x, y, transpose_b=True)
        nearest = [tf.reduce_mean(tf.reduce_min(distances, axis)) for axis in (0, 1)]
        return nearest[0] + nearest[1]

    return with_gradients(function), (normal(2003, 3), normal(1901, 3, seed=1))


def hausdorff() -> Made:
    """The Hausdorff distance of two point sets; scipy.spatial.distance.directed_hausdorff."""

    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        distances = tf.norm(x[:, None] - y[None], axis=-1)
        there, back = (tf.reduce_max(tf.reduce_min(distances, axis)) for axis in (0, 1))
        return tf.maximum(there, back)

    return with_gradients(function), (normal(1203, 3), normal(1101, 3, seed=1))


def point_net() -> Made:
    """A network on points, and its maximum over all of them; github.com/charlesq34/pointnet."""

    def function(x: tf.Tensor, *weights: tf.Tensor) -> tf.Tensor:
        for w in weights:
            x = tf.nn.relu(tf.matmul(x, w))
        return tf.reduce_sum(tf.square(tf.reduce_max(x, 0)))

    sizes = [3, 64, 64, 128]
    weights = [0.3 * normal(a, b, seed=a + b) for a, b in pairwise(sizes)]
    return with_gradients(function), (normal(20_011, 3), *weights)


def neighbour_graph() -> Made:
    """Neighbours in a batch of point clouds, and their differences; github.com/WangYueFt/dgcnn."""

    def function(x: tf.Tensor) -> tf.Tensor:
        inner = -2 * tf.matmul(x, tf.transpose(x, [0, 2, 1]))
        square = tf.reduce_sum(tf.square(x), -1, keepdims=True)
        distances = square + inner + tf.transpose(square, [0, 2, 1])
        _, index = tf.math.top_k(-distances, 8)
        return tf.reduce_max(tf.gather(x, index, batch_dims=1) - x[:, :, None], 2)

    return function, (normal(3, 901, 3),)


def embedding() -> Made:
    """t-SNE's loss with Gaussian and Student's kernels of pairs; van der Maaten & Hinton (2008),
    as github.com/jsilter/parametric_tsne trains a network by it."""

    def pairs(x: tf.Tensor) -> tf.Tensor:
        square = tf.reduce_sum(tf.square(x), 1)
        return square[:, None] + square[None, :] - 2 * tf.matmul(x, x, transpose_b=True)

    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        off = 1 - tf.eye(x.shape[0], dtype=x.dtype)
        p = tf.exp(-0.5 * pairs(x)) * off
        p = p / tf.reduce_sum(p)
        q = off / (1 + pairs(y))
        q = q / tf.reduce_sum(q)
        return tf.reduce_sum(p * tf.math.log((p + 1e-12) / (q + 1e-12)))

    return with_gradients(function), (normal(901, 5), normal(901, 2, seed=1))


def style() -> Made:
    """Gram matrices of feature maps; tensorflow.org/tutorials/generative/style_transfer."""

    def gram(x: tf.Tensor) -> tf.Tensor:
        return tf.einsum("bijc,bijd->bcd", x, x) / float(x.shape[1] * x.shape[2])

    def function(image: tf.Tensor, filters: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        features = tf.nn.relu(tf.nn.conv2d(image, filters, 1, "SAME"))
        return tf.reduce_sum(tf.square(gram(features) - target))

    return function, (normal(24, 48, 48, 3), normal(3, 3, 3, 24), normal(24, 24, 24))


def density() -> Made:
    """A kernel density by reduce_logsumexp, as by MixtureSameFamily with a normal for each point;
    github.com/tensorflow/probability."""

    def function(x: tf.Tensor, data: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
        z = (x[:, None] - data[None]) / width
        logs = tf.reduce_sum(-0.5 * tf.square(z) - tf.math.log(width), -1)
        return tf.reduce_mean(tf.reduce_logsumexp(logs, 1)) - np.log(data.shape[0])

    return with_gradients(function), (
        normal(701, 3), normal(1201, 3, seed=1), tf.constant(0.3, tf.float64),
    )  # fmt: skip


def masked_attention() -> Made:
    """Attention with an additive padding mask, heads joined at the end, as in BERT for TensorFlow;
    github.com/huggingface/transformers, modeling_tf_bert.py."""

    def function(q: tf.Tensor, k: tf.Tensor, v: tf.Tensor, mask: tf.Tensor) -> Any:
        scores = tf.matmul(q, k, transpose_b=True) / np.sqrt(q.shape[-1])
        weights = tf.nn.softmax(scores + (1 - mask[:, None, None, :]) * -1e4)
        made = tf.transpose(tf.matmul(weights, v), [0, 2, 1, 3])
        return tf.reshape(made, [made.shape[0], made.shape[1], -1])

    shapes = [(2, 3, 301, 8), (2, 3, 1409, 8), (2, 3, 1409, 8)]
    mask = tf.cast(tf.sequence_mask([900, 1409], 1409), tf.float64)
    arguments = [normal(*shape, seed=seed) for seed, shape in enumerate(shapes)]
    return with_gradients(function), [*arguments, mask]


FOUND_CASES: Sequence[Case] = (
    Case("SimCLR's loss and gradients", nt_xent, 12),
    Case("CLIP's loss and gradients", info_nce, 10),
    Case("CLIP's loss in float32", lambda: info_nce("float32", 1801), 8, rtol=1e-4),
    Case("hardest triplets", triplets, 10),
    Case("MMD of many bandwidths and gradients", many_bandwidths, 10),
    Case("Chamfer distance", chamfer, 10),
    Case("Chamfer distance and gradients", chamfer_gradients, 10),
    Case("Hausdorff distance and gradients", hausdorff, 10),
    Case("PointNet's maximum and gradients", point_net, 8),
    Case("graph of neighbours", neighbour_graph, 8),
    Case("t-SNE's loss and gradients", embedding, 8),
    Case("style loss", style, 5),
    Case("kernel density and gradients", density, 10),
    Case("masked attention and gradients", masked_attention, 8),
)
