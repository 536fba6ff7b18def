"""Writing of the equations of a jaxpr into a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal

from tf_exla.frontends.jax.jaxprs.foreign import implementation
from tf_exla.frontends.jax.jaxprs.source_line import source_line
from tf_exla.frontends.jax.jaxprs.writer import NOTHING, Call, Writer, dtype_name
from tf_exla.ir.graph import Node, Tensor


def inline(w: Writer, closed: ClosedJaxpr, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Write a closed jaxpr on `inputs`; return its results."""
    pairs = zip(closed.jaxpr.constvars, closed.consts, strict=True)
    consts = [constant(w, value, one.aval) for one, value in pairs]
    return inline_open(w, closed.jaxpr, consts, inputs)


def constant(w: Writer, value: Any, aval: Any) -> Tensor:
    """Return a constant of the graph for a known array.

    The dtype is that of `aval`, which may differ from that of the array: without x64, JAX uses
    int32 for NumPy's integers.
    """
    if isinstance(value, (jax.core.Tracer,)):
        raise TypeError(f"{value} is not known before the program runs")
    return w.const(np.asarray(value), dtype_name(aval))


def inline_open(
    w: Writer, jaxpr: Any, consts: Sequence[Tensor], inputs: Sequence[Tensor]
) -> list[Tensor]:
    """Write a jaxpr on given constants and inputs; return its results."""
    env: dict[Any, Tensor] = {}
    env.update(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, inputs, strict=True))

    def read(atom: Any) -> Tensor:
        if isinstance(atom, Literal):
            return w.const(atom.val, dtype_name(atom.aval))
        return env[atom]

    name, source = w.name, w.source
    for eqn in jaxpr.eqns:
        w.source = (not w.inside and source_line(eqn.source_info)) or source
        stack = str(eqn.source_info.name_stack)
        w.name = "/".join(filter(None, (stack, eqn.primitive.name)))
        call = Call(
            eqn.primitive,
            [read(one) for one in eqn.invars],
            eqn.params,
            [one.aval for one in eqn.outvars],
            bool(eqn.effects),
            eqn.ctx,
            [one.aval for one in eqn.invars],
        )
        env.update(zip(eqn.outvars, apply(w, call), strict=True))
    w.name, w.source = name, source
    return [read(one) for one in jaxpr.outvars]


def apply(w: Writer, call: Call) -> Sequence[Tensor]:
    """Write an equation as ops of the vocabulary, else as an opaque node; return its results."""
    if call.avals and all(dtype_name(one) == NOTHING for one in call.avals):
        return [w.const(np.zeros(one.shape, "V"), NOTHING) for one in call.avals]
    convert = w.walk.converters.get(call.primitive.name)
    if convert is not None:
        made = convert(w, call)
    else:
        inner = implementation(call)
        made = None if inner is None else inline(w, inner, call.inputs)
    return w.add(opaque(w, call)) if made is None else made


def opaque(w: Writer, call: Call) -> Node:
    """Return a node that holds the primitive, which restoring binds again."""
    attrs = {"primitive": call.primitive, "params": dict(call.params), "context": call.context}
    name = f"lax.{call.primitive.name}"
    once = call.effects or call.primitive.name in ONCE
    return w.node(name, call.inputs, call.avals, attrs, stateful=once)


ONCE = frozenset({"pure_callback", "rng_uniform"})
"""Primitives without effects in JAX that must run exactly once: `pure_callback` calls Python, and
`rng_uniform` draws other numbers each time."""
