"""Primitives that call a jaxpr, which is inlined."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jax.extend.core import ClosedJaxpr

from tf_exla.frontends.jax.jaxprs.inlining import inline, inline_open
from tf_exla.frontends.jax.jaxprs.writer import Call, Writer
from tf_exla.ir.graph import Tensor


def _called(key: str) -> Callable[[Writer, Call], Sequence[Tensor] | None]:
    def convert(w: Writer, call: Call) -> Sequence[Tensor] | None:
        inner = call.params.get(key)
        if isinstance(inner, ClosedJaxpr):
            return inline(w, inner, call.inputs)
        return None if inner is None else inline_open(w, inner, [], call.inputs)

    return convert


def _linear_solve(w: Writer, call: Call) -> Sequence[Tensor]:
    """Inline the solver; that of the transposed system is only needed to derive gradients."""
    lengths, jaxprs = call.params["const_lengths"], call.params["jaxprs"]
    start = lengths.matvec + lengths.vecmat
    given = call.inputs[start : start + lengths.solve]
    right = call.inputs[sum(lengths) :]
    return inline(w, jaxprs.solve, [*given, *right])


CONVERTERS: Mapping[str, Any] = {
    "checkpoint": _called("jaxpr"),
    "composite": _called("jaxpr"),
    "closed_call": _called("call_jaxpr"),
    "core_call": _called("call_jaxpr"),
    "custom_jvp_call": _called("call_jaxpr"),
    "custom_linear_solve": _linear_solve,
    "custom_vjp_call": _called("call_jaxpr"),
    "custom_vjp_call_jaxpr": _called("fun_jaxpr"),
    "jit": _called("jaxpr"),
    "named_call": _called("call_jaxpr"),
    "pjit": _called("jaxpr"),
    "remat": _called("jaxpr"),
    "remat2": _called("jaxpr"),
}
