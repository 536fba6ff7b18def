"""What the tests on a GPU share; without one they skip."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
from fresh_process import run_fresh

needs_gpu = pytest.mark.skipif(
    not tf.config.list_physical_devices("GPU"), reason="TensorFlow sees no GPU"
)

_ENVIRONMENT = {
    "CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", "0"),
    # It counts what is asked for; the default one whole blocks.
    "TF_GPU_ALLOCATOR": "cuda_malloc_async",
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
}


def run_on_gpu(code: Callable[..., Any], *args: Any, timeout: float = 600) -> Any:
    """Run a function in a fresh process that sees the GPU."""
    return run_fresh(code, *args, env=_ENVIRONMENT, timeout=timeout)
