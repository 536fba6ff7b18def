"""The device that functions run on, as far as TensorFlow lets this process see it."""

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
"""A GPU that does not tell its name."""


@cache
def device() -> Device:
    """Return the kind of device that TensorFlow places ops on where nothing else is said.

    Ask only when it runs: TensorFlow lets nobody hide a GPU after that.
    """
    import tensorflow as tf  # what is known of ops is told without it

    return "GPU" if tf.config.get_visible_devices("GPU") else "CPU"


def device_kind(device: Device) -> DeviceKind:
    """Return the kind of the processor, or of the first GPU that TensorFlow sees."""
    if device == "CPU":
        return cpu_kind()
    import tensorflow as tf

    for gpu in tf.config.get_visible_devices("GPU"):
        details = tf.config.experimental.get_device_details(gpu)
        return gpu_kind(details.get("device_name", UNNAMED))
    return gpu_kind(UNNAMED)  # plans may be made for a GPU that is not here


@cache
def device_rates(device: Device) -> Rates:
    """Return the rates of a device: as measured, else the usual ones. They are read once."""
    return load(device_kind(device))


def rounds_factors(dtype: str) -> bool:
    """Return whether products round their factors to fewer digits than sums: float32 as TF32."""
    if dtype != "float32" or device() != "GPU":
        return False
    import tensorflow as tf

    return bool(tf.config.experimental.tensor_float_32_execution_enabled())


def counts_exactly() -> bool:
    """Return whether TensorFlow's allocator on a GPU takes no more than it is asked for."""
    return os.environ.get(GPU_ALLOCATOR) == "cuda_malloc_async"
