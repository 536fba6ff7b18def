"""Data sets: inputs and targets with their units, split and standardised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Scale:
    """The affine map between the units of a source and mean 0, standard deviation 1."""

    mean: Array  # [1, D]
    std: Array  # [1, D]

    @staticmethod
    def of(values: Array) -> Scale:
        """Fit to `values` [N, D]; a constant column is only centred."""
        std = values.std(axis=0, keepdims=True)
        return Scale(values.mean(axis=0, keepdims=True), np.where(std > 0, std, 1.0))

    def standardise(self, values: Array) -> Array:
        """Map `values` [N, D] from the units of the source."""
        return (values - self.mean) / self.std

    def restore(self, values: Array) -> Array:
        """Map `values` [N, D] back to the units of the source."""
        return values * self.std + self.mean


@dataclass(frozen=True)
class Split:
    """A data set cut into training and test rows, standardised by the training rows alone."""

    train: tuple[Array, Array]  # [N_train, D], [N_train, 1]
    test: tuple[Array, Array]  # [N_test, D], [N_test, 1]
    train_rows: npt.NDArray[np.int64]  # [N_train]
    test_rows: npt.NDArray[np.int64]  # [N_test]
    X_scale: Scale
    y_scale: Scale


@dataclass(frozen=True)
class Dataset:
    """Inputs X [N, D] and targets y [N, 1], in the units of their source.

    `test_masks` [N, splits]: the test rows of each published split, if there are any.
    """

    name: str
    X: Array  # [N, D]
    y: Array  # [N, 1]
    y_unit: str
    test_masks: npt.NDArray[np.bool_] | None = None

    def split(self, seed: int, train_fraction: float = 0.67) -> Split:
        """Split at random: `floor(train_fraction * N)` training rows, the others are test rows."""
        rows = np.random.default_rng(seed).permutation(len(self.X))
        cut = int(train_fraction * len(rows))
        return self._split(rows[:cut], rows[cut:])

    def published_split(self, number: int) -> Split:
        """Split as published test split `number`. Raises ValueError if there is none."""
        if self.test_masks is None or not 0 <= number < self.test_masks.shape[1]:
            count = 0 if self.test_masks is None else self.test_masks.shape[1]
            raise ValueError(f"{self.name} has {count} published splits, no number {number}")
        tested = self.test_masks[:, number]
        return self._split(np.flatnonzero(~tested), np.flatnonzero(tested))

    def _split(self, train: npt.NDArray[np.int64], test: npt.NDArray[np.int64]) -> Split:
        X_scale, y_scale = Scale.of(self.X[train]), Scale.of(self.y[train])
        X, y = X_scale.standardise(self.X), y_scale.standardise(self.y)
        return Split((X[train], y[train]), (X[test], y[test]), train, test, X_scale, y_scale)


def terrain() -> tuple[Dataset, tuple[int, int]]:
    """Load the elevation around the Jacksboro fault (Tennessee) that ships with matplotlib.

    X [138632, 2] is latitude and longitude in degrees, y [138632, 1] elevation in metres, at the
    centres of a grid of 3 arc seconds. Also returns the grid's shape, (344, 403); the rows of X are
    in its C order. Source: Shuttle Radar Topography Mission, `jacksboro_fault_dem.npz`.
    """
    from matplotlib.cbook import get_sample_data

    grid: Any = get_sample_data("jacksboro_fault_dem.npz")
    elevation = grid["elevation"]  # [344, 403], first row in the north
    rows, columns = elevation.shape
    latitude = grid["ymin"] - grid["dy"] * (np.arange(rows) + 0.5)  # ymin: the northern edge
    longitude = grid["xmin"] + grid["dx"] * (np.arange(columns) + 0.5)
    X = np.stack(np.meshgrid(latitude, longitude, indexing="ij"), axis=-1).reshape(-1, 2)
    y = elevation.reshape(-1, 1).astype(np.float64)
    return Dataset("Jacksboro terrain", X, y, y_unit="m"), (rows, columns)
