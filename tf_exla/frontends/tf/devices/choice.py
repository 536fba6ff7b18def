"""The devices that a user names: those of this process, of a cluster, or only their number."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tf_exla.frontends.tf.devices.cluster import Cluster, clusters_of, is_in_cluster
from tf_exla.frontends.tf.devices.pool import Pool
from tf_exla.shard.link import GRPC, LOCAL
from tf_exla.shard.loops import Fleet


@dataclass(frozen=True)
class DeviceSet:
    """The devices that the loops of a function are sharded over.

    `names`: full names of the devices; empty if only their number `count` is known. `cluster`: the
    cluster they belong to, None for devices of this process. `keep_rows`: whether results that are
    split into rows stay on the devices, as sharded tensors.
    """

    names: tuple[str, ...]
    count: int
    cluster: Cluster | None = None
    keep_rows: bool = False

    @classmethod
    def of(cls, devices: Any, outputs: str = "whole") -> DeviceSet | None:
        """Parse the arguments `devices` and `outputs` of `optimize`.

        `devices`: logical devices or their names; "all" for all GPUs of this process, or all its
        CPUs if it has none; a number of devices, for `explain` only; None for one device. Raises
        ValueError or TypeError for anything else.
        """
        if outputs not in ("whole", "sharded"):
            raise ValueError(f'outputs must be "whole" or "sharded", got {outputs!r}')
        if devices is None:
            if outputs == "sharded":
                raise ValueError('outputs="sharded" needs devices')
            return None
        if isinstance(devices, bool) or not isinstance(devices, (int, str, Sequence)):
            raise TypeError(f"devices must be a list of devices or a number, got {devices!r}")
        if isinstance(devices, int):
            if devices < 1:
                raise ValueError(f"devices must be 1 or more, got {devices!r}")
            return cls((), devices, None, outputs == "sharded")
        if isinstance(devices, str):
            if devices != "all":
                raise ValueError(f'devices must be a list of devices or "all", got {devices!r}')
            devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
        if not devices:
            raise ValueError("devices is empty")
        clusters = clusters_of(devices)
        if len(clusters) > 1:
            raise ValueError("devices are of several clusters")
        names = tuple(map(_name, devices))
        if not clusters:
            names = tuple(map(_full_name, names))
        if len(set(names)) < len(names):
            raise ValueError(f"devices names one twice: {', '.join(names)}")
        return cls(names, len(names), next(iter(clusters), None), outputs == "sharded")

    def __reduce__(self) -> tuple[Any, ...]:
        # The threads of the pool are not copied.
        return DeviceSet, (self.names, self.count, self.cluster, self.keep_rows)

    @property
    def driver(self) -> str:
        """The device that runs the parts that are not sharded."""
        return self.names[0] if self.cluster is None else self.cluster.driver

    @property
    def fleet(self) -> Fleet:
        """The devices in the form that plans use."""
        if self.cluster is None:
            return Fleet(self.count, self.count, LOCAL, keep_rows=self.keep_rows)
        # One worker counts as two devices: a plan for one device would run on the driver.
        count = max(self.count, 2)
        shards = count * self.cluster.shards_per_device
        return Fleet(count, shards, GRPC, remote=True, keep_rows=self.keep_rows)

    @property
    def pool(self) -> Pool:
        """The threads of the devices, shared by all functions on them.

        Raises ValueError if only their number is known.
        """
        if not self.names:
            raise ValueError(f"devices={self.count} is for `explain`: to run, list the devices")
        with _lock:
            key = self.names, self.cluster
            if key not in _pools:
                recover = self.cluster.recover if self.cluster is not None else None
                _pools[key] = Pool(self.names, recover)
            return _pools[key]


_lock = threading.Lock()
_pools: dict[tuple[tuple[str, ...], Cluster | None], Pool] = {}


def _full_name(name: str) -> str:
    """Return TensorFlow's full name of a device of this process; raise ValueError if none."""
    found = tf.config.list_logical_devices()
    wanted = tf.DeviceSpec.from_string(name)
    for device in found:
        spec = tf.DeviceSpec.from_string(device.name)
        same = (spec.device_type, spec.device_index) == (
            wanted.device_type,
            wanted.device_index or 0,
        )
        if same and spec.job in (None, "localhost"):
            return str(device.name)
    there = ", ".join(device.name for device in found)
    raise ValueError(f"devices has {name!r}; there are {there}")


def devices_of(text: str) -> Any:
    """Parse `--devices`: "all", of the cluster or else of this process, or a number of devices."""
    if text == "all":
        return Cluster.from_environment().devices if is_in_cluster() else "all"
    if not text.isdigit() or not int(text):
        raise ValueError(f'--devices must be "all" or a number, got {text!r}')
    found = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    if len(found) < int(text):
        raise ValueError(f"--devices {text}: there are {len(found)}")
    return found[: int(text)]


def _name(device: Any) -> str:
    if isinstance(device, tf.config.LogicalDevice):
        return str(device.name)
    if not isinstance(device, str):
        raise TypeError(f"devices has {device!r}, which is no device")
    return device
