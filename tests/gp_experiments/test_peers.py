"""The comparison with other libraries: programs agree, wrong ones are seen, records become tables.

Nothing here asserts a speed.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from gp_experiments.peers import roofline, table
from gp_experiments.peers.cases import CASES, Case
from gp_experiments.peers.command import peers
from gp_experiments.peers.contenders import CONTENDERS, NAMED, Contender
from gp_experiments.peers.data import arguments, compare, reference
from gp_experiments.peers.interleave import Worker, WorkerError, batches, in_turns
from gp_experiments.peers.plot import plot_cases, plot_curves
from gp_experiments.peers.stopwatch import Lap, lap

# Expanded squares and sums in another order; SGPR's central differences are good to nine digits,
# and GPyTorch, which adds its own jitter to the solve of the bound, to four.
TOLERANCES = {"float64": 1e-9, "float32": 1e-5}
# It compiles for some seconds per formula; the command measures its error.
SLOW_TO_COMPILE = "keops"

SIZES = {
    "matvec": {"n": 601, "d": 3},
    "quadratic": {"n": 601, "d": 3},
    "sgpr": {"n": 1501, "m": 17, "d": 3},
    "knn": {"n": 3001, "d": 7, "queries": 130, "k": 10},
    "attention": {"batch": 2, "heads": 2, "length": 300, "d": 16},
    "attention-gradients": {"batch": 2, "heads": 2, "length": 300, "d": 16},
}


def tiny(case: Case) -> Case:
    return replace(case, sizes=SIZES[case.work], limit="10MB")


def by_name(name: str) -> Case:
    return tiny(next(case for case in CASES if case.name == name))


DISTINCT = {(case.work, case.metric, case.dtype): case for case in reversed(CASES)}.values()


PAIRS = [
    pytest.param(contender, case, id=f"{contender.name}-{case.name}")
    for contender in CONTENDERS
    for case in DISTINCT
    if contender.supports(case.work) and contender.name != SLOW_TO_COMPILE
]


@pytest.mark.one_of(3)
@pytest.mark.parametrize(("contender", "case"), PAIRS)
def test_program_of_each_contender_is_right(contender: Contender, case: Case) -> None:
    if missing := contender.missing():
        pytest.skip(f"{', '.join(missing)} not installed")
    case = tiny(case)
    results = contender.build(case.work)(case, arguments(case)).call()
    found = {name: np.asarray(value) for name, value in results.items()}
    tolerance = 1e-4 if contender.name == "gpytorch" else TOLERANCES[case.dtype]
    assert compare(case, found, reference(case)) < tolerance


@pytest.mark.parametrize("case", DISTINCT, ids=lambda case: case.name)
def test_a_wrong_result_is_seen(case: Case) -> None:
    case = tiny(case)
    right = reference(case)
    results = NAMED["numpy"].build(case.work)(case, arguments(case)).call()
    for name in results:
        wrong = {key: np.array(value) for key, value in results.items()}
        if name == "indices":
            wrong[name][:, -1] = (wrong[name][:, -1] + 1) % case.sizes["n"]
        else:
            wrong[name] = wrong[name] * 1.001
        assert compare(case, wrong, right) > 1e-4, name
        wrong[name] = np.full_like(wrong[name], 0 if name == "indices" else np.nan)
        assert compare(case, wrong, right) > 1e-4, name


@pytest.mark.parametrize(
    ("sizes", "room", "expected"),
    [
        ({"a": 1, "b": 5, "c": 4}, 10, [["a", "b", "c"]]),
        ({"a": 1, "b": 5, "c": 5}, 10, [["a", "b"], ["a", "c"]]),
        ({"a": 1, "b": 20, "c": 1}, 10, [["a", "b"], ["a", "c"]]),
        ({"b": 5, "c": 5}, 10, [["b", "c"]]),
        ({"a": 1}, 10, [["a"]]),
    ],
)
def test_batches(sizes: dict[str, int], room: int, expected: list[list[str]]) -> None:
    assert batches(sizes, room, "a") == expected


class Recorder:
    def __init__(self, name: str, log: list[str]) -> None:
        self.name, self.log = name, log

    def ask(self, request: str) -> dict[str, Any]:
        self.log.append(self.name)
        return Lap(float(len(self.log)), 0.5, None)._asdict()


def test_contenders_run_in_turns() -> None:
    log: list[str] = []
    workers: Any = {name: Recorder(name, log) for name in "abc"}
    times = in_turns(workers, least=2, most=3, seconds=0.0)
    assert log == list("abcabc")
    seconds = {name: laps["seconds"] for name, laps in times.items()}
    assert seconds == {"a": [1.0, 4.0], "b": [2.0, 5.0], "c": [3.0, 6.0]}
    assert times["b"]["cpu_seconds"] == [0.5, 0.5]


def test_a_lap_counts_wall_and_processor_time() -> None:
    waited = lap(lambda: time.sleep(0.2))
    assert waited.seconds >= 0.2
    assert waited.cpu_seconds < 0.1
    worked = lap(lambda: sum(range(3_000_000)))
    assert 0 < worked.cpu_seconds <= 1.5 * worked.seconds
    assert worked.others is None or 0 <= worked.others <= 1


def test_a_worker_answers_and_ends() -> None:
    case = by_name("knn-l1")
    with Worker(NAMED["numpy"]) as worker:
        assert worker.load(case)["data_bytes"] == 4 * 7 * (3001 + 130)
        assert worker.ask("run")["seconds"] > 0
        assert compare(case, worker.results(), reference(case)) < 1e-6
    assert worker.process.returncode == 0


def test_a_worker_that_fails_says_why_and_goes_on() -> None:
    case = by_name("matvec-f64")
    with Worker(NAMED["tf_exla"]) as worker:
        with pytest.raises(WorkerError, match=r"MemoryLimitError: .*exceeds the limit 1\.00 kB"):
            worker.load(replace(case, limit="1kB"))
        assert worker.load(case)["first_seconds"] > 0
        worker.process.kill()
        with pytest.raises(WorkerError, match=r"exit status -9 \(killed: out of memory\?\)"):
            worker.ask("run")


def record(case: Case, contender: str, seconds: list[float], over: float) -> dict[str, Any]:
    return {
        "case": {"name": case.name}, "contender": contender, "seconds": seconds,
        "cpu_seconds": [2 * median(seconds)] * len(seconds), "over_anchor": over,
        "peak": 5_000_000, "data_bytes": 1_000_000, "build_seconds": 0.25, "first_seconds": 1.0,
        "error": 3e-16,
    }  # fmt: skip


def test_table() -> None:
    case = CASES[0]
    records = [
        record(case, "stock", [2.0, 3.0, 2.5], 5.0),
        record(case, "tf_exla", [0.5, 0.4, 0.6], 1.0),
        {"case": {"name": case.name}, "contender": "xla", "failed": "killed"},
    ]
    ours, stock, failed = table.rows(records)
    assert ours[:7] == ("tf_exla", "500 ms", "400 ms", "1 s", "1.00", "6.00 MB", "1.25 s")
    assert stock[:5] == ("stock", "2.5 s", "2 s", "5 s", "5.00")
    assert (failed[0], failed[1], failed[-1]) == ("xla", "∅", "killed")
    lines = table.targets(replace(case, target={"stock": 4, "numpy": 2}), records)
    assert lines[0] == "4 x faster than stock: 5.00 x, reached"
    assert lines[1] == "2 x faster than numpy: numpy did not run"
    assert "missed" in table.targets(replace(case, target={"stock": 6}), records)[0]
    assert "| stock | 2.5 s | 2 s | 5 s | 5.00 |" in table.markdown([case], records, None)


def test_tables_replace_the_generated_part_of_a_page() -> None:
    page = f"above\n{table.BEGIN}\nold\n{table.END}\nbelow\n"
    once = table.with_tables(page, "new\n")
    assert once == f"above\n{table.BEGIN}\n\nnew\n\n{table.END}\nbelow\n"
    assert table.with_tables(once, "new\n") == once
    with pytest.raises(ValueError, match="has no lines"):
        table.with_tables("no marks", "new")


def test_picture(tmp_path: Any) -> None:
    case = CASES[0]
    plot_cases(tmp_path / "peers.png", [case], [record(case, "stock", [2.0], 5.0)])
    assert (tmp_path / "peers.png").stat().st_size > 5_000


def test_curves_leave_out_what_failed(tmp_path: Any) -> None:
    laps = {"seconds": [0.2, 0.3]}
    parts = {"tracing, as tf.function's": 0.1, "passes": 0.2, "capture and restore": 0.1}
    failed = {"failed": "MemoryLimitError"}
    records = [
        {"curve": "limit", "contender": "tf_exla", "share": 0.05, **failed},
        {"curve": "limit", "contender": "tf_exla", "share": 0.5, **laps},
        {"curve": "limit", "contender": "stock", **laps},
        {"curve": "size", "contender": "tf_exla", "n": 10, "peak": 5, "data_bytes": 2, **laps},
        {"curve": "size", "contender": "stock", "n": 10, **failed},
        {"curve": "nodes", "kind": "fits", "nodes": 90, "parts": parts},
        {"curve": "nodes", "kind": "split", **failed},
    ]
    plot_curves(tmp_path / "curves.png", records)
    assert (tmp_path / "curves.png").stat().st_size > 5_000


def test_there_is_no_picture_of_curves_that_failed(tmp_path: Any) -> None:
    failed = [
        {"curve": name, "contender": "stock", "failed": "killed"} for name in ("limit", "size")
    ]
    plot_curves(tmp_path / "curves.png", failed)
    assert not (tmp_path / "curves.png").exists()


def test_quick_sizes_are_not_judged_by_targets_of_full_size() -> None:
    for case in CASES:
        assert case.target
        assert table.targets(case.small(), [record(case, "stock", [2.0], 0.5)]) == []


def test_bounds_grow_with_the_work() -> None:
    rates = {f"{kind} {dtype} numpy": 1e10 for kind in ("gemm", "exp") for dtype in TOLERANCES}
    for case in CASES:
        name = {"knn": "n", "sgpr": "n"}.get(case.work, "n" if "n" in case.sizes else "length")
        twice = replace(case, sizes={**case.sizes, name: 2 * case.sizes[name]})
        power = 1 if case.work in ("knn", "sgpr") else 2
        ratio = roofline.bound(twice, rates) / roofline.bound(case, rates)
        assert ratio == pytest.approx(2**power), case.name


def test_a_better_library_raises_the_roof() -> None:
    rates = {
        "gemm float64 numpy": 1e10,
        "gemm float64 tensorflow": 3e10,
        "gemm float32 numpy": 9e10,
    }
    assert roofline.best(rates, "gemm", "float64") == 3e10


def test_synthetic_graphs_have_about_the_nodes_that_were_asked_for() -> None:
    import tf_exla
    from gp_experiments.peers.curves import synthetic

    counts = []
    for asked in (90, 180, 360):
        function, given = synthetic(asked)
        counts.append(tf_exla.explain(function, *given, limit="1TB").nodes_before)
    assert all(1.8 < b / a < 2.2 for a, b in pairwise(counts))
    assert 0.5 * 360 < counts[-1] < 2 * 360


RATES = {f"{kind} {dtype} numpy": 1e10 for kind in ("gemm", "exp") for dtype in TOLERANCES}


@pytest.mark.parametrize(
    "rates", [RATES, pytest.param(None, id="measured", marks=pytest.mark.thorough)]
)
def test_command_writes_records_table_and_picture(
    rates: dict[str, float] | None, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if rates:
        monkeypatch.setattr(roofline, "measure_rates", lambda: rates)
    arguments = ["--quick", "--only", "knn-l2", "--contender", "numpy", "--out", str(tmp_path)]
    done = CliRunner().invoke(peers, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    lines = [json.loads(line) for line in (tmp_path / "peers.jsonl").read_text().splitlines()]
    found = {one["contender"]: one for one in lines if "contender" in one}
    assert set(found) == {"tf_exla", "numpy"}
    assert all(len(one["seconds"]) == 2 and one["error"] < 1e-5 for one in found.values())
    ours = found["tf_exla"]
    assert ours["projected_peak"] <= ours["limit"] == 10_000_000
    assert "| numpy |" in (tmp_path / "table.md").read_text()
    assert (tmp_path / "peers.png").exists()
    assert not (tmp_path / "curves.png").exists()


def test_command_refuses_what_it_does_not_know(tmp_path: Any) -> None:
    done = CliRunner().invoke(peers, ["--contender", "abacus", "--out", str(tmp_path)])
    assert done.exit_code == 2
    assert "no contender abacus" in done.output
