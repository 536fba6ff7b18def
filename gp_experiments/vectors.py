"""Vectors to search for neighbours in, by name: data [n, d] and queries [m, d], float32.

| name | content |
|---|---|
| random-NxD, as random-1e6x10 | standard normal |
| mnist, fashion | images of 28 x 28 as vectors of 784 in [0, 1]; queries are the test set |
| glove-50, glove-100, glove-200, glove-25 | words of Twitter, from ann-benchmarks |

In the data folder, NAME.hdf5 (ann-benchmarks': `train`, `test`) or NAME.npz (X_train and X_test, or
a single array of vectors, the last rows of which become the queries) are preferred to a download.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gp_experiments.datasets import DEFAULT_DIR
from gp_experiments.downloads import DataError, Source, check, fetch

Vectors = npt.NDArray[np.float32]

_ANN = "http://ann-benchmarks.com/"
_FILES = {
    "mnist": "mnist-784-euclidean.hdf5",
    "fashion": "fashion-mnist-784-euclidean.hdf5",
    **{f"glove-{d}": f"glove-{d}-angular.hdf5" for d in (25, 50, 100, 200)},
}
_IMAGES = ("mnist", "fashion")  # grey levels of a byte, whatever their stored type
# Other names of files with the same vectors.
_ALIASES = {"fashion": ("fashion", "fashion_mnist"), "glove-50": ("glove-50", "glove50*")}
NAMES = ("random-NxD", *_FILES)


def load_vectors(
    name: str, queries: int, data_dir: Path = DEFAULT_DIR, seed: int = 0
) -> tuple[Vectors, Vectors]:
    """Return data [n, d] and at most `queries` queries [m, d].

    Raises DataError for an unknown name, and if the data are not available or corrupted.
    """
    if name.startswith("random"):
        return _random(name, queries, seed)
    if name not in _FILES:
        raise DataError(f"there are no vectors {name!r}; known are {', '.join(NAMES)}")
    path = _found(name, data_dir) or fetch(Source(_ANN + _FILES[name], _FILES[name]), data_dir)
    data, test = _read(path, queries)
    check(path)
    scale = np.float32(255 if name in _IMAGES else 1)
    return data / scale, test[:queries] / scale


def _random(name: str, queries: int, seed: int) -> tuple[Vectors, Vectors]:
    points, dims = _random_size(name)
    rng = np.random.default_rng(seed)
    data = rng.standard_normal((points, dims), dtype=np.float32)
    return data, rng.standard_normal((queries, dims), dtype=np.float32)


def _random_size(name: str) -> tuple[int, int]:
    match = re.fullmatch(r"random-([0-9]+(?:\.[0-9]*)?(?:e[0-9]+)?)x(\d+)", name)
    if match is None or float(match[1]) < 1 or int(match[2]) < 1:
        raise DataError(f'random vectors are named by their size, as "random-1e6x10": {name!r}')
    return int(float(match[1])), int(match[2])


def check_name_and_file(name: str, queries: int, data_dir: Path) -> None:
    """Raise DataError if `load_vectors` would."""
    if name.startswith("random"):
        _random_size(name)  # generated data cannot be corrupted
    else:
        load_vectors(name, queries, data_dir)


def _found(name: str, data_dir: Path) -> Path | None:
    patterns = [_FILES[name]]
    for alias in _ALIASES.get(name, (name,)):
        patterns += [f"{alias}.hdf5", f"{alias}.npz"]
    for pattern in patterns:
        if paths := sorted(data_dir.glob(pattern)):
            return paths[0]
    return None


def _read(path: Path, queries: int) -> tuple[Vectors, Vectors]:
    try:
        return _read_hdf5(path) if path.suffix == ".hdf5" else _read_npz(path, queries)
    except DataError:
        raise
    except Exception as error:  # raised by zip and HDF5 for broken files
        raise DataError(f"{path} cannot be read: {type(error).__name__}: {error}") from error


def _read_hdf5(path: Path) -> tuple[Vectors, Vectors]:
    import h5py

    with h5py.File(path) as file:
        return _rows(file["train"][:]), _rows(file["test"][:])


def _read_npz(path: Path, queries: int) -> tuple[Vectors, Vectors]:
    with np.load(path, allow_pickle=False) as arrays:
        if {"X_train", "X_test"} <= set(arrays.files):
            return _rows(arrays["X_train"]), _rows(arrays["X_test"])
        found = [k for k in arrays.files if arrays[k].ndim == 2 and arrays[k].dtype.kind == "f"]
        if len(found) != 1:
            raise DataError(f"{path} has {', '.join(arrays.files)}; needed are X_train and X_test")
        vectors = _rows(arrays[found[0]])
    first = len(vectors) - min(queries, len(vectors) // 10)
    return vectors[:first], vectors[first:]


def _rows(values: Any) -> Vectors:
    return np.ascontiguousarray(values.reshape(len(values), -1), dtype=np.float32)
