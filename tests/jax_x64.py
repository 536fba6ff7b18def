"""A context manager for 64-bit numbers, in JAX 0.6 and later."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import jax
import jax.experimental


def enable_x64(on: bool = True) -> AbstractContextManager[Any]:
    where: Any = jax if hasattr(jax, "enable_x64") else jax.experimental
    made: AbstractContextManager[Any] = where.enable_x64(on)
    return made
