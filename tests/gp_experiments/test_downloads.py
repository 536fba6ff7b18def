"""Downloads from a server on this machine: the formats of the sources, and what can go wrong."""

import gzip
import io
import json
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import h5py
import numpy as np
import pytest

from gp_experiments import datasets, vectors
from gp_experiments.downloads import DataError, Source, fetch

ROADS = b"144552912,9.35,56.74,17.05\n144552912,9.36,56.75,18.5\n"
HOUSEHOLD = (
    b"Date;Time;Global_active_power;Global_reactive_power;Voltage;Global_intensity;"
    b"Sub_metering_1;Sub_metering_2;Sub_metering_3\n"
    b"16/12/2006;17:24:00;4.216;0.418;234.840;18.400;0.000;1.000;17.000\n"
    b"16/12/2006;17:25:00;?;?;?;?;?;?;\n"
)


@dataclass
class Server:
    """`files`: what is served, by path; of those in `broken` the connection ends half-way."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def server() -> Iterator[Server]:
    served = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.asked.append(self.path)
            body = served.files.get(self.path)
            if body is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2] if self.path in served.broken else body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        served.url = f"http://127.0.0.1:{running.server_port}/"
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield served
        running.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def _sources_are_here(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    for name in ("_ROADS", "_HOUSEHOLD"):
        source = getattr(datasets, name)
        local = server.url + source.url.rpartition("/")[2]
        monkeypatch.setattr(datasets, name, replace(source, url=local))
    monkeypatch.setattr(datasets, "_READY", server.url)
    monkeypatch.setattr(vectors, "_ANN", server.url)


def zipped(**members: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in members.items():
            archive.writestr(f"{name}.txt", body)
    return made.getvalue()


def table(values: np.ndarray) -> bytes:
    text = io.StringIO()
    np.savetxt(text, values, delimiter=",")
    return gzip.compress(text.getvalue().encode())


def test_roads(server: Server, tmp_path: Path) -> None:
    server.files["/3D_spatial_network.txt"] = ROADS
    for _ in range(2):
        dataset = datasets.load("3droad", tmp_path)
        np.testing.assert_array_equal(dataset.y, [[17.05], [18.5]])
    assert server.asked == ["/3D_spatial_network.txt"]
    assert "3D_spatial_network.txt" in json.loads((tmp_path / "checksums.json").read_text())


def test_household_is_unpacked(server: Server, tmp_path: Path) -> None:
    server.files["/household_power_consumption.zip"] = zipped(household_power_consumption=HOUSEHOLD)
    for _ in range(2):
        dataset = datasets.load("houseelectric", tmp_path)
        assert (dataset.X.shape, dataset.y.tolist()) == ((1, 11), [[4.216]])
    assert len(server.asked) == 1
    # The archive, and what is read.
    assert len(json.loads((tmp_path / "checksums.json").read_text())) == 2


def test_ready_sets_with_their_splits(server: Server, tmp_path: Path) -> None:
    server.files["/kin40k/data.csv.gz"] = table(np.arange(12.0).reshape(4, 3))
    server.files["/kin40k/test_mask.csv.gz"] = table(np.eye(4, 2))
    dataset = datasets.load("kin40k", tmp_path)
    assert dataset.X.shape == (4, 2)
    assert list(dataset.published_split(1).test_rows) == [1]


def test_vectors(server: Server, tmp_path: Path) -> None:
    made = io.BytesIO()
    with h5py.File(made, "w") as file:
        file["train"] = np.ones((6, 25), np.float32)
        file["test"] = np.zeros((3, 25), np.float32)
        file["neighbors"] = np.zeros((3, 2), np.int32)
    server.files["/glove-25-angular.hdf5"] = made.getvalue()
    data, queries = vectors.load_vectors("glove-25", 2, tmp_path)
    assert (data.shape, queries.shape) == ((6, 25), (2, 25))


def test_a_download_that_breaks_off_leaves_nothing_and_starts_anew(
    server: Server, tmp_path: Path
) -> None:
    server.files["/3D_spatial_network.txt"] = ROADS
    server.broken.add("/3D_spatial_network.txt")
    with pytest.raises(DataError, match="cannot be downloaded"):
        datasets.load("3droad", tmp_path)
    assert not list(tmp_path.iterdir())
    server.broken.clear()
    assert len(datasets.load("3droad", tmp_path).y) == 2


def test_what_was_half_unpacked_is_unpacked_again(server: Server, tmp_path: Path) -> None:
    server.files["/household_power_consumption.zip"] = zipped(household_power_consumption=HOUSEHOLD)
    (tmp_path / "household_power_consumption.txt.partial").write_bytes(HOUSEHOLD[:200])
    assert len(datasets.load("houseelectric", tmp_path).y) == 1
    assert not list(tmp_path.glob("*.partial"))


@pytest.mark.parametrize("body", [zipped(other=HOUSEHOLD), b"<html>moved</html>"])
def test_another_file_than_expected(server: Server, tmp_path: Path, body: bytes) -> None:
    server.files["/household_power_consumption.zip"] = body
    with pytest.raises(DataError, match="no archive with household_power_consumption"):
        datasets.load("houseelectric", tmp_path)
    assert not (tmp_path / "household_power_consumption.txt").exists()


def test_a_file_that_changed_is_named(server: Server, tmp_path: Path) -> None:
    server.files["/3D_spatial_network.txt"] = ROADS
    datasets.load("3droad", tmp_path)
    with (tmp_path / "3D_spatial_network.txt").open("ab") as file:
        file.write(b"1,2,3,4\n")
    with pytest.raises(DataError, match="not the file that was used before"):
        datasets.load("3droad", tmp_path)


def test_what_the_server_says_is_told(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"404.*save it as .*3D_spatial_network\.txt"):
        datasets.load("3droad", tmp_path)


def test_nobody_answers(tmp_path: Path) -> None:
    source = Source("http://127.0.0.1:9/file.txt", "file.txt")
    with pytest.raises(DataError, match=r"file\.txt cannot be downloaded .*--data-dir"):
        fetch(source, tmp_path)
    assert not list(tmp_path.iterdir())
