"""Reductions, searches and cumulative reductions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

from tf_exla.frontends.jax.jaxprs.writer import Call, Writer
from tf_exla.frontends.jax.primitives.pointwise import Convert, kind_of
from tf_exla.frontends.jax.primitives.rules import params_of
from tf_exla.ir.graph import Node, Tensor


def _reduction(**ops: str) -> Convert:
    """Return a converter of a reduction over `axes`, with an op for each kind of numbers."""

    def convert(w: Writer, call: Call) -> Sequence[Tensor] | None:
        (x,) = call.inputs
        op = ops.get(kind_of(x.dtype))
        if op is None:
            return None
        if not call.params["axes"]:
            return [x]
        return [w.op(op, x, w.const(list(call.params["axes"])), dtype=call.dtype)]

    return convert


def _collective(**ops: str) -> Convert:
    """Return a converter of a collective over an axis that `vmap` has named.

    It reduces each operand along an axis of its own.
    """
    reduce = _reduction(**ops)

    def convert(w: Writer, call: Call) -> Sequence[Tensor] | None:
        axes = call.params["axes"]
        grouped = call.params.get("axis_index_groups") is not None
        if grouped or not all(isinstance(axis, int) for axis in axes):
            return None
        made: list[Tensor] = []
        for x, aval in zip(call.inputs, call.avals, strict=True):
            one = reduce(w, Call(call.primitive, [x], {"axes": axes}, [aval]))
            if one is None:
                return None
            made += one
        return made

    return convert


def _search(op: str) -> Convert:
    def convert(w: Writer, call: Call) -> Sequence[Tensor] | None:
        (x,), (axis,) = call.inputs, call.params["axes"]
        if kind_of(x.dtype) not in "fi":
            return None
        return [w.op(op, x, w.const(axis), shape=call.shape, dtype=call.dtype)]

    return convert


def _cumulative(op: str) -> Convert:
    def convert(w: Writer, call: Call) -> Sequence[Tensor] | None:
        (x,) = call.inputs
        attrs = {"exclusive": False, "reverse": bool(call.params["reverse"])}
        return [w.op(op, x, w.const(call.params["axis"]), shape=x.dims, dtype=x.dtype, **attrs)]

    return convert


def _top_k(w: Writer, call: Call) -> Sequence[Tensor] | None:
    (x,), k = call.inputs, call.params["k"]
    last = len(x.dims) - 1
    if call.params.get("axis", last) not in (last, -1):
        return None
    return w.several("top_k", [x, w.const(k)], call.avals, sorted=True)


def _sort(w: Writer, call: Call) -> Sequence[Tensor] | None:
    """Sort one tensor along its last axis; other sorts stay as they are."""
    if len(call.inputs) != 1 or call.params["dimension"] != len(call.inputs[0].dims) - 1:
        return None
    return w.several("sort", call.inputs, call.avals)


def sorts_alone(node: Node, needed: Set[Tensor]) -> Node:
    """Return the sort of one tensor where others are sorted along with it for nothing.

    In a gradient, `stop_gradient(median(x))` also sorts the positions of x, which nothing reads.
    """
    if node.op != "lax.sort" or len(node.inputs) == 1 or not needed.isdisjoint(node.outputs[1:]):
        return node
    params = params_of(node)
    x = node.inputs[0]
    if params["num_keys"] != 1 or params["dimension"] != len(x.dims) - 1:
        return node
    return node.replace(op="sort", inputs=(x,), outputs=node.outputs[:1], attrs={})


CONVERTERS: Mapping[str, Any] = {
    "argmax": _search("argmax"),
    "argmin": _search("argmin"),
    "cumprod": _cumulative("cumprod"),
    "cumsum": _cumulative("cumsum"),
    "pmax": _collective(f="max", i="max", b="any"),
    "pmin": _collective(f="min", i="min", b="all"),
    "psum": _collective(f="sum", i="sum", c="sum"),
    "reduce_and": _reduction(b="all"),
    "reduce_max": _reduction(f="max", i="max", b="any"),
    "reduce_min": _reduction(f="min", i="min", b="all"),
    "reduce_or": _reduction(b="any"),
    "reduce_prod": _reduction(f="prod", i="prod", c="prod"),
    "reduce_sum": _reduction(f="sum", i="sum", c="sum"),
    "sort": _sort,
    "top_k": _top_k,
}
