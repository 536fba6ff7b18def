"""Data sets in every format that is accepted, and what is said of those that cannot be had."""

import gzip
import json
import os
from pathlib import Path

import h5py
import numpy as np
import pytest
from scipy.io import savemat

from gp_experiments import datasets, downloads
from gp_experiments.downloads import DataError, Source, check, fetch
from gp_experiments.vectors import load_vectors

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
DATA = np.arange(20.0).reshape(5, 4)
MASK = np.array([[1, 0], [0, 1], [0, 0], [0, 1], [1, 0]])


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise ConnectionError("no network in tests")

    monkeypatch.setattr(downloads.pooch, "retrieve", refuse)


def save_npz(folder: Path) -> None:
    np.savez(folder / "kin40k.npz", X=DATA[:, :3], y=DATA[:, 3], fold=[0, 1, 2, 1, 0])


def save_mat(folder: Path) -> None:
    savemat(folder / "kin40k.mat", {"data": DATA})


def save_gz(folder: Path) -> None:
    (folder / "kin40k").mkdir()
    for name, values in (("data", DATA), ("test_mask", MASK)):
        with gzip.open(folder / "kin40k" / f"{name}.csv.gz", "wt") as file:
            np.savetxt(file, values, delimiter=",")


def save_csv(folder: Path) -> None:
    np.savetxt(folder / "kin40k.csv", DATA, delimiter=",", header="a,b,c,y", comments="")


@pytest.mark.parametrize("save", [save_npz, save_mat, save_gz, save_csv])
def test_formats(tmp_path: Path, save) -> None:
    save(tmp_path)
    dataset = datasets.load("kin40k", tmp_path)
    np.testing.assert_array_equal(dataset.X, DATA[:, :3])
    np.testing.assert_array_equal(dataset.y, DATA[:, 3:])
    if save in (save_npz, save_gz):
        assert dataset.test_masks is not None
        np.testing.assert_array_equal(dataset.test_masks[:, :2], MASK > 0)
        assert list(dataset.published_split(1).test_rows) == [1, 3]
        assert list(dataset.published_split(1).train_rows) == [0, 2, 4]
    else:
        with pytest.raises(ValueError, match="0 published splits"):
            dataset.published_split(0)


def test_household_has_eleven_inputs_and_no_gaps(tmp_path: Path) -> None:
    names = "Date;Time;Global_active_power;Global_reactive_power;Voltage;Global_intensity"
    (tmp_path / "household_power_consumption.txt").write_text(
        f"{names};Sub_metering_1;Sub_metering_2;Sub_metering_3\n"
        "16/12/2006;17:24:00;4.216;0.418;234.840;18.400;0.000;1.000;17.000\n"
        "28/4/2007;00:21:00;?;?;?;?;?;?;\n"
        "1/2/2010;03:04:00;0.5;0.25;240.0;2.0;1.0;2.0;3.0\n"
    )
    dataset = datasets.load("houseelectric", tmp_path)
    np.testing.assert_array_equal(dataset.y, [[4.216], [0.5]])
    np.testing.assert_array_equal(
        dataset.X,
        [
            [2006, 12, 16, 17, 24, 0.418, 234.84, 18.4, 0, 1, 17],
            [2010, 2, 1, 3, 4, 0.25, 240, 2, 1, 2, 3],
        ],
    )  # fmt: skip
    assert dataset.y_unit == "kW"


def test_roads(tmp_path: Path) -> None:
    (tmp_path / "3D_spatial_network.txt").write_text("144552912,9.35,56.74,17.05\n7,9.4,56.7,18\n")
    dataset = datasets.load("3droad", tmp_path)
    np.testing.assert_array_equal(dataset.X[0], [144552912, 9.35, 56.74])
    np.testing.assert_array_equal(dataset.y, [[17.05], [18]])


def test_synthetic_data_of_any_size() -> None:
    dataset = datasets.load("synthetic-100x5")
    assert (dataset.X.shape, dataset.y.shape) == ((100, 5), (100, 1))
    np.testing.assert_array_equal(dataset.X, datasets.load("synthetic-100x5").X)
    with pytest.raises(DataError, match="synthetic-10000x3"):
        datasets.load("synthetic-many")


def test_unknown_names_list_the_known() -> None:
    with pytest.raises(DataError, match="'kin'; known are 3droad, houseelectric"):
        datasets.load("kin")


