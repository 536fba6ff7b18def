"""VGP for two classes, SVGP with a softmax for three."""

import gpflow
import numpy as np
import tensorflow as tf

tf.random.set_seed(0)
rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, (150, 2))
Y = (np.sin(2 * X[:, :1]) + X[:, 1:] > 0).astype(float)
model = gpflow.models.VGP(
    (X, Y), gpflow.kernels.SquaredExponential(), gpflow.likelihoods.Bernoulli()
)
result = gpflow.optimizers.Scipy().minimize(
    model.training_loss, model.trainable_variables, options={"maxiter": 3}
)
print(result.fun, float(tf.reduce_mean(model.predict_log_density((X, Y)))))
labels = rng.integers(0, 3, (1500, 1))
points = np.concatenate([rng.normal(size=(1500, 1)) + labels, rng.normal(size=(1500, 1))], 1)
many = gpflow.models.SVGP(
    gpflow.kernels.Matern32(),
    gpflow.likelihoods.MultiClass(3),
    points[:30].copy(),
    num_latent_gps=3,
)
gpflow.optimizers.Scipy().minimize(
    many.training_loss_closure((points, labels)), many.trainable_variables, options={"maxiter": 2}
)
print(float(many.elbo((points, labels))), float(tf.reduce_sum(many.predict_y(points)[0] ** 2)))
