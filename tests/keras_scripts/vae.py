"""A variational autoencoder: a layer that draws, two models, a training step of one's own."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

keras.utils.set_random_seed(1)


class Sampling(layers.Layer):
    def __init__(self):
        super().__init__()
        self.seed_generator = keras.random.SeedGenerator(1337)

    def call(self, inputs):
        mean, log_var = inputs
        drawn = keras.random.normal(ops.shape(mean), seed=self.seed_generator)
        return mean + ops.exp(0.5 * log_var) * drawn


image = keras.Input((28, 28, 1))
x = layers.Conv2D(32, 3, activation="relu", strides=2, padding="same")(image)
x = layers.Conv2D(64, 3, activation="relu", strides=2, padding="same")(x)
x = layers.Dense(16, activation="relu")(layers.Flatten()(x))
mean, log_var = layers.Dense(2)(x), layers.Dense(2)(x)
encoder = keras.Model(image, [mean, log_var, Sampling()([mean, log_var])])

code = keras.Input((2,))
x = layers.Dense(7 * 7 * 64, activation="relu")(code)
x = layers.Reshape((7, 7, 64))(x)
x = layers.Conv2DTranspose(64, 3, activation="relu", strides=2, padding="same")(x)
x = layers.Conv2DTranspose(32, 3, activation="relu", strides=2, padding="same")(x)
decoder = keras.Model(code, layers.Conv2DTranspose(1, 3, activation="sigmoid", padding="same")(x))


class Autoencoder(keras.Model):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = encoder, decoder
        self.tracked = [keras.metrics.Mean(name=name) for name in ("loss", "kl")]

    @property
    def metrics(self):
        return self.tracked

    def train_step(self, data):
        with tf.GradientTape() as tape:
            mean, log_var, drawn = self.encoder(data)
            cross = keras.losses.binary_crossentropy(data, self.decoder(drawn))
            kl = -0.5 * (1 + log_var - ops.square(mean) - ops.exp(log_var))
            kl = ops.mean(ops.sum(kl, axis=1))
            loss = ops.mean(ops.sum(cross, axis=(1, 2))) + kl
        gradients = tape.gradient(loss, self.trainable_weights)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_weights, strict=True))
        for metric, value in zip(self.tracked, (loss, kl), strict=True):
            metric.update_state(value)
        return {metric.name: metric.result() for metric in self.tracked}


images = np.random.default_rng(0).random((300, 28, 28, 1)).astype("float32")
model = Autoencoder()
model.compile(optimizer=keras.optimizers.Adam())
history = model.fit(images, epochs=2, batch_size=128, verbose=0).history
print(*history["loss"], *history["kl"])
print(*decoder.predict(np.zeros((3, 2), "float32"), verbose=0).ravel()[:9])
