"""The device that JAX runs programs on by default."""

from __future__ import annotations

import os
from typing import Any

import jax

from tf_exla.model.allocator import EXACT, Allocator
from tf_exla.model.rates import DeviceKind, gpu_kind

GPU_BYTES = 1 << 30
"""The largest tensor of a chunk on a GPU: as for TensorFlow, where it was measured."""
BLOCKS = Allocator(part=1, most=128 << 20)
"""XLA's default allocator on a GPU, which hands out whole blocks.

It does not split a free block if less than 128 MB, and less than half of it, would remain. On an
H100 an allocation of 180 MB took 242 MB, one of 360 MB took 422.
"""
_COUNTS_EXACTLY = ("platform", "cuda_async")


def first_device() -> Any:
    """Return the device that a function without committed arguments runs on."""
    chosen = getattr(jax.config, "jax_default_device", None)
    if chosen is None or isinstance(chosen, str):
        return jax.local_devices(backend=chosen)[0]
    return chosen


def on_gpu() -> bool:
    """Return whether programs run on a GPU by default."""
    return bool(first_device().platform == "gpu")


def allocator() -> Allocator:
    """Return the model of the device's allocator: the bytes that it takes for a request."""
    chosen = os.environ.get("XLA_PYTHON_CLIENT_ALLOCATOR", "default").lower()
    return BLOCKS if on_gpu() and chosen not in _COUNTS_EXACTLY else EXACT


def kind_of_gpu() -> DeviceKind:
    """Return the kind of the GPU that programs run on by default."""
    return gpu_kind(first_device().device_kind)
