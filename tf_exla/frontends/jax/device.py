"""The device that JAX runs programs on by default."""

from __future__ import annotations

from typing import Any

import jax

from tf_exla.model.rates import DeviceKind, gpu_kind

GPU_BYTES = 1 << 30
"""The largest tensor of a chunk on a GPU: as for TensorFlow, where it was measured."""


def first_device() -> Any:
    """Return the device that a function without committed arguments runs on."""
    chosen = getattr(jax.config, "jax_default_device", None)
    if chosen is None or isinstance(chosen, str):
        return jax.local_devices(backend=chosen)[0]
    return chosen


def on_gpu() -> bool:
    """Return whether programs run on a GPU by default."""
    return bool(first_device().platform == "gpu")


def kind_of_gpu() -> DeviceKind:
    """Return the kind of the GPU that programs run on by default."""
    return gpu_kind(first_device().device_kind)
