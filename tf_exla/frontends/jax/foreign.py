"""Primitives of other libraries: what they compute, if JAX can trace their implementation.

Libraries such as lineax and equinox define primitives to give them their own derivatives or rules
for batches. Once a program is traced, only what they compute is left. JAX lowers them by tracing
the function that also runs them eagerly.
"""

from __future__ import annotations

from typing import Any

import jax
from jax.extend.core import ClosedJaxpr

from tf_exla.frontends.jax.jaxprs import equations
from tf_exla.frontends.jax.writer import Call, dtype_name


def implementation(call: Call) -> ClosedJaxpr | None:
    """Return what an equation computes; None if that is not known to be the same."""
    run = getattr(call.primitive, "impl", None)
    if call.effects or run is None or _is_of_jax(run):
        return None
    operands = [jax.ShapeDtypeStruct(one.dims, one.dtype) for one in call.inputs]
    try:
        made = jax.make_jaxpr(lambda *given: run(*given, **call.params))(*operands)
    except Exception:  # it needs arrays, or keys of random numbers
        return None
    found = [(one.shape, dtype_name(one)) for one in made.out_avals]
    wanted = [(one.shape, dtype_name(one)) for one in call.avals]
    if found != wanted or made.effects or _is_inside(call.primitive, made.jaxpr):
        return None
    return made


def _is_inside(primitive: Any, jaxpr: Any) -> bool:
    return any(eqn.primitive is primitive for eqn in equations(jaxpr))


def _is_of_jax(run: Any) -> bool:
    """Return whether a function is JAX's own: it runs a primitive by compiling it."""
    module = getattr(getattr(run, "func", run), "__module__", None) or ""
    return module.split(".")[0] in ("jax", "jaxlib")
