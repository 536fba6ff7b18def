"""Programs of the tables on logical CPU devices of one process; runs in a fresh process."""

from __future__ import annotations

# isort: off
from devices import logical_devices  # noqa: F401

# isort: on
import gc
import pickle
import threading
from typing import Any

import tensorflow as tf
from cluster_processes import status_bytes
from programs_check import ALL, difference

import tf_exla
from tf_exla.frontends.tf.devices import choice
from tf_exla.shard.link import Link


def check(names: list[str], counts: list[int]) -> list[dict[str, Any]]:
    """Run cases on 1, 2, ... devices against stock; return what was found.

    Sending is taken to cost nothing: the tables' programs are small, and would stay on one.
    """
    devices = tf.config.list_logical_devices("CPU")
    choice.LOCAL = Link(0.0, 0.0)  # type: ignore[misc]
    return [one for name in names for one in _check(name, counts, devices)]


def _check(name: str, counts: list[int], devices: list[Any]) -> list[dict[str, Any]]:
    case = ALL[name]
    function, arguments = case.make()
    stock = tf.function(function, autograph=False)
    expected = stock(*arguments)
    before = tf_exla.explain(stock, *arguments, limit=10**13).projected_peak_before
    made = []
    for count in counts:
        limit = int(before)
        optimized = tf_exla.optimize(stock, limit, devices=devices[:count], strict=True)
        found: dict[str, Any] = {"name": name, "devices": count, "limit": limit}
        got = optimized(*arguments)
        again = optimized(*arguments)
        report = optimized.report(*arguments)
        sharding = report.sharding
        found["shards"] = sharding is not None
        found["peaks"] = [use.projected_peak for use in sharding.uses] if sharding else []
        found["worst"] = difference(expected, got, case.rtol)
        found["repeats"] = all(
            bool(tf.reduce_all((a == b) | ((a != a) & (b != b))))
            for a, b in zip(tf.nest.flatten(got), tf.nest.flatten(again), strict=True)
        )
        made.append(found)
        del optimized, got, again
        gc.collect()
    return made


