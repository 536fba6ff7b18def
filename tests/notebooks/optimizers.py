"""One model under several optimizers of SciPy and Keras, watched while it trains."""

import tempfile

import gpflow
import numpy as np
import tensorflow as tf
import tf_keras

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (9001, 2))
Y = np.sin(4 * X[:, :1]) * X[:, 1:] + 0.1 * rng.normal(size=(9001, 1))


def model():
    return gpflow.models.SGPR((X, Y), gpflow.kernels.Matern32(), X[:40].copy(), noise_variance=0.1)


def watch(step, variables, values):
    print(step, *(float(tf.reduce_sum(value)) for value in values))


for options in (
    {"method": "CG", "compile": False},
    {"method": "BFGS", "step_callback": watch, "track_loss_history": True},
):
    trained = model()
    result = gpflow.optimizers.Scipy().minimize(
        trained.training_loss, trained.trainable_variables, options={"maxiter": 1}, **options
    )
    print(float(result.fun))
gpflow.set_trainable(trained.inducing_variable, False)
variables = trained.trainable_variables
legacy = tf_keras.optimizers.Adam(0.05)
legacy.minimize(trained.training_loss, variables)
compiled = trained.training_loss_closure(compile=True)
for _ in range(2):
    legacy.minimize(compiled, variables)
print(float(compiled()))


class Summary(gpflow.monitor.ToTensorBoard):
    def run(self, **given):
        tf.summary.write("elbo", trained.elbo(), step=self.current_step)


folder = tempfile.mkdtemp()
monitor = gpflow.monitor.Monitor(
    gpflow.monitor.MonitorTaskGroup(
        [
            Summary(folder),
            gpflow.monitor.ExecuteCallback(lambda loss: print(float(loss), flush=True)),
        ],
        period=2,
    )
)
for optimizer in (tf.keras.optimizers.Adam(0.01), tf_keras.optimizers.RMSprop(0.01)):

    @tf.function
    def step(optimizer=optimizer):
        with tf.GradientTape() as tape:
            loss = trained.training_loss()
        gradients = tape.gradient(loss, variables)
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return loss

    optimizer.build(variables)
    for k in range(2):
        monitor(k, loss=step())