def test_offline_the_steps_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        datasets.load("3droad", tmp_path)
    for text in ("3D_spatial_network.txt", "save it as", str(tmp_path), "--data-dir"):
        assert text in str(error.value)


def test_a_file_that_changed_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("1,2")
    check(path)
    check(path)
    assert list(json.loads((tmp_path / "checksums.json").read_text())) == ["data.csv"]
    path.write_text("1,3")
    with pytest.raises(DataError, match="not the file that was used before"):
        fetch(Source("http://example.org/data.csv", "data.csv"), tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_to_is_read(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("1,2")
    tmp_path.chmod(0o500)
    check(path)
    assert not (tmp_path / "checksums.json").exists()


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("a,b\n1,2\n3,x\n", "kin40k.csv, line 3: 'x' is no finite number"),
        ("1,2\n\n3,4,5\n", "kin40k.csv, line 3: 3 columns, not 2"),
        ("1,2\nnan,4\n", "kin40k.csv, line 2: 'nan' is no finite number"),
        ("1,2\n3,inf\n", "kin40k.csv, line 2: 'inf' is no finite number"),
        ("1,2\n3,\n", "kin40k.csv, line 2: '' is no finite number"),
        ("", "kin40k.csv: "),
        ("1\n2\n", r"X \(2, 0\) has no rows"),
        ("1\n", r"X \(1, 0\) has no rows"),
    ],
)
def test_a_corrupted_csv_is_named_by_file_and_line(
    tmp_path: Path, lines: str, message: str
) -> None:
    path = tmp_path / "kin40k.csv"
    path.write_text(lines)
    with pytest.raises(DataError, match=message):
        datasets.load("kin40k", tmp_path)
    # Mended, it is no file that changed.
    path.write_text("1,2\n3,4\n")
    assert datasets.load("kin40k", tmp_path).X.shape == (2, 1)


def test_a_broken_archive_is_named(tmp_path: Path) -> None:
    save_gz(tmp_path)
    path = tmp_path / "kin40k" / "data.csv.gz"
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(DataError, match=r"data\.csv\.gz, line \d+: "):
        datasets.load("kin40k", tmp_path)
    (tmp_path / "kin40k.npz").write_bytes(b"no archive")
    with pytest.raises(DataError, match=r"kin40k\.npz cannot be read: "):
        datasets.load("kin40k", tmp_path)
    (tmp_path / "mnist.hdf5").write_bytes(b"no archive")
    with pytest.raises(DataError, match=r"mnist\.hdf5 cannot be read: "):
        load_vectors("mnist", 5, tmp_path)


def test_a_corrupted_line_of_the_household_is_named(tmp_path: Path) -> None:
    path = tmp_path / "household_power_consumption.txt"
    path.write_text("Date;Time;Global_active_power;...\n1/2/2010;03:04:00;0.5;0.25;240.0;2.0\n")
    with pytest.raises(DataError, match=r"consumption\.txt, line 2: 6 columns, not 9"):
        datasets.load("houseelectric", tmp_path)


def test_vectors_of_ann_benchmarks(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "mnist-784-euclidean.hdf5", "w") as file:
        file["train"] = np.full((7, 784), 51.0, np.float32)
        file["test"] = np.zeros((3, 784), np.float32)
    data, queries = load_vectors("mnist", 2, tmp_path)
    assert (data.shape, queries.shape, data.dtype) == ((7, 784), (2, 784), np.float32)
    np.testing.assert_allclose(data, 0.2)


def test_random_vectors() -> None:
    data, queries = load_vectors("random-1e3x4", 5)
    assert (data.shape, queries.shape) == ((1000, 4), (5, 4))
    with pytest.raises(DataError, match="random-1e6x10"):
        load_vectors("random-x", 5)


@pytest.mark.skipif(not SHARED.exists(), reason="the real data are not there")
def test_real_data() -> None:
    assert datasets.load("kin40k", SHARED).X.shape == (40_000, 8)
    assert datasets.load("protein", SHARED).published_split(0).test_rows.size > 4000
    for name in ("mnist", "fashion"):
        data, queries = load_vectors(name, 10_000, SHARED)
        assert (data.shape, queries.shape) == ((60_000, 784), (10_000, 784))
        assert (data.min(), data.max()) == (0, 1)
    assert load_vectors("glove-50", 500, SHARED)[1].shape == (500, 50)