def from_graphs_and_tapes() -> dict[str, Any]:
    """Call a sharded function from a tf.function, under tapes, and with a variable that changes."""
    devices = tf.config.list_logical_devices("CPU")[:3]
    x = tf.random.stateless_normal([4001, 3], [1, 2], dtype=tf.float64)
    scale = tf.Variable(0.5, dtype=tf.float64)
    count = tf.Variable(0)

    def energy(points: tf.Tensor) -> tf.Tensor:
        count.assign_add(1)
        gram = tf.exp(-scale * tf.reduce_sum((points[:, None] - points[None]) ** 2, -1))
        return tf.reduce_sum(gram, 1)

    sharded = tf_exla.optimize(energy, "100MB", devices=devices, strict=True)

    def differentiated(function: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = tf.reduce_sum(function(x) ** 2)
        return value, tape.gradient(value, [x, scale])

    want, got = differentiated(energy), differentiated(sharded)
    calls = [int(count)]
    inside = tf.function(lambda points: sharded(points) * 2.0)
    copied = pickle.loads(pickle.dumps(sharded._request)).devices
    same = float(tf.reduce_max(tf.abs(inside(x) - 2.0 * sharded(x))))
    calls.append(int(count))
    scale.assign(1.5)
    changed = float(tf.reduce_max(tf.abs(energy(x) - sharded(x))))
    return {
        "shards": sharded.report(x).sharding is not None,
        "gradients": difference(want, got, 1e-9),
        "same": same,
        "changed": changed,
        "calls": calls,
        "copied": copied.names == sharded._request.devices.names,
    }


def growth() -> list[int]:
    """Return the process's resident bytes after 50 and after 250 calls on new arguments."""
    devices = tf.config.list_logical_devices("CPU")[:2]
    function = tf_exla.optimize(
        lambda x, v: tf.exp(-tf.reduce_sum((x[:, None] - x[None]) ** 2, -1)) @ v,
        "50MB",
        devices=devices,
        strict=True,
    )
    made = []
    for call in range(250):
        x = tf.random.stateless_normal([1500, 3], [call, 0], dtype=tf.float64)
        function(x, x)
        if call in (49, 249):
            made.append(status_bytes("self", "VmRSS"))
    return made


def sharded_data() -> dict[str, Any]:
    """Train on rows that are read in parts; say what cannot be read so."""
    import gpflow
    import numpy as np

    devices = tf.config.list_logical_devices("CPU")[:3]
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(5003, 3))
    targets = np.sin(3 * inputs[:, :1])
    reads: list[tuple[int, int]] = []

    def rows(start: int, stop: int) -> Any:
        reads.append((start, stop))
        return inputs[start:stop]

    few = inputs[:20]
    model = gpflow.models.SGPR((few, few[:, :1]), gpflow.kernels.Matern32(), few)

    def loss(x: tf.Tensor, y: tf.Tensor) -> Any:
        model.data = x, y
        with tf.GradientTape() as tape:
            value = model.training_loss()
        return value, tape.gradient(value, model.trainable_variables)

    x = tf_exla.sharded(rows, shape=inputs.shape, dtype=tf.float64)
    y = tf_exla.sharded([tf.constant(targets[:1000]), tf.constant(targets[1000:])])
    sharded = tf_exla.optimize(loss, "20MB", devices=devices, strict=True)
    want = tf.function(loss)(tf.constant(inputs), tf.constant(targets))
    found: dict[str, Any] = {"worst": difference(want, sharded(x, y), 1e-7)}
    once = len(reads)
    sharded(x, y)
    found["read again"] = len(reads) - once
    found["largest"] = max(stop - start for start, stop in reads)
    found["driver"] = sharded.report(x, y).sharding.uses[0].resident

    def told(call: Any) -> str:
        try:
            call()
        except (TypeError, ValueError, tf_exla.MemoryLimitError) as error:
            return f"{type(error).__name__}: {error}"
        return ""

    def under_a_tape() -> None:
        with tf.GradientTape():
            sharded(x, y)

    def with_itself(x: tf.Tensor) -> Any:
        return x, tf.reduce_sum(tf.exp(-tf.reduce_sum((x[:, None] - few) ** 2, -1)))

    lenient = tf_exla.optimize(_whole, "9GB", devices=devices)
    small = tf_exla.optimize(loss, "100kB", devices=devices)
    short = tf_exla.sharded(lambda a, b: inputs[a : b - 1], shape=inputs.shape, dtype=tf.float64)
    found["told"] = [
        told(under_a_tape),
        told(lambda: tf_exla.optimize(loss, "20MB", strict=True)(x, y)),
        told(lambda: tf_exla.optimize(_whole, "9GB", devices=devices, strict=True)(x)),
        told(lambda: lenient(x)),
        told(lambda: tf_exla.optimize(with_itself, "9MB", devices=devices)(x)),
        told(lambda: small(x, y)),
        told(lambda: sharded(short, y)),
        told(lambda: tf_exla.sharded(rows)),
        told(lambda: tf_exla.sharded([tf.zeros([3, 2]), tf.zeros([3, 1])])),
    ]
    return found


def _whole(x: tf.Tensor) -> tf.Tensor:
    return tf.linalg.cholesky(tf.matmul(x, x, transpose_b=True))


