"""Recurrent layers on series: callbacks that stop, save and restore, and a model read again."""

import tempfile
from pathlib import Path

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(8)
model = keras.Sequential(
    [
        keras.Input((50, 4)),
        layers.Bidirectional(layers.LSTM(16, return_sequences=True)),
        layers.GRU(8),
        layers.Dense(1),
    ]
)
model.compile(keras.optimizers.RMSprop(1e-2), "mse", metrics=["mae"])
series = np.random.default_rng(0).normal(size=(300, 50, 4)).astype("float32")
sums = series.sum((1, 2))[:, None] / 10
with tempfile.TemporaryDirectory() as folder:
    best = Path(folder, "best.keras")
    history = model.fit(
        series, sums, validation_split=0.2, epochs=3, batch_size=64, verbose=0,
        callbacks=[
            keras.callbacks.EarlyStopping(patience=1, restore_best_weights=True),
            keras.callbacks.ReduceLROnPlateau(patience=1),
            keras.callbacks.ModelCheckpoint(best, save_best_only=True),
        ],
    ).history  # fmt: skip
    again = keras.models.load_model(best)
print(*history["loss"], *history["val_mae"])
print(*again.predict(series[:6], verbose=0).ravel())
