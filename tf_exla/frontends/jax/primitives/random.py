"""Random bits as functions of key and positions, so that chunks can be drawn separately."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import jax
from jax.extend.random import threefry_prng_impl

from tf_exla.frontends.jax.jaxprs.inlining import inline
from tf_exla.frontends.jax.jaxprs.writer import Call, Writer
from tf_exla.ir.graph import Tensor

_LOW = 1 << 32
"""Positions below this are counted in 32 bits."""


def _bits(w: Writer, call: Call) -> Sequence[Tensor] | None:
    """Inline JAX's default generator; those of other ones depend on how many bits are drawn."""
    (keys,), params = call.inputs, call.params
    if keys.dtype != "key<fry>" or not call.context.threefry_partitionable:
        return None

    def bits(key: Any) -> Any:
        data = jax.random.key_data(key)
        return threefry_prng_impl.random_bits(data, params["bit_width"], params["shape"])

    function = bits
    for _ in keys.dims:
        function = jax.vmap(function)
    kind = jax.eval_shape(lambda: jax.random.key(0, impl="threefry2x32")).dtype
    with call.context.manager:
        jaxpr = jax.make_jaxpr(function)(jax.ShapeDtypeStruct(keys.dims, kind))
    with w.definition():
        return inline(w, jaxpr, [keys])


def _places(w: Writer, call: Call) -> Sequence[Tensor] | None:
    """Return the positions of elements in row-major order: their high and their low 32 bits."""
    shape = call.shape
    if prod(shape) > _LOW:
        return None
    low = w.const(0, "uint32")
    for axis, size in enumerate(shape):
        line = w.op("arange", *(w.const(one, "uint32") for one in (0, size, 1)), shape=(size,))
        thin = w.reshape(line, [size if k == axis else 1 for k in range(len(shape))])
        low = w.op("add", low, w.op("multiply", thin, w.const(prod(shape[axis + 1 :]), "uint32")))
    return [w.full(shape, 0, "uint32"), w.broadcast(low, shape)]


CONVERTERS: Mapping[str, Any] = {"iota_2x32_shape": _places, "random_bits": _bits}
