"""SGPR, its upper bound, FITC and a change of the kernel along the axis."""

import gpflow
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
X = np.sort(rng.uniform(-2, 2, (3001, 1)), 0)
Y = np.where(X < 0, np.sin(3 * X), np.sin(9 * X)) + 0.1 * rng.normal(size=(3001, 1))
kernel = gpflow.kernels.ChangePoints(
    [gpflow.kernels.SquaredExponential(), gpflow.kernels.Matern12()], locations=[0.1], steepness=5.0
)
for build in (gpflow.models.SGPR, gpflow.models.GPRFITC):
    model = build((X, Y), gpflow.utilities.deepcopy(kernel), X[::100].copy(), noise_variance=0.1)
    gpflow.optimizers.Scipy().minimize(
        model.training_loss, model.trainable_variables, options={"maxiter": 3}
    )
    mean, variance = model.predict_y(X)
    print(float(model.training_loss()), float(tf.reduce_sum(mean)), float(tf.reduce_sum(variance)))
