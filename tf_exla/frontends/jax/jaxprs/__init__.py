"""Walks over jaxprs, and the specs of their operands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax


def equations(jaxpr: Any) -> Iterator[Any]:
    """Yield the equations of a jaxpr, also inside of calls, loops and branches."""
    for eqn in jaxpr.eqns:
        yield eqn
        for value in eqn.params.values():
            for one in value if isinstance(value, tuple) else (value,):
                inner = getattr(one, "jaxpr", one)
                if hasattr(inner, "eqns"):
                    yield from equations(inner)


def spec(aval: Any) -> jax.ShapeDtypeStruct:
    """Return the shape, dtype and weak type of an array, for tracing."""
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=getattr(aval, "weak_type", False))
