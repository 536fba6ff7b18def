"""Pairs of images through one network: a contrastive loss of one's own."""

import keras
import numpy as np
from keras import layers, ops

keras.utils.set_random_seed(9)


def embedding():
    image = keras.Input((28, 28, 1))
    x = layers.BatchNormalization()(image)
    x = layers.AveragePooling2D(2)(layers.Conv2D(4, 5, activation="tanh")(x))
    x = layers.AveragePooling2D(2)(layers.Conv2D(16, 5, activation="tanh")(x))
    x = layers.BatchNormalization()(layers.Flatten()(x))
    return keras.Model(image, layers.Dense(10, activation="tanh")(x))


def distance(pair):
    squares = ops.sum(ops.square(pair[0] - pair[1]), axis=1, keepdims=True)
    return ops.sqrt(ops.maximum(squares, keras.backend.epsilon()))


def contrastive(y, p):
    return ops.mean((1 - y) * ops.square(p) + y * ops.square(ops.maximum(1 - p, 0)))


tower = embedding()
one, other = keras.Input((28, 28, 1)), keras.Input((28, 28, 1))
x = layers.Lambda(distance)([tower(one), tower(other)])
x = layers.Dense(1, activation="sigmoid")(layers.BatchNormalization()(x))
model = keras.Model([one, other], x)
model.compile(loss=contrastive, optimizer="RMSprop", metrics=["accuracy"])

rng = np.random.default_rng(0)
pairs = [rng.random((200, 28, 28, 1)).astype("float32") for _ in range(2)]
differ = rng.integers(0, 2, (200, 1)).astype("float32")
history = model.fit(pairs, differ, batch_size=32, epochs=2, verbose=0).history
print(*history["loss"])
print(*model.predict([images[:5] for images in pairs], verbose=0).ravel())
