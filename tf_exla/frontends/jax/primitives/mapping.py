"""A scan that carries nothing is written as its body on a batch of rows.

The plan splits the batch as it needs. Then the forward scan and that of its gradient can share a
loop, and residuals between them need not be stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax.extend.core import jaxpr_as_fun

from tf_exla.frontends.jax.compat import of_scan
from tf_exla.frontends.jax.jaxprs import equations
from tf_exla.frontends.jax.jaxprs.inlining import inline
from tf_exla.frontends.jax.jaxprs.writer import Call, Writer
from tf_exla.ir.graph import Tensor

_IN_TURN = frozenset({"cond", "custom_vmap_call", "rng_bit_generator", "rng_uniform", "while"})
"""Primitives that do something else on a batch: loops run until the last one ends, both branches of
a choice are computed, other random numbers are drawn, and functions may have their own rule."""


def mapped(w: Writer, call: Call) -> Sequence[Tensor] | None:
    """Write a scan as its body on all rows; None if that would be a different program."""
    params, body = call.params, call.params["jaxpr"]
    length, (consts, carried) = params["length"], of_scan(params)
    if not length or carried or not _is_batchable(body.jaxpr):
        return None
    count = len(call.inputs)
    axes = [None if k < consts else 0 for k in range(count)]
    function = jax.vmap(jaxpr_as_fun(body), in_axes=axes, axis_size=length)
    specs = [
        jax.ShapeDtypeStruct(one.dims, aval.dtype)
        for one, aval in zip(call.inputs, body.in_avals, strict=True)
    ]
    return inline(w, jax.make_jaxpr(function)(*specs), call.inputs)


def _is_batchable(jaxpr: Any) -> bool:
    if jaxpr.effects:
        return False
    return not any(
        eqn.primitive.name in _IN_TURN
        or (eqn.primitive.name == "scan" and of_scan(eqn.params)[1])
        or "callback" in eqn.primitive.name
        or _other_keys(eqn)
        for eqn in equations(jaxpr)
    )


def largest_array(jaxpr: Any) -> int:
    """Return the bytes of the largest result of an equation, also inside of loops and branches."""
    avals = (one.aval for eqn in equations(jaxpr.jaxpr) for one in eqn.outvars)
    return max((one.size * one.dtype.itemsize for one in avals if hasattr(one, "size")), default=0)


def _other_keys(eqn: Any) -> bool:
    """Return whether the random numbers of a batch differ from those of its rows."""
    dtypes = (str(one.aval.dtype) for one in (*eqn.invars, *eqn.outvars))
    return any(name.startswith("key<") and name != "key<fry>" for name in dtypes)
