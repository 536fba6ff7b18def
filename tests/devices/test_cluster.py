"""A driver with two workers: numbers, faults, memory, the end."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner
from cluster_processes import ROOT, free_ports, workers
from forked_command import forked_command
from fresh_process import run_fresh
from samples import but

import tf_exla
from tf_exla.__main__ import main
from tf_exla.frontends.tf.devices.cluster import environment

LOADED = 25_000_000
"""What a worker's process grows by beside tensors once it runs larger shards: arenas of threads."""


@pytest.mark.parametrize(
    "kind", but(["killed between", "stopped"], ["killed", "killed between", "stopped"])
)
def test_workers_that_die_or_hang(kind: str) -> None:
    found = run_fresh(f"from devices.on_cluster import faults; send(faults({kind!r}))")
    assert found.pop("error") < 1e-9
    assert found.pop("kept") == 6
    assert found.pop("none left") == [2, True]
    assert all(all(same) for same in found.values()), found


@pytest.mark.thorough  # the next test has a process's memory, and `test_devices.py` the projections
def test_workers_hold_the_limit() -> None:
    found = run_fresh("from devices.on_cluster import memory; send(memory())")
    for growth, projected in zip(found["growth"], found["projected"], strict=True):
        assert projected <= found["limit"]
        assert growth <= projected + LOADED, found
    assert all(growth < 15_000_000 for growth in found["calls"]), found


def test_rows_on_their_way_to_workers_are_counted_on_the_driver() -> None:
    rows = 1_000_003 // 4 * 3 * 8  # of a shard
    growth, projected = run_fresh("from devices.on_cluster import sending; send(sending())")
    assert 2 * rows <= growth <= projected + 2_000_000
    assert projected <= 7 * rows


SCRIPT = """
import tensorflow as tf

@tf.function
def f(x):
    return tf.reduce_sum(tf.exp(-tf.reduce_sum((x[:, None] - x[None]) ** 2, -1)))

print(float(f(tf.random.stateless_normal([12007, 3], [1, 2], dtype=tf.float64))))
"""


def test_a_script_on_a_cluster_and_workers_that_end_with_it(tmp_path: Any) -> None:
    script, report = tmp_path / "script.py", tmp_path / "report.json"
    script.write_text(SCRIPT)
    alone = forked_command("run", "--limit", "60MB", str(script), cwd=ROOT)
    with workers(2) as running:
        config = {"cluster": running.spec, "task": {"type": "chief", "index": 0}}
        options = ["--limit", "60MB", "--devices", "all", "--report", str(report)]
        done = forked_command(
            "run", *options, str(script), cwd=ROOT, env={"TF_CONFIG": json.dumps(config)}
        )
        assert done.returncode == 0, done.stderr
        assert float(done.stdout) == pytest.approx(float(alone.stdout), rel=1e-12)
        (function,) = json.loads(report.read_text())["functions"]
        assert [use["name"] for use in function["sharding"]["uses"]] == [
            "driver",
            "device 0",
            "device 1",
        ]
        for process in running.processes:
            assert process.wait(timeout=60) == 0


def serve(config: Any, *options: str) -> str:
    given = config if isinstance(config, str) else json.dumps(config)
    done = CliRunner().invoke(main, ["worker", *options], env={"TF_CONFIG": given})
    assert done.exit_code == 1
    return done.output


def test_workers_of_other_machines_are_asked_for() -> None:
    cluster = {"chief": ["10.0.0.1:2222"], "worker": ["10.0.0.2:2222"]}
    told = serve({"cluster": cluster, "task": {"type": "worker", "index": 0}})
    assert "--network" in told
    assert "authenticate nobody" in told
    assert "no JSON" in serve("{")
    assert '"task"' in serve({"cluster": cluster, "task": {"type": "chief", "index": 0}})


def test_a_cluster_that_is_not_there() -> None:
    (port,) = free_ports(1)
    cluster = tf_exla.Cluster({"worker": [f"127.0.0.1:{port}"]})
    with pytest.raises(tf_exla.DeviceError, match=f"nobody listens at 127.0.0.1:{port}"):
        cluster.connect()
    with pytest.raises(ValueError, match="worker"):
        tf_exla.Cluster({"chief": ["127.0.0.1:1"]})


def test_an_environment_without_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    monkeypatch.delenv("SLURM_STEP_NODELIST", raising=False)
    with pytest.raises(ValueError, match="TF_CONFIG"):
        tf_exla.Cluster.from_environment()
    spec = {"worker": ["127.0.0.1:2222", "127.0.0.1:2223"]}
    for name, value in {
        "SLURM_STEP_NODELIST": "node[1-3]",
        "SLURM_STEP_NUM_TASKS": "3",
        "SLURM_STEP_TASKS_PER_NODE": "1(x3)",
        "SLURM_PROCID": "2",
    }.items():
        monkeypatch.setenv(name, value)
    config = environment()
    assert config["cluster"]["worker"] == ["node2:8888", "node3:8888"]
    assert config["task"] == {"type": "worker", "index": 1}
    assert tf_exla.Cluster.from_environment().spec.num_tasks("worker") == 2
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": spec}))
    assert tf_exla.Cluster.from_environment().spec.task_address("worker", 1) == spec["worker"][1]
    assert tf_exla.Cluster.from_environment().spec.num_tasks("worker") == 2
