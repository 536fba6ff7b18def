"""Tables and pictures from records: what ended without memory, means, the values of the paper."""

from pathlib import Path
from typing import Any

from gp_experiments.records import Record, Records, config_key
from gp_experiments.results import knn, matvec, sgpr
from gp_experiments.results.command import PICTURE_BYTES, pictures, read, replaced, shown, tables


def record(experiment: str, config: dict[str, Any], status: str, **result: Any) -> Record:
    return {
        "key": config_key(experiment, config), "experiment": experiment, "config": config,
        "label": "a label", "status": status, "result": result, "steps": [], "error": "",
        "machine": {"cores": 2, "processor": "a processor"}, "versions": {"tensorflow": "2.21.0"},
        "commit": "abc",
    }  # fmt: skip


def training(
    arm: str, num: int, seed: int, status: str = "done", iterations: int = 9, **result: Any
) -> Record:
    config = {
        "dataset": "3droad", "limit": "1GB", "num_inducing": num, "seed": seed, "arm": arm,
        "iterations": iterations, "jit_compile": arm == "limit",
    }  # fmt: skip
    return record("sgpr", config, status, **result)


TRAININGS = [
    training("stock", 1000, 1, "oom", projected_stock=5 * 10**9),
    training("stock", 1000, 2, "killed", projected_stock=5 * 10**9),
    training("limit", 1000, 1, rmse=0.25, nlpd=-0.1, evaluation_seconds=2.0,
             projected=9 * 10**8, measured=8 * 10**8, projected_stock=5 * 10**9),
    training("limit", 1000, 2, rmse=0.35, nlpd=-0.3, evaluation_seconds=4.0),
]  # fmt: skip


def test_sgpr_table() -> None:
    (table,) = sgpr.tables(TRAININGS)
    (row,) = table.rows
    assert dict(zip(table.header[:4], row[:4], strict=True)) == {
        "M": "1,000", "stock RMSE": "∅", "NLPD": "∅", "evaluation": "∅",
    }  # fmt: skip
    assert row[4:7] == ["0.300 ± 0.071", "-0.200 ± 0.141", "3 s ± 1.41 s"]
    assert row[7:10] == ["5.00 GB", "900 MB", "800 MB"]
    assert row[10:] == ["0.285", "-0.173"]  # the paper's
    assert "seeds 1, 2" in table.caption
    lines = table.markdown().splitlines()
    assert {line.count("|") for line in lines[2:]} == {len(row) + 1}


def test_runs_of_other_settings_have_a_table_and_a_picture_of_their_own(tmp_path: Path) -> None:
    longer = training("limit", 1000, 1, iterations=50, rmse=0.20, nlpd=-0.4)
    short, long = sgpr.tables([*TRAININGS, longer])
    assert (short.rows[0][4], long.rows[0][4]) == ("0.300 ± 0.071", "0.200")
    assert (short.rows[0][1], long.rows[0][1]) == ("∅", "")
    assert "at most 50 iterations, seed 1" in long.caption
    names = [path.name for path in sgpr.figures([*TRAININGS, longer], tmp_path)]
    assert names == [
        "sgpr-3droad-iterations-9-inducing.png", "sgpr-3droad-iterations-50-inducing.png",
    ]  # fmt: skip


def test_a_product_that_was_timed_twice_is_no_mean() -> None:
    def one(repeats: int, measured: int, **config: Any) -> Record:
        made = products(1000, 1000, "limit", measured=measured, call_seconds=[1.0])
        return made | {"config": made["config"] | {"repeats": repeats} | config}

    (table,) = matvec.tables([one(3, 8 * 10**7), one(1, 9 * 10**7)])
    assert "80.0 MB" in table.rows[0]
    compiled, plain = matvec.tables(
        [one(3, 8 * 10**7, jit_compile=True), one(3, 9 * 10**7, jit_compile=False)]
    )
    assert ("80.0 MB" in compiled.rows[0], "90.0 MB" in plain.rows[0]) == (True, True)
    assert "jit compile False" in plain.caption


def test_stock_held_to_two_limits_has_two_columns() -> None:
    small, large = (products(1000, 1000, "stock", measured=m * 10**7) for m in (8, 9))
    large["config"]["limit"] = "6GB"
    (table,) = matvec.tables([small, large])
    assert table.header[2:] == [
        "measured (held to 100MB)",
        "time",
        "measured (held to 6GB)",
        "time",
    ]
    assert table.rows[0][2::2] == ["80.0 MB", "90.0 MB"]


def test_runs_that_failed_have_no_pictures(tmp_path: Path) -> None:
    trained = [training(arm, 100, 1, "failed") for arm in ("stock", "limit")]
    multiplied = [products(size, size, "limit", "failed") for size in (1000, 5000)]
    config = {"vectors": "mnist", "distance": "L2", "arm": "limit", "limit": "1GB", "k": 10}
    searched = [record("knn", config, "failed")]
    assert sgpr.figures(trained, tmp_path) == []
    assert matvec.figures(multiplied, tmp_path) == []
    assert knn.figures(searched, tmp_path) == []
    assert list(tmp_path.iterdir()) == []
    assert "failed" in sgpr.tables(trained)[0].rows[0]


