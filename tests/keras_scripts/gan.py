"""Two networks against each other: two optimizers, random numbers, batches of a data set."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

keras.utils.set_random_seed(5)
CODE = 64
discriminator = keras.Sequential(
    [
        keras.Input((28, 28, 1)),
        layers.Conv2D(32, 3, strides=2, padding="same"),
        layers.LeakyReLU(negative_slope=0.2),
        layers.Conv2D(64, 3, strides=2, padding="same"),
        layers.BatchNormalization(),
        layers.LeakyReLU(negative_slope=0.2),
        layers.GlobalMaxPooling2D(),
        layers.Dense(1),
    ]
)
generator = keras.Sequential(
    [
        keras.Input((CODE,)),
        layers.Dense(7 * 7 * 64),
        layers.LeakyReLU(negative_slope=0.2),
        layers.Reshape((7, 7, 64)),
        layers.Conv2DTranspose(64, 4, strides=2, padding="same"),
        layers.LeakyReLU(negative_slope=0.2),
        layers.Conv2DTranspose(64, 4, strides=2, padding="same"),
        layers.LeakyReLU(negative_slope=0.2),
        layers.Conv2D(1, 7, padding="same", activation="sigmoid"),
    ]
)


class Adversaries(keras.Model):
    def __init__(self):
        super().__init__()
        self.discriminator, self.generator = discriminator, generator
        self.seed = keras.random.SeedGenerator(7)
        self.tracked = [keras.metrics.Mean(name=name) for name in ("d", "g")]

    def compile(self, optimizers):
        super().compile()
        self.optimizers = optimizers
        self.cross = keras.losses.BinaryCrossentropy(from_logits=True)

    @property
    def metrics(self):
        return self.tracked

    def train_step(self, real):
        count = ops.shape(real)[0]
        made = self.generator(keras.random.normal((count, CODE), seed=self.seed))
        both = ops.concatenate([made, real], axis=0)
        labels = ops.concatenate([ops.ones((count, 1)), ops.zeros((count, 1))], axis=0)
        labels += 0.05 * keras.random.uniform(ops.shape(labels), seed=self.seed)
        with tf.GradientTape() as tape:
            first = self.cross(labels, self.discriminator(both, training=True))
        weights = self.discriminator.trainable_weights
        self.optimizers[0].apply(tape.gradient(first, weights), weights)
        codes = keras.random.normal((count, CODE), seed=self.seed)
        with tf.GradientTape() as tape:
            made = self.discriminator(self.generator(codes))
            second = self.cross(ops.zeros((count, 1)), made)
        weights = self.generator.trainable_weights
        self.optimizers[1].apply(tape.gradient(second, weights), weights)
        for metric, value in zip(self.tracked, (first, second), strict=True):
            metric.update_state(value)
        return {metric.name: metric.result() for metric in self.tracked}


images = np.random.default_rng(0).random((150, 28, 28, 1)).astype("float32")
model = Adversaries()
model.compile([keras.optimizers.Adam(3e-4), keras.optimizers.Adam(3e-4)])
batches = tf.data.Dataset.from_tensor_slices(images).batch(64)
history = model.fit(batches, epochs=2, verbose=0).history
print(*history["d"], *history["g"])
