"""Run TensorFlow functions inside a memory limit.

Names are loaded on first use, since the core (`tf_exla.ir` to `tf_exla.pipeline`) works without
TensorFlow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tf_exla.api import OptimizedFunction, explain, optimize
    from tf_exla.errors import (
        DeviceError,
        MemoryLimitError,
        NotOptimizedWarning,
        UnboundedMemoryError,
        UnboundedMemoryWarning,
    )
    from tf_exla.frontends.tf.devices.cluster import Cluster
    from tf_exla.frontends.tf.devices.data import sharded
    from tf_exla.frontends.tf.measuring.measure import measured_peak
    from tf_exla.frontends.tf.measuring.tensorboard import to_tensorboard
    from tf_exla.report.report import MemoryReport
    from tf_exla.run.limited import limit

__version__ = "0.1.0"

__all__ = [
    "Cluster",
    "DeviceError",
    "MemoryLimitError",
    "MemoryReport",
    "NotOptimizedWarning",
    "OptimizedFunction",
    "UnboundedMemoryError",
    "UnboundedMemoryWarning",
    "explain",
    "limit",
    "measured_peak",
    "optimize",
    "sharded",
    "to_tensorboard",
]

_MODULES = {
    "Cluster": "frontends.tf.devices.cluster",
    "DeviceError": "errors",
    "MemoryLimitError": "errors",
    "MemoryReport": "report.report",
    "NotOptimizedWarning": "errors",
    "OptimizedFunction": "api",
    "UnboundedMemoryError": "errors",
    "UnboundedMemoryWarning": "errors",
    "explain": "api",
    "limit": "run.limited",
    "measured_peak": "frontends.tf.measuring.measure",
    "optimize": "api",
    "sharded": "frontends.tf.devices.data",
    "to_tensorboard": "frontends.tf.measuring.tensorboard",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
