"""SVGP on minibatches of an iterator: natural gradients and Adam in one compiled step."""

import gpflow
import numpy as np
import tensorflow as tf

tf.random.set_seed(0)
rng = np.random.default_rng(0)
N = 2003
X = rng.uniform(-2, 2, (N, 1))
Y = np.sin(4 * X) + 0.1 * rng.normal(size=(N, 1))
batches = iter(tf.data.Dataset.from_tensor_slices((X, Y)).repeat().shuffle(N, seed=1).batch(600))
model = gpflow.models.SVGP(
    gpflow.kernels.Matern52(), gpflow.likelihoods.Gaussian(), X[:40].copy(), num_data=N
)
gpflow.set_trainable(model.q_mu, False)
gpflow.set_trainable(model.q_sqrt, False)
loss = model.training_loss_closure(batches, compile=True)
natural = gpflow.optimizers.NaturalGradient(gamma=0.1)
adam = tf.keras.optimizers.Adam(0.01)


@tf.function
def step():
    with tf.GradientTape() as tape:
        value = loss()
    variables = model.trainable_variables
    adam.apply_gradients(zip(tape.gradient(value, variables), variables, strict=True))
    natural.minimize(loss, [(model.q_mu, model.q_sqrt)])
    return value


for _ in range(4):
    print(float(step()))
mean, variance = model.predict_y(X[:700])
print(float(tf.reduce_sum(mean)), float(tf.reduce_sum(variance)))
print(float(model.elbo((X, Y))))
