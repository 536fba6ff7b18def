"""Latent variable models: of points, and of distributions with inducing points."""

import gpflow
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
N = 601
t = rng.uniform(-2, 2, (N, 1))
Y = np.concatenate([np.sin(t), t, t**2, np.cos(2 * t)], 1) + 0.05 * rng.normal(size=(N, 4))
start = gpflow.utilities.ops.pca_reduce(tf.constant(Y), 2)
points = gpflow.models.GPLVM(Y, latent_dim=2, kernel=gpflow.kernels.Matern52())
gpflow.optimizers.Scipy().minimize(
    points.training_loss, points.trainable_variables, options={"maxiter": 2}
)
print(float(points.maximum_log_likelihood_objective()))
print(float(tf.reduce_sum(points.predict_f(start[:50])[0])))
Y = np.tile(Y, (5, 1)) + 0.01 * rng.normal(size=(5 * N, 4))
latent = gpflow.models.BayesianGPLVM(
    Y,
    gpflow.utilities.ops.pca_reduce(tf.constant(Y), 2),
    0.1 * tf.ones((5 * N, 2), dtype=tf.float64),
    kernel=gpflow.kernels.SquaredExponential(lengthscales=[1.0, 1.0]),
    inducing_variable=Y[:20, :2].copy(),
)
latent.likelihood.variance.assign(0.01)
gpflow.optimizers.Scipy().minimize(
    latent.training_loss, latent.trainable_variables, options={"maxiter": 2}
)
print(float(latent.elbo()), float(tf.reduce_sum(latent.predict_y(latent.X_data_mean)[0])))