def test_sgpr_pictures(tmp_path: Path) -> None:
    stepped = TRAININGS[2] | {"steps": [{"evaluation": 1, "rmse": 0.3, "nlpd": 0.1}]}
    paths = sgpr.figures([*TRAININGS[:2], stepped], tmp_path)
    assert [path.name for path in paths] == [
        "sgpr-3droad-inducing.png", "sgpr-3droad-training.png",
    ]  # fmt: skip
    assert all(path.stat().st_size > 10_000 for path in paths)


def test_queries_per_second() -> None:
    def search(arm: str, status: str, **result: Any) -> Record:
        config = {"vectors": "mnist", "distance": "L2", "arm": arm, "limit": "1GB", "k": 10}
        return record("knn", config, status, **result)

    sizes = {"n": 60_000, "d": 784, "m": 10_000}
    found = [
        search("stock", "oom", **sizes),
        search("limit", "done", **sizes, call_seconds=[5.0, 4.0, 9.0]),
        search("sklearn", "timeout"),
    ]
    (table,) = knn.tables(found)
    assert table.rows[0][:5] == ["mnist L2", "60,000, 784, 10,000", "∅", "2,000", "timeout"]


def test_the_last_record_of_a_run_counts(tmp_path: Path) -> None:
    records = Records(tmp_path / "a" / "records.jsonl")
    records.append(training("limit", 10, 1, "failed"))
    records.append(training("limit", 10, 1, rmse=0.5))
    records.append(record("of somebody else", {}, "done"))
    found = read(tmp_path)
    assert list(found) == ["sgpr"]
    assert [r["result"] for r in found["sgpr"]] == [{"rmse": 0.5}]
    assert "On 2 cores of a processor, TensorFlow 2.21.0; commit abc." in tables("sgpr", TRAININGS)


def products(size: int, rows: int, arm: str, status: str = "done", **result: Any) -> Record:
    config = {"size": size, "rows": rows, "arm": arm, "limit": "100MB"}
    return record("matvec", config, status, **result)


PRODUCTS = [
    products(1000, 1000, "stock", projected_stock=10**8, measured=9 * 10**7, call_seconds=[2.0]),
    products(1000, 1000, "limit", projected=9 * 10**7, measured=8 * 10**7, call_seconds=[1.0]),
    products(5000, 5000, "stock", "oom", projected_stock=25 * 10**8),
    products(5000, 5000, "limit", projected=9 * 10**7, measured=8 * 10**7, call_seconds=[9.0]),
    products(9000, 100, "limit", projected=7 * 10**7, measured=6 * 10**7, call_seconds=[0.5],
             row_seconds=0.005, extrapolated_seconds=45.0,
             all_rows={"projected": 95 * 10**6, "projected_stock": 10**10}),
]  # fmt: skip


def test_slices_have_a_table_of_their_own(tmp_path: Path) -> None:
    whole, slices = matvec.tables(PRODUCTS)
    assert [row[0] for row in whole.rows] == ["1,000", "5,000"]
    assert "not measured" in slices.caption
    (row,) = slices.rows
    assert row == [
        "9,000", "100MB", "10.0 GB", "95.0 MB", "100", "70.0 MB", "60.0 MB", "500 ms", "5 ms",
        "45 s",
    ]  # fmt: skip
    assert [path.name for path in matvec.figures(PRODUCTS, tmp_path)] == ["matvec.png"]


def test_a_page_shows_small_pictures(tmp_path: Path) -> None:
    of_jax = [r | {"config": r["config"] | {"frontend": "jax"}} for r in PRODUCTS]
    drawn = pictures("matvec", PRODUCTS + of_jax, tmp_path)
    page = tmp_path / "docs" / "page.md"
    page.parent.mkdir()
    links = "\n![matvec](figures/matvec.png)\n\n![matvec](figures/jax/matvec.png)\n"
    assert shown(drawn, tmp_path, page) == links
    for copy in page.parent / "figures" / "matvec.png", page.parent / "figures/jax/matvec.png":
        assert 5_000 < copy.stat().st_size < PICTURE_BYTES


def test_a_page_keeps_what_is_written_by_hand() -> None:
    page = "# A\n<!-- knn -->\nold\n<!-- end -->\nread\n<!-- cg -->\nkept\n<!-- end -->\n"
    once = replaced(page, {"knn": "new"})
    assert once == "# A\n<!-- knn -->\n\nnew\n<!-- end -->\nread\n<!-- cg -->\nkept\n<!-- end -->\n"
    assert replaced(once, {"knn": "new"}) == once
