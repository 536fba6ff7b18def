"""Primitives of other libraries that JAX lowers by tracing a function: the equations of these.

Libraries such as lineax and equinox define primitives that have their own derivatives or batching
rules. In a traced program these rules have been applied. So a primitive can be replaced by the
function that lowers it.
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
    """Return the equations to which JAX lowers an equation; None if there are none.

    None also if they depend on the platform.
    """
    known = not call.effects and len(call.given) == len(call.inputs)
    run = lowered_function(call.primitive) if known else None
    if run is None:
        return None
    try:
        with getattr(call.context, "manager", None) or contextlib.nullcontext():
            made = jax.make_jaxpr(_listed(run, call))(*map(spec, call.given))
    except Exception:  # operands that the function does not accept; lowering reports the error
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
