"""What a driver that is one of the devices holds and runs at a time; runs in a fresh process."""

from __future__ import annotations

# isort: off
from devices import logical_devices  # noqa: F401

# isort: on
import math
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import tensorflow as tf
from cluster_processes import status_bytes

import tf_exla
from tf_exla.frontends.tf.devices import choice, function
from tf_exla.frontends.tf.devices.combining import Combiner
from tf_exla.frontends.tf.devices.function import ShardedFunction
from tf_exla.ir.graph import LoopResult
from tf_exla.shard.link import Link
from tf_exla.shard.loops import combined_bytes


def driver_computes() -> dict[str, Any]:
    """Look at what reaches the driver, the first device, and at what runs there at a time."""
    devices = tf.config.list_logical_devices("CPU")[1:4]
    choice.LOCAL = Link(0.0, 0.0)  # type: ignore[misc]
    seen: list[tuple[str, str]] = []
    graphs: list[Any] = []
    shard, place, send = ShardedFunction._shard, ShardedFunction._placed, function.send

    def slow_at_first(self: Any, part: Any, values: Any, number: int, device: str) -> Any:
        made = shard(self, part, values, number, device)
        if device == self.driver:  # the others end meanwhile
            time.sleep(1.0)
        seen.append(("ended", device))
        return made

    def sent(tensor: tf.Tensor, device: str) -> tf.Tensor:
        others = tuple(one.name for one in devices[1:])
        if device == devices[0].name and tensor.device.endswith(others):
            seen.append(("sent", tensor.device))
        return send(tensor, device)

    def kept(self: Any) -> Any:
        made = place(self)
        graphs.append(made.graph)
        return made

    ShardedFunction._shard, ShardedFunction._placed = slow_at_first, kept  # type: ignore[method-assign]
    function.send = sent

    def sums(x: tf.Tensor, y: tf.Tensor) -> Any:  # two loops that have nothing in common
        return [tf.reduce_sum(tf.exp(-((a[:, None, 0] - a[None, :, 1]) ** 2)), 0) for a in (x, y)]

    x = tf.random.stateless_normal([3001, 2], [1, 2], dtype=tf.float64)
    optimized = tf_exla.optimize(sums, "80MB", devices=devices, strict=True)
    eager = optimized(x, x[:2999])
    first = seen[: seen.index(("ended", devices[0].name))]
    inside = tf.function(optimized)(x, x[:2999])
    (graph,) = graphs
    calls = [op for op in graph.get_operations() if op.type.endswith("PartitionedCall")]
    before = {op: _ancestors(op) for op in graph.get_operations()}
    others = [op for op in calls if op.device != calls[0].device]
    return {
        "ended first": sum(kind == "ended" for kind, _ in first),
        "sent before": sum(kind == "sent" for kind, _ in first),
        "sent": sum(kind == "sent" for kind, _ in seen),
        "calls": len(calls),
        "at once": [
            (a.name, b.name)
            for k, a in enumerate(calls)
            for b in calls[:k]
            if a.device == b.device and b not in before[a]
        ],
        "in graph before": [
            op.name
            for op in others
            for tensor in op.outputs
            for reader in tensor.consumers()
            if reader.device != op.device
            or not any(one.device == calls[0].device for one in reader.control_inputs)
        ],
        "same": all(bool(tf.reduce_all(a == b)) for a, b in zip(eager, inside, strict=True)),
    }


def _ancestors(op: tf.Operation) -> set[tf.Operation]:
    found: set[tf.Operation] = set()
    waiting = [op]
    while waiting:
        one = waiting.pop()
        new = {*(tensor.op for tensor in one.inputs), *one.control_inputs} - found
        found |= new
        waiting += new
    return found


def combining(kind: Any, shape: list[int], count: int) -> list[int]:
    """Combine the values and positions of shards; return the process's growth, and what counts."""
    whole, size = [], math.prod(shape)
    for nbytes in (8 * size, 4 * size):
        whole.append(SimpleNamespace(dims=shape, nbytes=nbytes))
    loop: Any = SimpleNamespace(
        outputs=whole,
        body=SimpleNamespace(outputs=whole),
        iterations=count,
        results=[LoopResult(kind), LoopResult(kind)],
    )
    kept: Any = ()
    part: Any = SimpleNamespace(loop=loop, offsets=range(count), kept=kept, shards=[0] * count)
    growth = 0
    for measured in ([9, shape[1]], shape):  # the first loads what a process loads once
        combiner = Combiner(part)
        before = status_bytes("self", "VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM
        for number in range(count):
            values = tf.random.stateless_normal(measured, [number, 1], dtype=tf.float64)
            combiner.take(number, [values, tf.ones(measured, tf.int32)])
            del values
        combiner.results()
        growth = status_bytes("self", "VmHWM") - before
    return [growth, combined_bytes(loop, kept)]
