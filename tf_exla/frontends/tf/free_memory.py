"""The free memory of the device."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

import tensorflow as tf

from tf_exla.frontends.tf.device import FIRST_GPU, device

_AUTO_SHARE = 0.9


def available_memory() -> int:
    """Return the bytes that are free now, on the first GPU or else in main memory.

    For main memory this is the smaller of what the system reports as available and what the control
    group (a container's limit, version 1 or 2) leaves. Page cache that can be dropped is free.
    """
    if device() == "GPU":
        return _gpu_available()
    return min([_system_available(), *_cgroup_available()])


def auto_limit() -> int:
    """Return the limit that "auto" stands for: 90 % of `available_memory()`, in bytes."""
    return int(_AUTO_SHARE * available_memory())


def _gpu_available() -> int:
    """Return the bytes TensorFlow may take of the first visible GPU, less those it holds."""
    (first, *_) = tf.config.get_visible_devices("GPU")
    shares = tf.config.get_logical_device_configuration(first)
    share = shares[0].memory_limit if shares else None
    total = _gpu_bytes() if share is None else int(share) * 2**20
    return total - int(tf.config.experimental.get_memory_info(FIRST_GPU)["current"])


def _gpu_bytes() -> int:
    import subprocess

    # TensorFlow reports only what it uses, not what the device has.
    seen = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    query = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    query.append(f"--id={seen}")
    try:
        said = subprocess.run(query, check=True, capture_output=True, text=True).stdout
        return int(said) * 2**20
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        raise RuntimeError(
            f"nvidia-smi does not tell how much memory the GPU has ({error}): give a limit in bytes"
        ) from error


def _system_available() -> int:
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        return field_bytes(meminfo, "MemAvailable")
    import psutil

    return int(psutil.virtual_memory().available)


def _cgroup_available(root: Path = Path("/sys/fs/cgroup"), own: Path | None = None) -> list[int]:
    """Return the bytes that each control group of this process leaves, if it has a limit.

    `root` is where the groups are mounted, `own` the file that lists the process's groups.
    """
    try:
        lines = (own or Path("/proc/self/cgroup")).read_text().splitlines()
    except OSError:
        return []
    left = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            mount, limit, usage = root, "memory.max", "memory.current"
        elif "memory" in controllers.split(","):
            mount, limit, usage = root / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        # A limit of an outer group holds too; in a container only the mount itself may be visible.
        relative = PurePosixPath(path.lstrip("/"))
        for group in {mount, *(mount / inner for inner in (relative, *relative.parents))}:
            try:
                size = int((group / limit).read_text())
                used = int((group / usage).read_text())
            except (OSError, ValueError):  # no such group, or "max"
                continue
            left.append(max(0, size - used + _inactive_file(group / "memory.stat")))
    return left


def _inactive_file(path: Path) -> int:
    """Return the bytes of page cache that a control group can drop at once."""
    try:
        fields = dict(line.split(" ", 1) for line in path.read_text().splitlines())
    except OSError:
        return 0
    return int(fields.get("total_inactive_file", fields.get("inactive_file", "0")))


def field_bytes(path: Path, field: str) -> int:
    """Read `field` of a file with lines such as "VmRSS:   1234 kB"."""
    for line in path.read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == field:
            return int(rest.split()[0]) * 1024
    raise KeyError(f"{path} has no field {field!r}")
