"""Capture a JAX function as a `Graph`."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from tf_exla.frontends.jax.jaxprs.inlining import constant, inline_open
from tf_exla.frontends.jax.jaxprs.writer import Walk, Writer, dtype_name
from tf_exla.frontends.jax.primitives.reductions import sorts_alone
from tf_exla.frontends.jax.primitives.table import CONVERTERS
from tf_exla.ir.graph import Graph, Tensor
from tf_exla.ir.traverse import without_dead

FEW_INTEGERS = 1024
"""Integer constants of up to so many elements stay in the graph: an index, axes or a shape."""
SMALL_BYTES = 1024
"""Other constants of up to so many bytes stay in the graph."""


def capture_jaxpr(closed: Any, platform: str | None = None) -> tuple[Graph, tuple[Any, ...]]:
    """Return the graph of a closed jaxpr, and the values of its last inputs, large constants.

    `platform`: the platform that the program is for, as JAX names it; None: the default.
    """
    walk = Walk(CONVERTERS, platform or jax.default_backend())
    w = Writer(walk)
    jaxpr = closed.jaxpr
    labels = _labels(jaxpr)
    inputs = tuple(
        Tensor(tuple(one.aval.shape), dtype_name(one.aval), label)
        for one, label in zip(jaxpr.invars, labels, strict=True)
    )
    constants: list[Any] = []
    extra: list[Tensor] = []
    inside: list[Tensor] = []
    for k, (one, value) in enumerate(zip(jaxpr.constvars, closed.consts, strict=True)):
        if _is_small(value):
            inside.append(constant(w, value, one.aval))
        else:
            extra.append(Tensor(tuple(one.aval.shape), dtype_name(one.aval), f"constant {k}"))
            constants.append(value)
            inside.append(extra[-1])
    outputs = inline_open(w, jaxpr, inside, inputs)
    graph = without_dead(w.graph((*inputs, *extra), outputs), sorts_alone)
    return graph.replace(results_first=True), tuple(constants)


def _labels(jaxpr: Any) -> list[str]:
    """Return the names of the arguments in the user's function."""
    names = getattr(jaxpr.debug_info, "arg_names", None) or ()
    count = len(jaxpr.invars)
    known = list(names) if len(names) == count else [None] * count
    return [name or f"argument {k}" for k, name in enumerate(known)]


def _is_small(value: Any) -> bool:
    """Return whether an array is small enough to be a constant of the graph."""
    if isinstance(value, jax.core.Tracer) or not isinstance(
        value, (np.ndarray, np.generic, jax.Array)
    ):
        return isinstance(value, (bool, int, float, complex))
    if jax.numpy.issubdtype(value.dtype, jax.dtypes.extended):
        return False
    if value.dtype.kind in "biu":
        return value.size <= FEW_INTEGERS
    return bool(value.nbytes <= SMALL_BYTES)
