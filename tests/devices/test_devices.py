"""Programs on logical devices of one process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from fresh_process import run_fresh
from needs import GPFLOW

import tf_exla
from tf_exla.frontends.tf.devices.choice import DeviceSet
from tf_exla.frontends.tf.devices.pool import Patience

SOME = [
    "SGPR loss and gradients",
    "CGLB loss and gradients",  # no sum of shards fits: one device
    "VGP loss and gradients",  # sizes that only the run tells
    "SVGP Bernoulli ELBO and gradients",
    "SGPR predict_f, full covariance",
    "CLIP's loss in float32",
    "hardest triplets",  # largest and smallest
    "graph of neighbours",  # top-k with positions
    "gradients of gradients",
    "Hausdorff distance and gradients",
    "statistics of distances",
    "phases",  # complex
]


def fresh(function: str, *arguments: Any) -> Any:
    """Run a function of `on_devices.py`, whose import makes devices, in a process of its own."""
    code = f"from devices import on_devices; send(on_devices.{function}(*{arguments!r}))"
    return run_fresh(code, timeout=1200)


def check(names: list[str], counts: list[int]) -> None:
    for found in fresh("check", names, counts):
        assert found["worst"] <= 1, found
        assert found["repeats"], found
        assert all(0 < peak <= found["limit"] for peak in found["peaks"]), found
        if found["name"].startswith("SGPR"):
            assert found["shards"] == (found["devices"] > 1), found


def test_programs_have_the_numbers_of_one_device() -> None:
    """For every second program; `test_all_programs` has all."""
    check(SOME[::2], [3])


@pytest.mark.thorough
def test_a_program_has_the_same_numbers_on_any_number_of_devices() -> None:
    check(SOME[:1], [1, 2, 7])


@pytest.mark.thorough
@pytest.mark.parametrize("count", [2, 3, 7])
def test_all_programs(count: int) -> None:
    from programs_check import ALL

    check(list(ALL), [count])


def test_graphs_tapes_and_variables() -> None:
    found = fresh("from_graphs_and_tapes")
    assert found["shards"]
    assert found["gradients"] <= 1
    assert found["same"] == 0
    assert found["changed"] < 1e-9
    # One call each of the original and the sharded one, then one from a graph and one more.
    assert found["calls"] == [2, 4]
    assert found["copied"]


def test_errors_of_shards_and_the_order_of_effects() -> None:
    found = fresh("errors_and_order")
    assert found["shards"][0]
    assert found["order"] < 1e-12
    assert found["errors"] == 3
    assert found["again"]


def test_results_reach_a_driver_that_computes_after_its_own_shard() -> None:
    """A device runs one shard at a time, and holds its results until the driver's has ended."""
    found = run_fresh("from devices import on_driver; send(on_driver.driver_computes())")
    assert found["ended first"] == 2  # of the first loop, on the other two devices
    assert found["sent before"] == 0
    assert found["sent"] >= 4
    assert found["calls"] >= 6
    assert not found["at once"], found
    assert not found["in graph before"], found
    assert found["same"]


@pytest.mark.parametrize("kind", ["argmax", "top_k"])
def test_combining_positions_takes_what_is_counted(kind: str) -> None:
    code = f"from devices import on_driver; send(on_driver.combining({kind!r}, [200_000, 8], 5))"
    growth, counted = run_fresh(code)
    assert 5 * 200_000 * 8 * 12 <= growth <= counted + 1_000_000


def test_calls_keep_nothing() -> None:
    before, after = fresh("growth")
    assert after - before < 15_000_000


def test_rows_stay_on_their_devices() -> None:
    found = fresh("rows_that_stay")
    assert found["kind"] == "ShardedTensor"
    assert found["whole"] < 1e-14
    assert found["total"] < 1e-12
    assert found["gram"] <= 1
    assert found["sent"] < found["bytes"] / 100
    assert all(found["bytes"] / 3 < peak <= 40_000_000 for peak in found["peaks"])


