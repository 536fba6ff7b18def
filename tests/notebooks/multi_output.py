"""Several outputs: mixed latent processes, shared points, and a coregionalisation kernel."""

import gpflow
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (1201, 1))
Y = np.concatenate([np.sin(5 * X), np.cos(5 * X), X], 1) + 0.1 * rng.normal(size=(1201, 3))
kernels = [gpflow.kernels.SquaredExponential(), gpflow.kernels.Matern32()]
points = gpflow.inducing_variables.SharedIndependentInducingVariables(
    gpflow.inducing_variables.InducingPoints(X[:25].copy())
)
mixed = gpflow.models.SVGP(
    gpflow.kernels.LinearCoregionalization(kernels, W=rng.normal(size=(3, 2))),
    gpflow.likelihoods.Gaussian(),
    points,
    num_latent_gps=2,
)
gpflow.optimizers.Scipy().minimize(
    mixed.training_loss_closure((X, Y)), mixed.trainable_variables, options={"maxiter": 3}
)
mean, variance = mixed.predict_f(X)
print(float(mixed.elbo((X, Y))), float(tf.reduce_sum(mean)), float(tf.reduce_sum(variance)))
both = np.concatenate([np.tile(X[:100], (2, 1)), np.repeat([[0.0], [1.0]], 100, 0)], 1)
kernel = gpflow.kernels.Matern32(active_dims=[0]) * gpflow.kernels.Coregion(2, 1, active_dims=[1])
tasks = gpflow.models.GPR((both, Y[:100, :2].T.reshape(-1, 1)), kernel, noise_variance=0.1)
gpflow.optimizers.Scipy().minimize(
    tasks.training_loss, tasks.trainable_variables, options={"maxiter": 3}
)
print(float(tasks.log_marginal_likelihood()), float(tf.reduce_sum(tasks.predict_f(both)[1])))
