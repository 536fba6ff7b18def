"""A network inside a kernel, noise that depends on the input, and a monitor while training."""

import gpflow
import numpy as np
import tensorflow as tf

tf.random.set_seed(0)
tf.keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (1301, 3))
Y = np.sin(3 * X[:, :1]) + (0.05 + 0.2 * np.abs(X[:, :1])) * rng.normal(size=(1301, 1))
network = tf.keras.Sequential(
    [
        tf.keras.layers.Input((3,), dtype="float64"),
        tf.keras.layers.Dense(8, activation="tanh", dtype="float64"),
        tf.keras.layers.Dense(2, dtype="float64"),
    ]
)


class Warped(gpflow.kernels.Kernel):
    def __init__(self):
        super().__init__()
        self.base = gpflow.kernels.Matern52()
        self.network = network

    def K(self, X, X2=None):
        return self.base.K(self.network(X), None if X2 is None else self.network(X2))

    def K_diag(self, X):
        return self.base.K_diag(self.network(X))


deep = gpflow.models.SVGP(Warped(), gpflow.likelihoods.Gaussian(0.1), X[:30].copy())
variables = [*deep.trainable_variables, *network.trainable_variables]
loss = deep.training_loss_closure((X, Y))
adam = tf.keras.optimizers.Adam(0.01)


@tf.function
def step():
    with tf.GradientTape() as tape:
        value = loss()
    adam.apply_gradients(zip(tape.gradient(value, variables), variables, strict=True))
    return value


monitor = gpflow.monitor.Monitor(
    gpflow.monitor.MonitorTaskGroup(
        gpflow.monitor.ExecuteCallback(lambda: print(float(deep.elbo((X, Y))))), period=2
    )
)
for i in range(3):
    print(float(step()))
    monitor(i)
likelihood = gpflow.likelihoods.HeteroskedasticTFPConditional()
noisy = gpflow.models.SVGP(
    gpflow.kernels.SeparateIndependent(
        [gpflow.kernels.SquaredExponential(), gpflow.kernels.SquaredExponential()]
    ),
    likelihood,
    gpflow.inducing_variables.SharedIndependentInducingVariables(
        gpflow.inducing_variables.InducingPoints(X[:20].copy())
    ),
    num_latent_gps=likelihood.latent_dim,
)
gpflow.optimizers.Scipy().minimize(
    noisy.training_loss_closure((X, Y)), noisy.trainable_variables, options={"maxiter": 2}
)
mean, variance = noisy.predict_y(X[:500])
print(float(noisy.elbo((X, Y))), float(tf.reduce_sum(mean)), float(tf.reduce_sum(variance)))
