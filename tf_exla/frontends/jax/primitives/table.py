"""All converters, by the names of JAX's primitives. What is not here is an opaque node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tf_exla.frontends.jax.primitives import (
    calls,
    control_flow,
    gather,
    movement,
    pointwise,
    products,
    reductions,
    scatter,
)

CONVERTERS: Mapping[str, Any] = {
    **calls.CONVERTERS,
    **control_flow.CONVERTERS,
    **gather.CONVERTERS,
    **movement.CONVERTERS,
    **pointwise.CONVERTERS,
    **products.CONVERTERS,
    **reductions.CONVERTERS,
    **scatter.CONVERTERS,
}
