"""All converters, by the names of JAX's primitives. Other primitives become opaque nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tf_exla.frontends.jax.jaxprs.writer import Call, Writer, dtype_name
from tf_exla.frontends.jax.primitives import (
    calls,
    control_flow,
    gather,
    movement,
    pointwise,
    products,
    random,
    reductions,
    scatter,
)
from tf_exla.frontends.jax.primitives.pointwise import Convert, kind_of
from tf_exla.ir.graph import Tensor


def _of_numbers(convert: Convert) -> Convert:
    """Return a converter that applies only to numbers; ops on keys of random numbers are opaque."""

    def checked(w: Writer, call: Call) -> Sequence[Tensor] | None:
        dtypes = [one.dtype for one in call.inputs] + [dtype_name(one) for one in call.avals]
        return convert(w, call) if all(map(kind_of, dtypes)) else None

    return checked


_PLAIN = (gather, movement, pointwise, products, reductions, scatter)

CONVERTERS: Mapping[str, Any] = {
    **calls.CONVERTERS,
    **control_flow.CONVERTERS,
    **random.CONVERTERS,
    **{name: _of_numbers(one) for module in _PLAIN for name, one in module.CONVERTERS.items()},
}
