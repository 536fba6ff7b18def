"""The regression sets of the experiments, by name.

| name | N, D | content |
|---|---|---|
| 3droad | 434,874, 3 | UCI 3D Road Network (North Jutland): id, longitude, latitude -> altitude |
| houseelectric | 2,049,280, 11 | UCI household power consumption, see `read_household` |
| kin40k, protein, keggdirected, elevators, pol, tamielectric, ... | | as in the GP literature |
| terrain | 138,632, 2 | elevation around the Jacksboro fault, which ships with matplotlib |
| synthetic-NxD, as synthetic-10000x3 | N, D | a sum of waves and noise of variance 0.01 |

A file in the data folder is preferred to a download. Files are looked up in this order: NAME.npz
(X, y, and fold or test_mask if there are splits), NAME.mat (Wilson's: the array `data`, y in the
last column), NAME/data.csv.gz with NAME/test_mask.csv.gz (y in the last column, a column of the
mask per split), NAME.csv (y in the last column), and the raw file of the UCI.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from gp_experiments.data import Dataset, terrain
from gp_experiments.downloads import DataError, Source, check, fetch
from gp_experiments.number_files import read_numbers

DEFAULT_DIR = Path("data")

_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/"
_READY = "https://raw.githubusercontent.com/treforevans/uci_datasets/master/uci_datasets/"

# Sets that are downloaded in the literature's ready form.
READY = (
    "bike", "elevators", "keggdirected", "keggundirected", "kin40k", "pol", "protein",
    "pumadyn32nm", "slice", "song", "tamielectric",
)  # fmt: skip
NAMES = ("3droad", "houseelectric", *READY, "terrain", "synthetic-NxD")

_ROADS = Source(_UCI + "00246/3D_spatial_network.txt", "3D_spatial_network.txt")
_HOUSEHOLD = Source(
    _UCI + "00235/household_power_consumption.zip",
    "household_power_consumption.zip",
    "household_power_consumption.txt",
)


def load(name: str, data_dir: Path = DEFAULT_DIR) -> Dataset:
    """Load a data set by its name, from `data_dir` or the web.

    Raises DataError for an unknown name, and if the data are not available or corrupted.
    """
    if name == "terrain":
        return terrain()[0]
    if name.startswith("synthetic"):
        return synthetic(name)
    if name not in NAMES:
        raise DataError(f"there is no data set {name!r}; known are {', '.join(NAMES)}")
    for path, read in _candidates(name, data_dir):
        if path.exists():
            # Read first, so that no checksum is recorded for a corrupted file.
            dataset = _read(name, path, read)
            check(path)
            return dataset
    if name == "3droad":
        return _read(name, fetch(_ROADS, data_dir), read_roads)
    if name == "houseelectric":
        return _read(name, fetch(_HOUSEHOLD, data_dir), read_household)
    folder = data_dir / name
    fetch(Source(f"{_READY}{name}/test_mask.csv.gz", "test_mask.csv.gz"), folder)
    data = fetch(Source(f"{_READY}{name}/data.csv.gz", "data.csv.gz"), folder)
    return _read(name, data, read_masked_csv)


def check_name_and_file(name: str, fold: int | None, data_dir: Path) -> None:
    """Raise DataError if `load` would, or if there is no published split `fold`."""
    if name.startswith("synthetic") and fold is None:
        _synthetic_size(name)  # generated data cannot be corrupted
        return
    dataset = load(name, data_dir)
    if fold is not None:
        try:
            dataset.published_split(fold)
        except ValueError as error:
            raise DataError(str(error)) from error


def synthetic(name: str) -> Dataset:
    """Make "synthetic-NxD": X standard normal, y a sum of three waves, noise of deviation 0.1."""
    points, dims = _synthetic_size(name)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((points, dims))
    directions = rng.standard_normal((dims, 3)) * np.array([1.0, 2.0, 4.0]) / np.sqrt(dims)
    y = np.sin(X @ directions).sum(axis=1, keepdims=True) + 0.1 * rng.standard_normal((points, 1))
    return Dataset(name, X, y, y_unit="")


def _synthetic_size(name: str) -> tuple[int, int]:
    match = re.fullmatch(r"synthetic-(\d+)x(\d+)", name)
    if match is None or int(match[1]) < 2 or int(match[2]) < 1:
        raise DataError(f'synthetic data are named by their size, as "synthetic-10000x3": {name!r}')
    return int(match[1]), int(match[2])


def read_npz(name: str, path: Path) -> Dataset:
    """Read X [N, D], y [N] or [N, 1], and the published splits if there are any.

    These are `fold` [N], the split that tests a row, or else `test_mask` [N, splits].
    """
    with np.load(path) as arrays:
        if not {"X", "y"} <= set(arrays.files):
            raise DataError(f"{path} has {', '.join(arrays.files)}; needed are X and y")
        masks = None
        if "fold" in arrays.files:
            fold = arrays["fold"]
            masks = fold[:, None] == np.arange(fold.max() + 1)
        elif "test_mask" in arrays.files:
            masks = arrays["test_mask"].astype(bool)
        return _dataset(name, arrays["X"], arrays["y"], masks)


def read_mat(name: str, path: Path) -> Dataset:
    """Read Wilson's files: a matrix `data` [N, D + 1] with y in its last column."""
    from scipy.io import loadmat

    arrays = {k: v for k, v in loadmat(path).items() if not k.startswith("__")}
    data = arrays.get("data")
    if data is None or data.ndim != 2:
        raise DataError(f"{path} has {', '.join(arrays)}; needed is a matrix named data")
    return _dataset(name, data[:, :-1], data[:, -1])


