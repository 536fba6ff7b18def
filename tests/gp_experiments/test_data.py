import numpy as np
import pytest

from gp_experiments.data import Dataset, Scale, terrain


@pytest.fixture
def dataset() -> Dataset:
    rng = np.random.default_rng(1)
    X = rng.normal([3.0, -200.0], [0.1, 50.0], size=(100, 2))
    return Dataset("made up", X, 400 + 30 * rng.normal(size=(100, 1)), y_unit="m")


def test_split_has_every_row_once(dataset: Dataset) -> None:
    split = dataset.split(seed=0)
    assert (len(split.train_rows), len(split.test_rows)) == (67, 33)
    assert sorted([*split.train_rows, *split.test_rows]) == list(range(100))


def test_split_is_decided_by_the_seed(dataset: Dataset) -> None:
    first, again, other = dataset.split(seed=0), dataset.split(seed=0), dataset.split(seed=1)
    assert np.array_equal(first.train_rows, again.train_rows)
    assert not np.array_equal(first.train_rows, other.train_rows)


def test_inputs_and_targets_stay_together(dataset: Dataset) -> None:
    split = dataset.split(seed=0)
    for rows, (X, y) in ((split.train_rows, split.train), (split.test_rows, split.test)):
        np.testing.assert_allclose(split.X_scale.restore(X), dataset.X[rows], rtol=1e-12)
        np.testing.assert_allclose(split.y_scale.restore(y), dataset.y[rows], rtol=1e-12)


def test_standardised_by_the_training_rows_alone(dataset: Dataset) -> None:
    split = dataset.split(seed=0)
    for values in split.train:
        np.testing.assert_allclose(values.mean(axis=0), 0, atol=1e-12)
        np.testing.assert_allclose(values.std(axis=0), 1, rtol=1e-12)
    shifted = dataset.y.copy()
    shifted[split.test_rows] += 1000
    moved = Dataset("moved", dataset.X, shifted, y_unit="m").split(seed=0)
    np.testing.assert_array_equal(moved.train[1], split.train[1])


def test_constant_column_is_only_centred() -> None:
    values = np.array([[5.0, 1.0], [5.0, 3.0]])
    np.testing.assert_array_equal(Scale.of(values).standardise(values), [[0, -1], [0, 1]])


def test_terrain() -> None:
    dataset, shape = terrain()
    assert shape == (344, 403)
    assert dataset.X.shape == (138_632, 2)
    assert dataset.y.shape == (138_632, 1)
    latitude, longitude = dataset.X.reshape(*shape, 2).transpose(2, 0, 1)  # [344, 403] each
    # The grid is of 3 arc seconds, its first row in the north and its first column in the west.
    np.testing.assert_allclose(np.diff(latitude, axis=0), -3 / 3600, rtol=1e-6)
    np.testing.assert_allclose(np.diff(longitude, axis=1), 3 / 3600, rtol=1e-6)
    assert (np.ptp(latitude, axis=1) == 0).all()
    # Jacksboro, Tennessee, is at 36.33 N 84.18 W, just south; the highest point is Cross Mountain.
    assert 36.44 < latitude.min() < latitude.max() < 36.74
    assert -84.42 < longitude.min() < longitude.max() < -84.07
    assert (dataset.y.min(), dataset.y.max()) == (236, 1076)
