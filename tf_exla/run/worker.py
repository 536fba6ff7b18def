"""A worker of a cluster: a TensorFlow server that runs shards until its driver ends."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from tf_exla.frontends.tf.devices.cluster import DRIVER, WORKER, environment, is_reached

_EVERY = 1.0
"""Seconds between two checks whether the driver is reachable."""
_MISSED = 5
"""Failed checks in a row after which the driver has ended. A busy machine fails one or two."""


def serve(*, network: bool, forever: bool) -> None:
    """Serve as the task that TF_CONFIG or Slurm names, until the driver ends.

    `network`: whether addresses may be of other machines. In either case TensorFlow's server
    listens on all addresses of this machine. `forever`: serve after the driver has ended, too.

    Raises ValueError if TF_CONFIG names no worker, or names other machines without `network`.
    """
    config = environment()
    cluster, task = config["cluster"], config.get("task", {})
    if task.get("type") != WORKER or "index" not in task:
        raise ValueError(f'TF_CONFIG has no "task" like {{"type": "{WORKER}", "index": 0}}: {task}')
    if not network:
        _check_loopback(cluster)
    spec = tf.train.ClusterSpec(cluster)
    server = tf.distribute.Server(
        spec, job_name=WORKER, task_index=int(task["index"]), protocol="grpc", start=True
    )
    print(f"tf_exla: {WORKER} {task['index']} serves at {server.target}", flush=True)
    drivers = spec.as_dict().get(DRIVER, [])
    if forever or not drivers:
        server.join()
    _wait_for_end(drivers[0])


def _check_loopback(cluster: Mapping[str, Sequence[str] | Mapping[Any, str]]) -> None:
    for addresses in cluster.values():
        for address in addresses.values() if isinstance(addresses, Mapping) else addresses:
            host = address.rpartition(":")[0].strip("[]")
            if host != "localhost" and not _is_loopback(host):
                raise ValueError(
                    f"{address} is no address of this machine alone. TensorFlow's servers "
                    "authenticate nobody; in a network that only the cluster reaches, use --network"
                )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name
        return False


def _wait_for_end(driver: str) -> None:
    """Wait until the driver is reachable, then until it no longer is."""
    while not is_reached(driver):
        time.sleep(_EVERY)
    missed = 0
    while missed < _MISSED:
        time.sleep(_EVERY)
        missed = 0 if is_reached(driver) else missed + 1