def read_masked_csv(name: str, path: Path) -> Dataset:
    """Read data.csv.gz, y in the last column, and its test_mask.csv.gz [N, splits] if it exists."""
    data = read_numbers(path)
    mask_path = path.with_name("test_mask.csv.gz")
    masks = read_numbers(mask_path) > 0 if mask_path.exists() else None
    return _dataset(name, data[:, :-1], data[:, -1], masks)


def read_csv(name: str, path: Path) -> Dataset:
    """Read numbers with y in the last column; a first line of words is skipped."""
    data = read_numbers(path, header=True)
    return _dataset(name, data[:, :-1], data[:, -1])


def read_roads(name: str, path: Path) -> Dataset:
    """Read the UCI's 3D Road Network: OSM id, longitude, latitude [degrees], altitude [m]."""
    data = read_numbers(path, columns=4)
    return _dataset(name, data[:, :3], data[:, 3], unit="m")


def read_household(name: str, path: Path) -> Dataset:
    """Read the UCI's household power consumption; y is Global_active_power [kW].

    The eleven inputs derived here are, in this order: year, month, day of the month, hour, minute;
    Global_reactive_power, Voltage, Global_intensity, Sub_metering_1, 2 and 3. Rows with a missing
    value ("?") are left out: 2,049,280 of 2,075,259 remain. The literature states N and D but not
    its inputs. If its ready file (houseelectric.mat or houseelectric/data.csv.gz) is in the data
    folder, that file is used instead.
    """
    rows = []
    with path.open() as file:
        if not file.readline().startswith("Date;Time;Global_active_power"):
            raise DataError(f"{path} is not the UCI's household_power_consumption.txt")
        for number, line in enumerate(file, 2):
            try:
                row = _household_row(line)
            except ValueError as error:
                raise DataError(f"{path}, line {number}: {error}") from error
            if row is not None:
                rows.append(row)
    data = np.array(rows, dtype=np.float64)
    return _dataset(name, data[:, :-1], data[:, -1], unit="kW")


def _household_row(line: str) -> list[float] | None:
    """Return inputs and target of one minute; None if a value is missing."""
    date, time, active, *others = line.strip().split(";")
    if active in ("?", "") or "?" in others or "" in others:
        return None
    if len(others) != 6:
        raise ValueError(f"{len(others) + 3} columns, not 9")
    when = datetime.strptime(f"{date} {time}", "%d/%m/%Y %H:%M:%S")
    calendar = (when.year, when.month, when.day, when.hour, when.minute)
    return [*calendar, *map(float, others), float(active)]


Read = Callable[[str, Path], Dataset]


def _read(name: str, path: Path, read: Read) -> Dataset:
    try:
        return read(name, path)
    except DataError:
        raise
    except Exception as error:  # raised by zip, gzip, MATLAB's format and NumPy for broken files
        raise DataError(f"{path} cannot be read: {type(error).__name__}: {error}") from error


def _candidates(name: str, data_dir: Path) -> list[tuple[Path, Read]]:
    raw: dict[str, list[tuple[Path, Read]]] = {
        "3droad": [(data_dir / _ROADS.filename, read_roads)],
        "houseelectric": [(data_dir / str(_HOUSEHOLD.member), read_household)],
    }
    return [
        (data_dir / f"{name}.npz", read_npz),
        (data_dir / f"{name}.mat", read_mat),
        (data_dir / name / "data.csv.gz", read_masked_csv),
        (data_dir / f"{name}.csv", read_csv),
        *raw.get(name, []),
    ]


def _dataset(name: str, X: Any, y: Any, masks: Any = None, unit: str = "") -> Dataset:
    X, y = np.asarray(X, np.float64), np.asarray(y, np.float64).reshape(-1, 1)
    if X.ndim != 2 or len(X) != len(y) or (masks is not None and len(masks) != len(y)):
        shapes = f"X {X.shape}, y {y.shape}" + ("" if masks is None else f", masks {masks.shape}")
        raise DataError(f"{name}: the arrays do not fit together: {shapes}")
    if len(X) < 1 or X.shape[1] < 1:
        raise DataError(f"{name}: X {X.shape} has no rows, or no inputs")
    whole = np.isfinite(X).all(1) & np.isfinite(y).all(1)
    if not whole.all():
        raise DataError(f"{name}: row {np.argmin(whole)}, from 0, has what is no finite number")
    return Dataset(name, X, y, y_unit=unit, test_masks=masks)
