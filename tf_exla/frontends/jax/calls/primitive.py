"""The JAX primitive that represents a program, with its transformation rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from tf_exla.frontends.jax.calls.program import Program, has_tangent
from tf_exla.frontends.jax.compat import along, varying_along

X = Any  # an array or a tracer

program_p = Primitive("tf_exla_program")
program_p.multiple_results = True


def bind(program: Program, operands: Sequence[X]) -> list[X]:
    """Apply a program to arrays, or to tracers of a transformation."""
    made: list[X] = program_p.bind(*operands, program=program)
    return made


def _evaluated(*operands: X, program: Program) -> list[X]:
    return program.certified().run(*operands)


def _abstract(*operands: X, program: Program) -> tuple[list[X], Any]:
    # `results` do not have the axes of `shard_map`s along which they vary.
    varying = frozenset[Any]().union(*map(varying_along, operands))
    return [along(one, varying) for one in program.results], program.jaxpr.effects


def _linearized(
    primals: Sequence[X], tangents: Sequence[X], *, program: Program
) -> tuple[list[X], list[X]]:
    active = tuple(type(one) is not ad.Zero for one in tangents)
    results = bind(program, primals)
    given = [ad.instantiate_zeros(one) for one in tangents if type(one) is not ad.Zero]
    moved = iter(bind(program.linear(active), [*primals, *given]))
    return results, [
        next(moved) if has_tangent(aval) else ad.Zero.from_primal_value(result)
        for aval, result in zip(program.results, results, strict=True)
    ]


def _transposed(cotangents: Sequence[X], *operands: X, program: Program) -> list[X | None]:
    unknown = tuple(map(ad.is_undefined_primal, operands))
    given = tuple(type(one) is not ad.Zero for one in cotangents)
    known = [one for one, off in zip(operands, unknown, strict=True) if not off]
    values = [one for one, on in zip(cotangents, given, strict=True) if on]
    made = iter(bind(program.transposed(unknown, given), [*known, *values]))
    return [next(made) if off else None for off in unknown]


def _batched(
    axis: Any, operands: Sequence[X], axes: Sequence[Any], *, program: Program
) -> tuple[list[X], Any]:
    """Apply a program to a batch; `axis`: name and size of the batch axis.

    Return the results, and the position of the batch axis in each of them.
    """
    name = axis.name if program.uses_axis(axis.name) else None
    if name is None and all(one is None for one in axes):
        return bind(program, operands), [None] * len(program.results)
    batch, placed = program.batched(axis.size, tuple(axes), name)
    return bind(batch, operands), placed


def _lowered(context: Any, *operands: Any, program: Program) -> Any:
    plain = {
        name: [along(aval, frozenset()) for aval in getattr(context, name)]
        for name in ("avals_in", "avals_out")
    }
    inner = context.replace(**plain)
    results = _lower(inner, *operands, program=program)
    if inner.tokens_out is not None:  # tokens of ordered effects
        context.set_tokens_out(inner.tokens_out)
    return results


_lower = mlir.lower_fun(lambda *operands, program: program.run(*operands), multiple_results=True)


program_p.def_impl(_evaluated)
program_p.def_effectful_abstract_eval(_abstract)
ad.primitive_jvps[program_p] = _linearized
ad.primitive_transposes[program_p] = _transposed
batching.fancy_primitive_batchers[program_p] = _batched
mlir.register_lowering(program_p, _lowered)
