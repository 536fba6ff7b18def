"""The device that functions run on, as visible to TensorFlow in this process."""

from __future__ import annotations

import os
from functools import cache
from typing import Literal

from tf_exla.ir.rates import Rates
from tf_exla.model.rates import DeviceKind, cpu_kind, gpu_kind, load

Device = Literal["GPU", "CPU"]
GPU_ALLOCATOR = "TF_GPU_ALLOCATOR"
FIRST_GPU = "GPU:0"
UNNAMED = "GPU"
"""The name of a GPU that reports none."""


@cache
def device() -> Device:
    """Return the kind of device on which TensorFlow places ops by default.

    Call this only when the program runs: afterwards a GPU can no longer be hidden.
    """
    import tensorflow as tf  # here, since records of ops are read without it

    return "GPU" if tf.config.get_visible_devices("GPU") else "CPU"


def device_kind(device: Device) -> DeviceKind:
    """Return the kind of the processor, or of the first GPU that TensorFlow sees."""
    if device == "CPU":
        return cpu_kind()
    import tensorflow as tf

    for gpu in tf.config.get_visible_devices("GPU"):
        details = tf.config.experimental.get_device_details(gpu)
        return gpu_kind(details.get("device_name", UNNAMED))
    return gpu_kind(UNNAMED)  # plans may be made for a GPU that this machine lacks


@cache
def device_rates(device: Device) -> Rates:
    """Return the measured rates of a device, else the usual ones. They are read once."""
    return load(device_kind(device))


def rounds_factors(dtype: str) -> bool:
    """Return whether products round factors of `dtype` to fewer digits: float32 to TF32."""
    if dtype != "float32" or device() != "GPU":
        return False
    import tensorflow as tf

    return bool(tf.config.experimental.tensor_float_32_execution_enabled())


def counts_exactly() -> bool:
    """Return whether TensorFlow's allocator on a GPU takes no more than the requested bytes."""
    return os.environ.get(GPU_ALLOCATOR) == "cuda_malloc_async"
