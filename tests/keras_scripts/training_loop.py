"""A training loop of one's own: steps as functions, metrics, shuffled batches of two sizes."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(6)
pixels = keras.Input((784,))
x = layers.Dense(64, activation="relu")(pixels)
x = layers.Dense(64, activation="relu", kernel_regularizer=keras.regularizers.L2(1e-3))(x)
model = keras.Model(pixels, layers.Dense(10)(x))
optimizer = keras.optimizers.SGD(1e-2, momentum=0.9)
cross = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
accuracy, validation = (keras.metrics.SparseCategoricalAccuracy() for _ in range(2))

rng = np.random.default_rng(0)
images, digits = rng.random((1000, 784)).astype("float32"), rng.integers(0, 10, 1000)
training = tf.data.Dataset.from_tensor_slices((images, digits)).shuffle(1024, seed=3).batch(64)
held_out = tf.data.Dataset.from_tensor_slices((images[:300], digits[:300])).batch(64)


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        logits = model(x, training=True)
        loss = cross(y, logits) + sum(model.losses)
    weights = model.trainable_weights
    optimizer.apply(tape.gradient(loss, weights), weights)
    accuracy.update_state(y, logits)
    return loss


@tf.function
def test_step(x, y):
    validation.update_state(y, model(x, training=False))


for _ in range(2):
    for x, y in training:
        loss = train_step(x, y)
    print(float(loss), float(accuracy.result()))
    accuracy.reset_state()
    for x, y in held_out:
        test_step(x, y)
    print(float(validation.result()))
    validation.reset_state()
