"""Programs that people run, each with arguments and a limit as a fraction of its stock peak.

`python tests/programs.py --table docs/programs.md` measures all of them and writes the table.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import tensorflow as tf

Function = Callable[..., Any]
Made = tuple[Function, Sequence[Any]]
Build = Callable[[Any, Any, Any], Any]


@dataclass(frozen=True)
class Case:
    """A program: `make` returns the function and its arguments.

    `factor`: the limit is the stock's projected peak divided by it.
    `rtol`: chunked sums add in another order, which float32 and ill-conditioned steps amplify.
    `rewritten`: the limit holds without a loop, by rewrites or by what is computed again.
    """

    name: str
    make: Callable[[], Made]
    factor: float = 10.0
    rtol: float = 1e-7
    rewritten: bool = False


def normal(*shape: int, seed: int = 0, dtype: str = "float64") -> tf.Tensor:
    return tf.constant(np.random.default_rng(seed).standard_normal(shape), dtype)


def with_gradients(function: Function) -> Function:
    """Return a function of the value, and the gradients of its sum in all floating arguments."""

    def both(*arguments: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            value = function(*arguments)
        return value, tape.gradient(value, arguments)

    return both


# Kernels.


def square_distance(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    xx = tf.reduce_sum(tf.square(x), -1)
    yy = tf.reduce_sum(tf.square(y), -1)
    return xx[:, None] + yy[None, :] - 2 * tf.matmul(x, y, transpose_b=True)


def rbf(x: tf.Tensor, y: tf.Tensor, lengthscale: Any = 1.0) -> tf.Tensor:
    return tf.exp(-0.5 * square_distance(x / lengthscale, y / lengthscale))


N, D = 2503, 3


def kernel_matvec() -> Made:
    return lambda x, v: tf.matmul(rbf(x, x), v), (normal(N, D), normal(N, 1))


def kernel_matmat() -> Made:
    return lambda x, z, v: tf.matmul(rbf(x, z), v), (normal(N, D), normal(1999, D), normal(1999, 7))


def kernel_row() -> Made:
    return lambda x, v: tf.matmul(v, rbf(x, x), transpose_a=True), (normal(N, D), normal(N, 1))


def kernel_twice() -> Made:
    def function(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        k = rbf(x, x)
        return tf.matmul(k, tf.matmul(k, v))

    return function, (normal(N, D), normal(N, 1))


def kernel_quadratic() -> Made:
    def function(x: tf.Tensor, v: tf.Tensor, lengthscale: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(v * tf.matmul(rbf(x, x, lengthscale), v))

    lengthscales = tf.constant([0.7, 1.0, 1.3], tf.float64)
    return with_gradients(function), (normal(N, D), normal(N, 1), lengthscales)


def gpflow_kernel(build: Callable[[Any], Any], gradients: bool = False) -> Callable[[], Made]:
    def make() -> Made:
        import gpflow

        kernel = build(gpflow.kernels)
        x, z, v = normal(1501, D), normal(1300, D, seed=1), normal(1300, 2)

        def value(x: tf.Tensor, z: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
            return tf.matmul(kernel(x, z), v)

        def both(x: tf.Tensor, z: tf.Tensor, v: tf.Tensor) -> Any:
            with tf.GradientTape() as tape:
                tape.watch([x, z, v])
                made = value(x, z, v)
            return made, tape.gradient(made, [x, z, v, *kernel.trainable_variables])

        return (both if gradients else value), (x, z, v)

    return make


# Nearest neighbours, k = 10.


def l2(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return square_distance(x, y)


def l2_naive(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.square(x[:, None] - y[None]), -1)


def l1(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.abs(x[:, None] - y[None]), -1)


def chebyshev(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.reduce_max(tf.abs(x[:, None] - y[None]), -1)


def cosine(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return 1 - tf.matmul(tf.math.l2_normalize(x, -1), tf.math.l2_normalize(y, -1), transpose_b=True)


def neighbours(distance: Function, queries: int, data: int, d: int = 4) -> Callable[[], Made]:
    def function(x: tf.Tensor, y: tf.Tensor) -> Any:
        return tf.math.top_k(-distance(x, y), 10)

    return lambda: (function, (normal(queries, d), normal(data, d, seed=1)))


def nearest(distance: Function, queries: int, data: int, d: int = 4) -> Callable[[], Made]:
    def function(x: tf.Tensor, y: tf.Tensor) -> Any:
        distances = distance(x, y)
        return tf.argmin(distances, 1), tf.argmax(distances, 0), tf.reduce_min(distances, 1)

    return lambda: (function, (normal(queries, d), normal(data, d, seed=1)))


# Attention.


def attention(
    batch: int, heads: int, queries: int, keys: int, mask: str = "", gradients: bool = False
) -> Callable[[], Made]:
    def function(q: tf.Tensor, k: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        scores = tf.matmul(q, k, transpose_b=True) / tf.sqrt(tf.cast(q.shape[-1], q.dtype))
        if mask == "causal":
            allowed = tf.range(queries)[:, None] >= tf.range(keys)[None, :]
            scores = tf.where(allowed, scores, tf.constant(-1e9, q.dtype))
        if mask == "band":
            allowed = tf.linalg.band_part(tf.ones([queries, keys], q.dtype), -1, 0)
            scores += (1 - allowed) * -1e9
        if mask == "padding":
            lengths = tf.constant(np.linspace(keys // 2, keys, batch), tf.int32)
            allowed = tf.sequence_mask(lengths, keys)[:, None, None, :]
            scores += (1 - tf.cast(allowed, q.dtype)) * -1e9
        return tf.matmul(tf.nn.softmax(scores), v)

    shape = (batch, heads)
    arguments = [normal(*shape, n, 16, seed=s) for s, n in enumerate([queries, keys, keys])]
    return lambda: (with_gradients(function) if gradients else function, arguments)


def keras_attention() -> Made:
    import keras

    layer = keras.layers.MultiHeadAttention(num_heads=2, key_dim=8, dtype="float64")
    x = normal(2, 800, 16)
    layer(x, x)

    def function(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(tf.square(layer(x, x, use_causal_mask=True)))
        weights = [weight.value for weight in layer.trainable_weights]
        return value, tape.gradient(value, weights)

    return function, (x,)


def transformer_step() -> Made:
    import keras

    keras.utils.set_random_seed(0)
    words = keras.Input((512,), dtype="int32")
    x = keras.layers.Embedding(100, 32)(words)
    for _ in range(2):
        made = keras.layers.MultiHeadAttention(2, 16)(x, x, use_causal_mask=True)
        x = keras.layers.LayerNormalization()(x + made)
        made = keras.layers.Dense(32)(keras.layers.Dense(128, activation="gelu")(x))
        x = keras.layers.LayerNormalization()(x + made)
    model = keras.Model(words, keras.layers.Dense(100)(x))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    tokens = tf.constant(np.random.default_rng(0).integers(0, 100, (8, 513)), tf.int32)

    def function(tokens: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            value = loss(tokens[:, 1:], model(tokens[:, :-1], training=True))
        weights = [weight.value for weight in model.trainable_weights]
        return value, [tf.convert_to_tensor(g) for g in tape.gradient(value, weights)]

    return function, (tokens,)


# Iterations.


def conjugate_gradients(size: int = 1999, steps: int = 5) -> Made:
    def function(x: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        k = rbf(x, x) + 0.5 * tf.eye(x.shape[0], dtype=x.dtype)

        def step(i: Any, v: Any, r: Any, p: Any, rr: Any) -> Any:
            kp = tf.linalg.matvec(k, p)
            alpha = rr / tf.reduce_sum(p * kp)
            v, r = v + alpha * p, r - alpha * kp
            new = tf.reduce_sum(r * r)
            return i + 1, v, r, r + new / rr * p, new

        start = (tf.constant(0), tf.zeros_like(b), b, b, tf.reduce_sum(b * b))
        return tf.while_loop(lambda i, *_: i < steps, step, start)[1]

    return function, (normal(size, D), normal(size))


def sinkhorn() -> Made:
    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        cost = square_distance(x, y)
        n, m = x.shape[0], y.shape[0]

        def step(i: Any, f: Any, g: Any) -> Any:
            f = -tf.reduce_logsumexp(g[None, :] - cost, 1) - np.log(n)
            g = -tf.reduce_logsumexp(f[:, None] - cost, 0) - np.log(m)
            return i + 1, f, g

        start = (tf.constant(0), tf.zeros(n, x.dtype), tf.zeros(m, x.dtype))
        _, f, g = tf.while_loop(lambda i, *_: i < 4, step, start)
        return tf.reduce_sum(tf.exp(f[:, None] + g[None, :] - cost) * cost)

    return function, (normal(1501, D), normal(1400, D, seed=1))


def k_means() -> Made:
    def function(x: tf.Tensor) -> tf.Tensor:
        def step(i: Any, centres: Any) -> Any:
            nearest = tf.argmin(square_distance(x, centres), 1)
            sums = tf.math.unsorted_segment_sum(x, nearest, 60)
            counts = tf.math.unsorted_segment_sum(tf.ones_like(x[:, :1]), nearest, 60)
            return i + 1, tf.math.divide_no_nan(sums, counts)

        return tf.while_loop(lambda i, _: i < 4, step, (tf.constant(0), x[:60]))[1]

    return function, (normal(40_009, D),)


def mean_shift() -> Made:
    def function(x: tf.Tensor) -> tf.Tensor:
        points = x
        for _ in range(3):
            k = rbf(points, x)
            points = tf.matmul(k, x) / tf.reduce_sum(k, 1, keepdims=True)
        return points

    return function, (normal(1501, D),)


def mmd() -> Made:
    def function(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        means = [tf.reduce_mean(rbf(a, b)) for a, b in ((x, x), (y, y), (x, y))]
        return means[0] + means[1] - 2 * means[2]

    return with_gradients(function), (normal(1501, D), normal(1400, D, seed=1))


# Features and networks with a large batch.


def random_features() -> Made:
    def function(x: tf.Tensor, y: tf.Tensor, w: tf.Tensor, a: tf.Tensor) -> tf.Tensor:
        phi = tf.cos(tf.matmul(x, w)) / np.sqrt(w.shape[1])
        return tf.reduce_mean(tf.square(tf.matmul(phi, a) - y))

    return with_gradients(function), (
        normal(20_011, 5), normal(20_011, 1), normal(5, 400), normal(400, 1),
    )  # fmt: skip


def dense_network() -> Made:
    def function(x: tf.Tensor, *weights: tf.Tensor) -> tf.Tensor:
        for w in weights[:-1]:
            x = tf.nn.relu(tf.matmul(x, w))
        return tf.reduce_mean(tf.square(tf.matmul(x, weights[-1])))

    sizes = [8, 100, 100, 1]
    weights = [0.3 * normal(a, b, seed=a) for a, b in pairwise(sizes)]
    return with_gradients(function), (normal(30_011, 8), *weights)


# GPflow models.


def gpflow_loss(build: Build, n: int, x_dims: int = 2) -> Callable[[], Made]:
    """Make the training loss and its gradients; `build` takes gpflow, X and Y."""

    def make() -> Made:
        import gpflow

        rng = np.random.default_rng(0)
        X = rng.standard_normal((n, x_dims))
        Y = np.sin(X[:, :1]) + 0.1 * rng.standard_normal((n, 1))
        model, data = build(gpflow, X, Y)

        def function(*data: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = model.training_loss(data) if data else model.training_loss()
            return loss, tape.gradient(loss, model.trainable_variables)

        return function, data

    return make


def gpflow_predict(build: Build, n: int, method: str, **options: bool) -> Callable[[], Made]:
    def make() -> Made:
        import gpflow

        rng = np.random.default_rng(0)
        X = rng.standard_normal((n, 2))
        Y = np.sin(X[:, :1]) + 0.1 * rng.standard_normal((n, 1))
        model, _ = build(gpflow, X[:400], Y[:400])
        if method == "predict_log_density":
            return lambda x, y: model.predict_log_density((x, y)), (tf.constant(X), tf.constant(Y))
        return lambda x: getattr(model, method)(x, **options), (tf.constant(X),)

    return make


def sgpr(g: Any, X: Any, Y: Any) -> Any:
    return g.models.SGPR((X, Y), g.kernels.SquaredExponential(), X[:60].copy()), ()


def fitc(g: Any, X: Any, Y: Any) -> Any:
    return g.models.GPRFITC((X, Y), g.kernels.Matern52(), X[:60].copy()), ()


def cglb(g: Any, X: Any, Y: Any) -> Any:
    model = g.models.CGLB((X, Y), g.kernels.SquaredExponential(), X[:30].copy(), cg_tolerance=0.1)
    g.set_trainable(model.aux_vec, True)
    return model, ()


def svgp(likelihood: str) -> Build:
    def build(g: Any, X: Any, Y: Any) -> Any:
        chosen = getattr(g.likelihoods, likelihood)()
        if likelihood == "Bernoulli":
            Y = (Y > 0).astype(float)
        kernel = g.kernels.SquaredExponential(lengthscales=[0.7, 1.0])
        model = g.models.SVGP(kernel, chosen, X[:60].copy(), num_data=len(X))
        return model, (tf.constant(X), tf.constant(Y))

    return build


def sgpmc(g: Any, X: Any, Y: Any) -> Any:
    kernel, likelihood = g.kernels.Matern32(), g.likelihoods.StudentT()
    return g.models.SGPMC((X, Y), kernel, likelihood, inducing_variable=X[:60].copy()), ()


def gplvm(g: Any, X: Any, Y: Any) -> Any:
    model = g.models.BayesianGPLVM(
        np.hstack([X, Y]), X_data_mean=X, X_data_var=np.full_like(X, 0.1),
        kernel=g.kernels.SquaredExponential(lengthscales=[1.0] * X.shape[1]),
        inducing_variable=X[:20].copy(),
    )  # fmt: skip
    return model, ()


def vgp(g: Any, X: Any, Y: Any) -> Any:
    return g.models.VGP((X, Y), g.kernels.Matern52(), g.likelihoods.StudentT()), ()


def gpr(g: Any, X: Any, Y: Any) -> Any:
    return g.models.GPR((X, Y), g.kernels.SquaredExponential()), ()


COMBINED: Callable[[Any], Any] = lambda k: k.SquaredExponential() + k.Linear() * k.Matern52()  # noqa: E731

CASES: Sequence[Case] = (
    Case("K(X, X) v", kernel_matvec, 20),
    Case("K(X, Z) V", kernel_matmat, 20),
    Case("vᵀ K(X, X)", kernel_row, 20),
    Case("K K v", kernel_twice, 15),
    Case("vᵀ K v and gradients", kernel_quadratic, 20),
    Case("kNN L2", neighbours(l2, 1009, 5003), 15),
    Case("kNN L2, few queries", neighbours(l2, 3, 500_009), 1.5),
    Case("kNN L2, naive difference", neighbours(l2_naive, 401, 3001), 20),
    Case("kNN L1", neighbours(l1, 401, 3001), 20),
    Case("kNN Chebyshev", neighbours(chebyshev, 401, 3001), 20),
    Case("kNN cosine", neighbours(cosine, 1009, 5003), 15),
    Case("nearest L2", nearest(l2, 1009, 5003), 10),
    Case("attention", attention(2, 3, 1009, 1100), 10),
    Case("attention and gradients", attention(2, 3, 701, 800, gradients=True), 10),
    Case("causal attention and gradients", attention(1, 2, 900, 900, "causal", True), 10),
    Case("band-part attention", attention(1, 2, 900, 900, "band"), 10),
    Case("padded attention and gradients", attention(2, 2, 701, 701, "padding", True), 10),
    Case("attention, one long row", attention(1, 1, 2, 300_007), 1.6),
    Case("Keras MultiHeadAttention", keras_attention, 10),
    Case("transformer train step", transformer_step, 5, rtol=1e-3),
    Case("conjugate gradients", conjugate_gradients, 10),
    Case("Sinkhorn", sinkhorn, 10),
    Case("k-means", k_means, 5),
    Case("mean shift", mean_shift, 10),
    Case("MMD and gradients", mmd, 10),
    Case("random features and gradients", random_features, 10),
    Case("dense network and gradients", dense_network, 10),
)

GPFLOW_CASES: Sequence[Case] = (
    *(
        Case(
            f"GPflow {name} and gradients",
            gpflow_kernel(lambda k, n=name: getattr(k, n)(), True),
            rewritten=name == "Linear",
        )
        for name in ("SquaredExponential", "Matern12", "Matern32", "Matern52", "RationalQuadratic",
                     "Cosine", "Linear", "Polynomial", "ArcCosine")
    ),
    Case("GPflow Periodic and gradients",
         gpflow_kernel(lambda k: k.Periodic(k.SquaredExponential()), True)),
    Case("GPflow RBF + Linear * Matern52", gpflow_kernel(COMBINED, True)),
    Case("SGPR loss and gradients", gpflow_loss(sgpr, 20_011)),
    Case("GPRFITC loss and gradients", gpflow_loss(fitc, 20_011)),
    Case("CGLB loss and gradients", gpflow_loss(cglb, 1501), 5, rtol=1e-5),
    Case("SVGP Gaussian ELBO and gradients", gpflow_loss(svgp("Gaussian"), 20_011)),
    Case("SVGP StudentT ELBO and gradients", gpflow_loss(svgp("StudentT"), 15_013)),
    Case("SVGP Bernoulli ELBO and gradients", gpflow_loss(svgp("Bernoulli"), 15_013)),
    Case("SGPMC loss and gradients", gpflow_loss(sgpmc, 15_013)),
    Case("BayesianGPLVM loss and gradients", gpflow_loss(gplvm, 4001), 5),
    Case("VGP loss and gradients", gpflow_loss(vgp, 600), 1.2, rtol=1e-5),
    Case("GPR loss and gradients", gpflow_loss(gpr, 1200), 1.2, rewritten=True),
    Case("GPR predict_f", gpflow_predict(gpr, 20_011, "predict_f"), 8),
    Case("SGPR predict_y", gpflow_predict(sgpr, 50_021, "predict_y")),
    Case("SGPR predict_f, full covariance",
         gpflow_predict(sgpr, 1201, "predict_f", full_cov=True), 1.5),
    Case("SVGP predict_log_density",
         gpflow_predict(svgp("StudentT"), 30_011, "predict_log_density")),
)  # fmt: skip

# These take minutes, and gigabytes for the stock results.
MILLION: Sequence[tuple[str, Build, str]] = (
    ("SGPR", sgpr, "predict_f"),
    ("SGPR", sgpr, "predict_y"),
    ("SGPR", sgpr, "predict_log_density"),
    ("SVGP", svgp("Gaussian"), "predict_f"),
    ("SVGP", svgp("StudentT"), "predict_y"),
    ("SVGP", svgp("Gaussian"), "predict_log_density"),
)

LARGE_CASES: Sequence[Case] = (
    *(
        Case(f"{model} {method} at a million points", gpflow_predict(build, 1_000_000, method), 12)
        for model, build, method in MILLION
    ),
    *(
        Case(f"{model} predict_f, full covariance of 5,000 points",
             gpflow_predict(build, 5_000, "predict_f", full_cov=True), 1.5)
        for model, build in (("SGPR", sgpr), ("SVGP", svgp("Gaussian")))
    ),
)  # fmt: skip

ALL = {case.name: case for case in (*CASES, *GPFLOW_CASES, *LARGE_CASES)}


if __name__ == "__main__":
    from programs_check import main

    main(sys.argv[1:])
