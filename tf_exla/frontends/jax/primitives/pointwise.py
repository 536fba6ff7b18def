"""Elementwise primitives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jax import lax

from tf_exla.frontends.jax.jaxprs.writer import Call, Writer
from tf_exla.frontends.jax.primitives.masks import identity, select_band
from tf_exla.ir.graph import Tensor

Convert = Callable[[Writer, Call], Sequence[Tensor] | None]


def first_of(*converts: Convert) -> Convert:
    """Return a converter that tries several, and returns the first result that is not None."""

    def convert(w: Writer, call: Call) -> Sequence[Tensor] | None:
        tried = (one(w, call) for one in converts)
        return next((made for made in tried if made is not None), None)

    return convert


def elementwise(op: str) -> Convert:
    """Return a converter to an op of the vocabulary, which is applied before a broadcast."""

    def convert(w: Writer, call: Call) -> Sequence[Tensor] | None:
        operands = [w.bare(one) for one in call.inputs]
        made = w.op(op, *operands, dtype=call.dtype)
        return [w.broadcast(made, call.shape)]

    return convert


def by_kind(**ops: str) -> Convert:
    """Return a converter to an op that depends on the kind of the first operand.

    Kinds are `f` (floats), `i` (integers), `b` (booleans) and `c` (complex numbers). For kinds
    without an op the node is opaque.
    """
    converters = {kind: elementwise(op) for kind, op in ops.items()}

    def convert(w: Writer, call: Call) -> Sequence[Tensor] | None:
        chosen = converters.get(kind_of(call.inputs[0].dtype))
        return None if chosen is None else chosen(w, call)

    return convert


def kind_of(dtype: str) -> str:
    """Return `f`, `i`, `b` or `c`; "" for dtypes that are no numbers."""
    for kind, starts in _KINDS.items():
        if dtype.startswith(starts):
            return kind
    return ""


_KINDS = {"f": ("float", "bfloat"), "i": ("int", "uint"), "b": ("bool",), "c": ("complex",)}


def _real(op: str) -> Convert:
    return by_kind(f=op, i=op)


def _number(op: str) -> Convert:
    return by_kind(f=op, i=op, c=op)


def _analytic(op: str) -> Convert:
    return by_kind(f=op, c=op)


def _astype(w: Writer, call: Call) -> Sequence[Tensor] | None:
    before, after = kind_of(call.inputs[0].dtype), kind_of(call.dtype)
    if not before or not after or (before == "c" and after != "c"):
        return None
    x = w.bare(call.inputs[0])
    made = (before == "b" and identity(w, x, call.dtype)) or w.cast(x, call.dtype)
    return [w.broadcast(made, call.shape)]


def _integer_pow(w: Writer, call: Call) -> Sequence[Tensor] | None:
    """Multiply in the same order as JAX."""
    power, x = int(call.params["y"]), w.bare(call.inputs[0])
    if power == 0 or kind_of(x.dtype) == "b":
        return None
    made = None
    rest = abs(power)
    while rest:
        if rest & 1:
            made = x if made is None else w.op("multiply", made, x)
        rest >>= 1
        if rest:
            x = w.op("square", x)
    assert made is not None
    if power < 0:
        if kind_of(made.dtype) == "i":
            return None
        made = w.op("divide", w.const(1, made.dtype), made)
    return [w.broadcast(made, call.shape)]


def _round(w: Writer, call: Call) -> Sequence[Tensor] | None:
    if call.params["rounding_method"] is not lax.RoundingMethod.TO_NEAREST_EVEN:
        return None
    return elementwise("round")(w, call)


def _select_n(w: Writer, call: Call) -> Sequence[Tensor] | None:
    which, *cases = (w.bare(one) for one in call.inputs)
    if len(cases) != 2 or which.dtype != "bool" or not kind_of(call.dtype):
        return None
    known = w.known(which)
    if known is not None and known.size == 1:
        return [call.inputs[2 if known.all() else 1]]
    made = select_band(w, which, cases[1], cases[0]) or w.op("where", which, cases[1], cases[0])
    return [w.broadcast(made, call.shape)]


def _clamp(w: Writer, call: Call) -> Sequence[Tensor] | None:
    if kind_of(call.dtype) not in "fi":
        return None
    least, x, most = (w.bare(one) for one in call.inputs)
    return [w.broadcast(w.op("minimum", w.op("maximum", x, least), most), call.shape)]


def _one_minus_square(w: Writer, call: Call) -> Sequence[Tensor] | None:
    """Compute (1 + x) (1 - x), as JAX does since 0.11."""
    x = w.bare(call.inputs[0])
    if kind_of(x.dtype) not in "fic":
        return None
    one = w.const(1, x.dtype)
    made = w.op("multiply", w.op("add", one, x), w.op("subtract", one, x))
    return [w.broadcast(made, call.shape)]


def _pow(w: Writer, call: Call) -> Sequence[Tensor] | None:
    """Convert powers of real or complex numbers; those with integers stay opaque."""
    if any(kind_of(one.dtype) not in "fc" for one in call.inputs):
        return None
    return elementwise("pow")(w, call)


def _same(w: Writer, call: Call) -> Sequence[Tensor]:
    return call.inputs


def _exact(convert: Convert) -> Convert:
    """Return a converter that does not apply if the user requests an accuracy."""

    def checked(w: Writer, call: Call) -> Sequence[Tensor] | None:
        return None if call.params.get("accuracy") is not None else convert(w, call)

    return checked


CONVERTERS: Mapping[str, Any] = {
    "abs": _number("abs"),
    "acos": by_kind(f="acos"),
    "acosh": by_kind(f="acosh"),
    "add": _number("add"),
    "add_any": _number("add"),
    "and": by_kind(b="logical_and"),
    "asin": by_kind(f="asin"),
    "asinh": by_kind(f="asinh"),
    "atan": by_kind(f="atan"),
    "atan2": by_kind(f="atan2"),
    "atanh": by_kind(f="atanh"),
    "ceil": by_kind(f="ceil"),
    "clamp": _clamp,
    "convert_element_type": _astype,
    "copy": _same,
    "copy_p": _same,
    "cos": _exact(_analytic("cos")),
    "cosh": by_kind(f="cosh"),
    "device_put": _same,
    "div": by_kind(f="divide", i="truncate_divide", c="divide"),
    "eq": by_kind(f="equal", i="equal", b="equal", c="equal"),
    "erf": by_kind(f="erf"),
    "erfc": by_kind(f="erfc"),
    "exp": _exact(_analytic("exp")),
    "expm1": _exact(by_kind(f="expm1")),
    "floor": by_kind(f="floor"),
    "ge": _real("greater_equal"),
    "gt": _real("greater"),
    "integer_pow": _integer_pow,
    "is_finite": by_kind(f="isfinite"),
    "le": _real("less_equal"),
    "log": _exact(_analytic("log")),
    "log1p": _exact(by_kind(f="log1p")),
    "logistic": _exact(by_kind(f="sigmoid")),
    "lt": _real("less"),
    "max": by_kind(f="maximum", i="maximum", b="logical_or"),
    "min": by_kind(f="minimum", i="minimum", b="logical_and"),
    "mul": _number("multiply"),
    "name": _same,
    "ne": by_kind(f="not_equal", i="not_equal", b="not_equal", c="not_equal"),
    "neg": _number("negative"),
    "not": by_kind(b="logical_not"),
    "one_minus_square": _one_minus_square,
    "optimization_barrier": _same,
    "or": by_kind(b="logical_or"),
    "pow": _pow,
    "round": _round,
    "rsqrt": _exact(by_kind(f="rsqrt")),
    "select_n": _select_n,
    "sign": _real("sign"),
    "sin": _exact(_analytic("sin")),
    "sinh": by_kind(f="sinh"),
    "sqrt": _exact(_analytic("sqrt")),
    "square": _number("square"),
    "stop_gradient": _same,
    "sub": _number("subtract"),
    "tan": _exact(by_kind(f="tan")),
    "tanh": _exact(_analytic("tanh")),
    "xor": by_kind(b="not_equal"),
}
