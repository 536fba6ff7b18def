"""Classification of text by a transformer: layers of one's own, dropout, validation."""

import keras
import numpy as np
from keras import layers, ops

keras.utils.set_random_seed(2)
LENGTH, WORDS, WIDTH = 200, 2000, 32


class Block(layers.Layer):
    def __init__(self, heads, hidden):
        super().__init__()
        self.attention = layers.MultiHeadAttention(heads, WIDTH)
        self.network = keras.Sequential(
            [layers.Dense(hidden, activation="relu"), layers.Dense(WIDTH)]
        )
        self.norms = [layers.LayerNormalization(epsilon=1e-6) for _ in range(2)]
        self.dropouts = [layers.Dropout(0.1, seed=seed) for seed in (3, 4)]

    def call(self, x, training=None):
        attended = self.dropouts[0](self.attention(x, x), training=training)
        x = self.norms[0](x + attended)
        return self.norms[1](x + self.dropouts[1](self.network(x), training=training))


class Embedding(layers.Layer):
    def __init__(self):
        super().__init__()
        self.words = layers.Embedding(WORDS, WIDTH)
        self.positions = layers.Embedding(LENGTH, WIDTH)

    def call(self, x):
        return self.words(x) + self.positions(ops.arange(0, ops.shape(x)[-1], 1))


text = keras.Input((LENGTH,))
x = Block(2, 32)(Embedding()(text))
x = layers.Dropout(0.1, seed=5)(layers.GlobalAveragePooling1D()(x))
x = layers.Dropout(0.1, seed=6)(layers.Dense(20, activation="relu")(x))
model = keras.Model(text, layers.Dense(2, activation="softmax")(x))
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])

rng = np.random.default_rng(0)
words, classes = rng.integers(0, WORDS, (200, LENGTH)), rng.integers(0, 2, 200)
history = model.fit(
    words, classes, batch_size=32, epochs=2, validation_data=(words[:50], classes[:50]), verbose=0
).history
print(*history["loss"], *history["val_loss"])
print(*model.evaluate(words, classes, verbose=0))
print(*model.predict(words[:7], verbose=0).ravel())