def test_parts_live_as_long_as_their_tensors() -> None:
    """Functions on the same devices share parts, and threads."""
    found = fresh("kept_parts")
    few = 3 * 150 * 3 * 8  # of what lives on
    assert 30_005 * 3 * 8 <= found["alive"] <= found["resident"]
    assert found["both"] <= 2 * found["alive"]
    assert found["dead"] <= few
    assert found["threads"][0] == found["threads"][-1]


def test_what_outputs_are() -> None:
    with pytest.raises(ValueError, match="needs devices"):
        tf_exla.optimize(matvec, "1GB", outputs="sharded")
    with pytest.raises(ValueError, match="shard"):
        tf_exla.optimize(matvec, "1GB", devices=2, outputs="sharding")  # type: ignore[call-overload]


def matvec(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    return tf.exp(-tf.reduce_sum((x[:, None] - x[None]) ** 2, -1)) @ v


def between(x: tf.Tensor, y: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    return tf.exp(-tf.reduce_sum((x[:, None] - y[None]) ** 2, -1)) @ v


def test_symmetric_tiles_stay_in_chunks() -> None:
    """Of K(X, X) rows alone would be twice the work; shards take chunks of the plan for one."""
    spec = tf.TensorSpec([200_000, 3], tf.float64)
    report = tf_exla.explain(matvec, spec, spec, limit="1GB", devices=8)
    assert report.sharding is not None
    assert report.sharding.seconds_on_one is not None
    assert report.sharding.seconds_on_one / report.sharding.seconds > 7
    assert report.loops[0].iterations > 8
    assert "chunks of" in str(report)


def test_a_number_of_devices_is_planned_and_not_run() -> None:
    spec, few = tf.TensorSpec([200_000, 3], tf.float64), tf.TensorSpec([20_000, 3], tf.float64)
    one = tf_exla.explain(between, spec, few, few, limit="1GB")
    report = tf_exla.explain(between, spec, few, few, limit="1GB", devices=8)
    assert one.sharding is None
    assert report.sharding is not None
    assert len(report.sharding.uses) == 8
    assert report.sharding.seconds_on_one is not None
    ratio = report.sharding.seconds_on_one / report.sharding.seconds
    assert ratio > 6
    text = str(report)
    assert "device 1 to device 7" in text
    assert "8 shards of 25000" in text
    assert f"{ratio:.2f} x as fast" in text
    function = tf_exla.optimize(matvec, "1GB", devices=8, strict=True)
    with pytest.raises(ValueError, match="explain"):
        function(np.ones((30_001, 3)), np.ones((30_001, 3)))


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        (0, "1 or more"),
        ([], "empty"),
        ("CPU:0", "all"),
        (["CPU:0", "/device:CPU:0"], "twice"),
        (["CPU:0", "CPU:97"], "CPU:97"),
    ],
)
def test_what_is_no_device(devices: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tf_exla.optimize(matvec, "1GB", devices=devices)


def test_what_is_no_list_of_devices() -> None:
    with pytest.raises(TypeError, match="True"):
        DeviceSet.of(True)
    with pytest.raises(TypeError, match="3"):
        DeviceSet.of([3])


@GPFLOW
def test_rows_that_nobody_holds_whole() -> None:
    found = fresh("sharded_data")
    assert found["worst"] <= 1
    assert found["read again"] == 0
    assert found["largest"] == -(-5003 // 3)
    assert found["driver"] < 5003 * 4 * 8
    words = ["tape", "devices", "_whole: x", "_whole: x", "as it is", "MemoryLimitError"]
    words += ["of a sharded tensor", "needs shape", "differ"]
    assert len(found["told"]) == len(words)
    for told, word in zip(found["told"], words, strict=True):
        assert word in told, found["told"]


def test_how_long_shards_may_take() -> None:
    patience = Patience(estimate=30.0)
    patience.begin()
    assert patience.seconds() == 3000  # a hundred estimates, until functions are ready
    patience.took(40.0)
    patience.begin()
    assert patience.seconds() == 3000
    patience.took(2.0)
    patience.begin()
    assert patience.seconds() == 20
    patience.took(0.1)
    assert patience.seconds() == 20
    assert Patience(estimate=0.01).seconds() == 120
