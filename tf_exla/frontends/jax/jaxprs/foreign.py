"""Primitives of other libraries: what they compute, where JAX lowers them by tracing a function.

Libraries such as lineax and equinox define primitives to give them their own derivatives or rules
for batches. Once a program is traced, only the function that lowers them is left.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr

from tf_exla.frontends.jax.compat import lowered_function
from tf_exla.frontends.jax.jaxprs import equations, spec
from tf_exla.frontends.jax.jaxprs.writer import Call, dtype_name


def implementation(call: Call) -> ClosedJaxpr | None:
    """Return the equations that JAX lowers an equation to; None if it has none or they differ."""
    known = not call.effects and len(call.given) == len(call.inputs)
    run = lowered_function(call.primitive) if known else None
    if run is None:
        return None
    try:
        with getattr(call.context, "manager", None) or contextlib.nullcontext():
            made = jax.make_jaxpr(_listed(run, call))(*map(spec, call.given))
    except Exception:  # as at any operand that the function cannot take: XLA reports it
        return None
    found = [(one.shape, dtype_name(one)) for one in made.out_avals]
    wanted = [(one.shape, dtype_name(one)) for one in call.avals]
    recursive = any(eqn.primitive is call.primitive for eqn in equations(made.jaxpr))
    return None if found != wanted or made.effects or recursive else made


def _listed(run: Callable[..., Any], call: Call) -> Callable[..., Any]:
    def function(*operands: Any) -> list[Any]:
        made = run(*operands, **call.params)
        return list(made) if call.primitive.multiple_results else [made]

    return function
