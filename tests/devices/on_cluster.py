"""What a driver does with a cluster of two workers; runs in a fresh process."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from cluster_processes import Workers, status_bytes, workers

import tf_exla
from tf_exla.frontends.tf.devices import choice
from tf_exla.shard.link import Link

# Sending is taken to cost nothing: the programs are small, and would stay on the driver.
choice.GRPC = Link(0.0, 0.0)  # type: ignore[misc]
N = 6001
LIMIT = 60_000_000


def matvec(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    return tf.exp(-tf.reduce_sum((x[:, None] - x[None]) ** 2, -1)) @ v


class _Driver:
    def __init__(self, running: Workers) -> None:
        self.running = running
        cluster = tf_exla.Cluster(running.spec)
        self.function = tf_exla.optimize(matvec, LIMIT, devices=cluster.devices, strict=True)
        rng = np.random.default_rng(0)
        self.x = tf.constant(rng.normal(size=(N, 3)))
        self.v = tf.constant(rng.normal(size=(N, 4)))
        self.want = matvec(self.x, self.v).numpy()
        self.first = self.call()
        assert self.function.report(self.x, self.v).sharding is not None

    def call(self) -> Any:
        return self.function(self.x, self.v).numpy()

    def same(self) -> bool:
        """Return whether a call has the very numbers of the first one."""
        return bool((self.call() == self.first).all())

    def during(self, index: int, number: signal.Signals, after: float = 0.05) -> bool:
        """Call while a worker is sent a signal; return whether the numbers are the same."""
        timer = threading.Timer(after, self.running.send, (index, number))
        timer.start()
        same = self.same()
        timer.join()
        return same


def faults(kind: str) -> dict[str, Any]:
    """Kill or stop workers and bring them back; at the end, kill both.

    `kind`: a worker is killed while it computes, is killed between calls, or is stopped.
    """
    found: dict[str, Any] = {}
    with workers(2) as running:
        tensor = tf.constant([1.0, 2.0])  # made before there was a cluster
        variable = tf.Variable(3.0)
        driver = _Driver(running)
        found["error"] = float(np.abs(driver.first - driver.want).max())
        found["kept"] = float(variable * tensor[1])
        if kind == "killed":
            found[kind] = [driver.during(1, signal.SIGKILL), driver.same()]
            running.restart(1)
        elif kind == "killed between":
            running.send(0, signal.SIGKILL)
            running.processes[0].wait()
            found[kind] = [driver.same(), driver.same()]
            running.restart(0)
        else:
            found[kind] = [driver.same(), driver.during(0, signal.SIGSTOP, 0.01), driver.same()]
            running.send(0, signal.SIGCONT)
            time.sleep(1)
        found["back"] = [driver.same(), driver.same()]
        for index in (0, 1):
            running.send(index, signal.SIGKILL)
            running.processes[index].wait()
        try:
            driver.call()
        except tf_exla.DeviceError as error:
            found["none left"] = [len(error.reasons), error.left > 0]
    return found


def memory() -> dict[str, Any]:
    """Return the workers' growth while they compute, and what was projected."""
    settings = {
        "TF_ENABLE_ONEDNN_OPTS": "0",
        "MALLOC_MMAP_THRESHOLD_": "16384",
        "MALLOC_TRIM_THRESHOLD_": "16384",
    }
    with workers(2, **settings) as running:
        cluster = tf_exla.Cluster(running.spec)
        devices = cluster.devices
        peaks = []
        for size in (5_003, 20_011):  # the first loads what a worker loads once
            # XLA's compiler takes 70 MB of a process once, which are no tensors.
            function = tf_exla.optimize(
                matvec, LIMIT, devices=devices, strict=True, jit_compile=False
            )
            x = tf.random.stateless_normal([size, 3], [0, 1], dtype=tf.float64)
            function(x, x)
            function(x, x)
            peaks.append([status_bytes(one.pid, "VmHWM") for one in running.processes])
        first = [status_bytes(one.pid, "VmRSS") for one in running.processes]
        for _ in range(60):
            function(x[:3_001], x[:3_001])
        last = [status_bytes(one.pid, "VmRSS") for one in running.processes]
        sharding = function.report(x, x).sharding
        assert sharding is not None
        return {
            "limit": LIMIT,
            "growth": [after - before for before, after in zip(*peaks, strict=True)],
            "projected": [use.projected_peak for use in sharding.uses[1:]],
            "calls": [after - before for before, after in zip(first, last, strict=True)],
        }


def sending() -> list[int]:
    """Return the driver's growth while it sends rows for the first time, and what is projected."""
    with workers(2) as running:
        devices = tf_exla.Cluster(running.spec).devices
        function = tf_exla.optimize(
            lambda x: tf.reduce_sum(tf.exp(x) * tf.sin(x), 0),
            "500MB",
            devices=devices,
            strict=True,
            jit_compile=False,
        )
        growth = 0
        for size in (20_003, 1_000_003):  # the first loads what the process loads once
            x = tf.random.stateless_normal([size, 3], [0, 1], dtype=tf.float64)
            sharding = function.report(x).sharding
            assert sharding is not None
            before = status_bytes("self", "VmRSS")
            Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM
            function(x)
            growth = status_bytes("self", "VmHWM") - before
        driver = sharding.uses[0]
        return [growth, driver.working_set]
