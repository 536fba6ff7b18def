"""A cluster of TensorFlow servers, of which this process is the driver."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context

from tf_exla.errors import DeviceError

WORKER = "worker"
DRIVER = "chief"
"""The jobs of a cluster, as TF_CONFIG and TensorFlow's resolvers name them."""
_HERE = "localhost"
"""The driver's job in its own view, as in a process without a cluster. So it keeps variables and
tensors that were made before it connected."""
_REACHED = 2.0
"""Seconds within which a server must accept a connection: TensorFlow itself waits forever."""


_lock = threading.Lock()
_connected: Mapping[str, Any] | None = None
"""The cluster that this process is connected to; there can be only one."""


class ClusterDevice(str):
    """The full name of a device of a cluster, "/job:worker/replica:0/task:0/device:CPU:0"."""

    cluster: Cluster


class Cluster:
    """Servers that run shards: the tasks of job "worker".

    TensorFlow's servers have no authentication: anyone who can reach their ports can run code
    there. Use them only in a separate network.

    Args:
        spec: Addresses by job, as for `tf.train.ClusterSpec`: {"worker": ["host:2222", ...]}, with
            "chief": ["host:2222"] for the driver, by which workers see when it ends.
        shards_per_device: Parts of an axis for each device. More than one spread the work of a slow
            or lost device.
    """

    def __init__(self, spec: Any, *, shards_per_device: int = 2) -> None:
        self.spec = tf.train.ClusterSpec(spec)
        if WORKER not in self.spec.jobs or not self.spec.num_tasks(WORKER):
            raise ValueError(f'the cluster has no job "{WORKER}": {self.spec.as_dict()}')
        if shards_per_device < 1:
            raise ValueError(f"shards_per_device must be 1 or more, got {shards_per_device!r}")
        self.shards_per_device = shards_per_device

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy in another process connects by itself; in this process it reuses the connection.
        return _copied, (self.spec.as_dict(), self.shards_per_device)

    @classmethod
    def from_environment(cls, *, shards_per_device: int = 2) -> Cluster:
        """Return the cluster that TF_CONFIG describes, or else the current step of Slurm.

        Raises ValueError if the environment describes none.
        """
        return cls(environment()["cluster"], shards_per_device=shards_per_device)

    @property
    def devices(self) -> tuple[ClusterDevice, ...]:
        """The GPUs of the workers, or their CPUs if none has a GPU. Connects to the workers."""
        self.connect()
        found = [
            device
            for device in tf.config.list_logical_devices()
            if f"/job:{WORKER}/" in device.name and device.device_type in ("CPU", "GPU")
        ]
        kinds = {device.device_type for device in found}
        kind = "GPU" if "GPU" in kinds else "CPU"
        made = []
        for device in found:
            if device.device_type == kind:
                name = ClusterDevice(device.name)
                name.cluster = self
                made.append(name)
        return tuple(made)

    @property
    def driver(self) -> str:
        """The device of this process."""
        return f"/job:{_HERE}/replica:0/task:0/device:CPU:0"

    def connect(self) -> None:
        """Connect to all workers. Raises `DeviceError` if a worker cannot be reached."""
        global _connected
        with _lock:
            if _connected == self.spec.as_dict():  # connecting again would drop tensors
                return
            addresses = {
                k: self.spec.task_address(WORKER, k) for k in self.spec.task_indices(WORKER)
            }
            missing = {
                f"/job:{WORKER}/task:{task}": f"nobody listens at {address}"
                for task, address in addresses.items()
                if not is_reached(address)
            }
            if missing:
                raise DeviceError(missing, 0)
            jobs = self.spec.as_dict()
            driver = jobs.pop(DRIVER, None)
            if driver is not None:
                jobs[_HERE] = driver[:1]
            tf.config.experimental_connect_to_cluster(
                tf.train.ClusterSpec(jobs), job_name=_HERE, task_index=0, protocol="grpc"
            )
            _connected = self.spec.as_dict()

    def recover(self, name: str) -> bool:
        """Reconnect to the worker of a lost device; return whether it answers."""
        task = tf.DeviceSpec.from_string(name).task
        if not is_reached(self.spec.task_address(WORKER, task)):
            return False
        try:
            # As TensorFlow's own coordinator does it: workers that stayed connected keep their
            # tensors.
            context.context().update_server_def(context.get_server_def())
            with tf.device(name):
                return int(tf.constant(1) + tf.constant(0)) == 1
        except tf.errors.OpError:
            return False


def _copied(spec: Mapping[str, Any], shards_per_device: int) -> Cluster:
    return Cluster(spec, shards_per_device=shards_per_device)


def is_in_cluster() -> bool:
    """Return whether the environment describes a cluster."""
    return bool(os.environ.get("TF_CONFIG")) or _SLURM in os.environ


def environment() -> Mapping[str, Any]:
    """Return the configuration of TF_CONFIG, or else Slurm: {"cluster": ..., "task": ...}.

    Raises ValueError if both are missing, or the configuration is invalid.
    """
    text = os.environ.get("TF_CONFIG", "")
    if not text and _SLURM in os.environ:
        return _slurm()
    if not text:
        raise ValueError(
            "no cluster in the environment: set TF_CONFIG to "
            '{"cluster": {"worker": ["host:port", ...]}}, or run within a step of Slurm'
        )
    try:
        config = json.loads(text)
    except ValueError as error:
        raise ValueError(f"TF_CONFIG={text!r} is no JSON: {error}") from error
    if not isinstance(config, Mapping) or "cluster" not in config:
        raise ValueError(f'TF_CONFIG={text!r} has no "cluster"')
    return config


_SLURM = "SLURM_STEP_NODELIST"


def _slurm() -> Mapping[str, Any]:
    """Return the tasks of a step of Slurm: the first is the driver, the others are workers."""
    tasks = int(os.environ["SLURM_STEP_NUM_TASKS"])
    if tasks < 2:
        raise ValueError("a step of Slurm with one task has no workers: use --ntasks=2 or more")
    # Slurm assigns GPUs to tasks. The resolver is given enough not to query them.
    resolver = tf.distribute.cluster_resolver.SlurmClusterResolver(
        jobs={DRIVER: 1, WORKER: tasks - 1},
        gpus_per_node=tasks,
        gpus_per_task=1,
        auto_set_gpu=False,
    )
    cluster = resolver.cluster_spec().as_dict()
    kind, index = resolver.get_task_info()
    return {"cluster": cluster, "task": {"type": kind, "index": index}}


def is_reached(address: str, seconds: float = _REACHED) -> bool:
    """Return whether a server listens at "host:port"."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=seconds):
            return True
    except OSError:
        return False


def clusters_of(devices: Sequence[Any]) -> set[Cluster]:
    """Return the clusters that devices belong to."""
    return {one.cluster for one in devices if isinstance(one, ClusterDevice)}