def errors_and_order() -> dict[str, Any]:
    """Raise in a shard, call again, and keep the order of effects in a graph."""
    devices = tf.config.list_logical_devices("CPU")[:2]
    choice.LOCAL = Link(0.0, 0.0)  # type: ignore[misc]
    total = tf.Variable(0.0, dtype=tf.float64)

    def twice(x: tf.Tensor) -> tf.Tensor:
        total.assign(1.0)
        first = tf.reduce_sum(tf.exp(-tf.reduce_sum((x[:, None] - x[None]) ** 2, -1)))
        total.assign_add(first)
        y = x * tf.math.log(total)
        second = tf.reduce_sum(tf.cos(tf.reduce_sum(y[:, None] * y[None], -1)))
        total.assign_add(second)
        return total.read_value()

    sharded = tf_exla.optimize(twice, "80MB", devices=devices, strict=True)
    x = tf.random.stateless_normal([2003, 3], [1, 2], dtype=tf.float64) * 0.01
    want = float(twice(x))
    in_graph = tf.function(sharded)
    values = [float(sharded(x)), float(in_graph(x)), float(in_graph(x))]

    def checked(x: tf.Tensor) -> tf.Tensor:
        gram = tf.exp(-tf.reduce_sum((x[:, None] - x[None]) ** 2, -1))
        return tf.reduce_sum(tf.debugging.check_numerics(gram, "bad"))

    function = tf_exla.optimize(checked, "80MB", devices=devices, strict=True)
    first = float(function(x))
    errors = 0
    for _ in range(3):
        try:
            function(x * float("nan"))
        except tf.errors.InvalidArgumentError:
            errors += 1
    return {
        "shards": [one.report(x).sharding is not None for one in (sharded, function)],
        "order": max(abs(value - want) / abs(want) for value in values),
        "errors": errors,
        "again": float(function(x)) == first,
    }


def rows_that_stay() -> dict[str, Any]:
    """Hand rows from one sharded function to another, and put them together."""
    devices = tf.config.list_logical_devices("CPU")[:3]
    choice.LOCAL = Link(0.0, 0.0)  # type: ignore[misc]
    x = tf.random.stateless_normal([30_011, 3], [1, 2], dtype=tf.float64)
    y = tf.random.stateless_normal([50, 3], [3, 4], dtype=tf.float64)

    def features(x: tf.Tensor, y: tf.Tensor) -> Any:
        made = tf.exp(-tf.reduce_sum((x[:, None] - y[None]) ** 2, -1))
        return made, tf.reduce_sum(made)

    def gram(made: tf.Tensor) -> tf.Tensor:
        return tf.matmul(made, made, transpose_a=True)

    rows = tf_exla.optimize(features, "40MB", devices=devices, outputs="sharded", strict=True)
    products = tf_exla.optimize(gram, "40MB", devices=devices, strict=True)
    made, total = rows(x, y)
    want, wanted_total = features(x, y)
    sharding = rows.report(x, y).sharding
    assert sharding is not None
    return {
        "kind": type(made).__name__,
        "whole": float(tf.reduce_max(tf.abs(made.whole() - want))),
        "total": float(abs(total - wanted_total) / wanted_total),
        "gram": difference(gram(want), products(made), 1e-10),
        "bytes": int(want.numpy().nbytes),
        "peaks": [use.projected_peak for use in sharding.uses],
        "sent": sharding.sent,
    }


def kept_parts() -> dict[str, Any]:
    """Call with arguments that live and die; return the bytes that stay, and count threads."""
    devices = tf.config.list_logical_devices("CPU")[:3]
    choice.LOCAL = Link(0.0, 0.0)  # type: ignore[misc]
    y = tf.random.stateless_normal([150, 3], [3, 4], dtype=tf.float64)

    def energy(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.exp(-tf.reduce_sum((x[:, None] - y[None]) ** 2, -1)), 0)

    def held(pool: Any) -> int:
        gc.collect()
        return sum(int(part.shape.num_elements()) * 8 for _, part in pool.pieces._kept.values())

    threads = []
    for size in range(30_000, 30_006):
        function = tf_exla.optimize(energy, "12MB", devices=devices, strict=True)
        x = tf.random.stateless_normal([size, 3], [1, 2], dtype=tf.float64)
        function(x, y)
        assert function.report(x, y).sharding is not None
        threads.append(threading.active_count())
    pool = function._request.devices.pool
    alive = held(pool)
    sharding = function.report(x, y).sharding
    assert sharding is not None
    resident = sum(use.resident for use in sharding.uses)
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = function(x, y)
    tape.gradient(value, x)
    both = held(pool)
    del x, tape, value
    return {
        "alive": alive,
        "both": both,
        "dead": held(pool),
        "threads": threads,
        "resident": resident,
    }
