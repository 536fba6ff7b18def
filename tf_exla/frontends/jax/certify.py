"""Compile a program within its limit, however XLA compiles the plan.

XLA orders a program and assigns its buffers itself, so a projection alone guarantees nothing. The
compiled program is measured: `memory_analysis()` reports the bytes of buffers, `outside.py` bounds
what kernels allocate in addition. If the sum exceeds the limit, the program is planned again for
less.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from tf_exla.errors import MemoryLimitError, PeakPart
from tf_exla.frontends.jax.compat import compiler_options
from tf_exla.frontends.jax.device import on_gpu
from tf_exla.frontends.jax.outside import libraries, outside_bytes
from tf_exla.frontends.jax.planning import Settings
from tf_exla.frontends.jax.restore import restore
from tf_exla.pipeline.plan import Plan

X = Any  # an array, or an aval

TRIES = 3
RUNTIME = 1 << 20
"""Bytes of a call in addition to all arrays: handles, small allocations of threads."""


@dataclass(frozen=True)
class Certificate:
    """The peak of a call in bytes; `outside`: what kernels allocate outside of XLA's buffers."""

    arguments: int
    results: int
    temporary: int
    outside: int

    @property
    def peak(self) -> int:
        return self.arguments + sum(one.bytes for one in self.parts)

    @property
    def parts(self) -> tuple[PeakPart, ...]:
        """The parts of the peak other than the arguments."""
        return (
            PeakPart("results", self.results),
            PeakPart("what XLA holds in between", self.temporary),
            PeakPart("operands that kernels pack", self.outside),
            PeakPart("runtime", RUNTIME),
        )


@dataclass(frozen=True)
class Certified:
    """A compiled program and its certificate. `plan`: None for the original program.

    `compiled`: the `jax.stages.Compiled`, called with the operands, then the `constants`.
    """

    compiled: Any
    constants: Sequence[X]
    certificate: Certificate
    plan: Plan | None

    def run(self, *operands: X) -> list[X]:
        """Return the results of a call."""
        made: list[X] = self.compiled(*operands, *self.constants)
        return made


class Plannable(Protocol):
    """A program: a jaxpr, and its plans."""

    @property
    def jaxpr(self) -> Any: ...
    @property
    def settings(self) -> Settings: ...
    @property
    def constants(self) -> Sequence[X]: ...
    def plan_within(self, limit: int) -> Plan: ...


def certify(program: Plannable, donated: frozenset[int] = frozenset()) -> Certified:
    """Compile a program: unchanged if that holds the limit, else by a plan.

    `donated`: operands whose buffers a call may reuse. Raises `MemoryLimitError` if no plan holds
    the limit.
    """
    return _Search(program, donated).found()


class _Search:
    def __init__(self, program: Plannable, donated: frozenset[int]) -> None:
        self.program = program
        self.donated = donated
        self.limit = program.settings.limit

    def found(self) -> Certified:
        if self._holds(self._original):
            return self._original
        budget = self.limit
        for attempt in range(TRIES):
            try:
                plan = self.program.plan_within(budget)
            except MemoryLimitError:
                break
            made = self._planned(plan)
            if self._holds(made):
                return made
            budget = self._tighter(plan, made, 4**attempt)
            if budget <= plan.resident:
                break
        return self._smallest()

    def _tighter(self, plan: Plan, made: Certified, times: int) -> int:
        """Return the limit for the next plan: this plan's projected peak minus XLA's excess.

        The excess may be constant, or due to another chunk. So later tries subtract more.
        """
        return plan.projected_peak - times * (made.certificate.peak - self.limit)

    def _smallest(self) -> Certified:
        """Compile the smallest plan. Raises `MemoryLimitError` if even that exceeds the limit."""
        try:
            plan = self.program.plan_within(1)
        except MemoryLimitError as error:
            least = error
            plan = self.program.plan_within(error.smallest_limit)
        made = self._planned(plan)
        if self._holds(made):
            return made
        original = self._original.certificate.peak
        raise MemoryLimitError(
            least.function,
            limit=self.limit,
            resident=least.resident,
            projected_peak=original,
            smallest_limit=min(original, made.certificate.peak),
            blocker=least.blocker,
            residents=least.residents,
            parts=made.certificate.parts,
        )

    def _holds(self, made: Certified) -> bool:
        return made.certificate.peak <= self.limit

    @cached_property
    def _original(self) -> Certified:
        jaxpr = self.program.jaxpr
        count = len(jaxpr.in_avals)

        def function(*operands: X) -> list[X]:
            closed = ClosedJaxpr(jaxpr.jaxpr, list(operands[count:]))
            made: list[X] = jaxpr_as_fun(closed)(*operands[:count])
            return made

        return self._compiled(function, jaxpr.consts, None)

    def _planned(self, plan: Plan) -> Certified:
        return self._compiled(restore(plan.graph), self.program.constants, plan)

    def _compiled(
        self, function: Callable[..., list[X]], constants: Sequence[X], plan: Plan | None
    ) -> Certified:
        kinds = self.program.jaxpr.out_avals

        def made(*operands: X) -> list[X]:
            results = function(*operands)
            return [_as(kind, one) for kind, one in zip(kinds, results, strict=True)]

        given = [jnp.asarray(one) for one in constants]
        specs = [spec(aval) for aval in (*self.program.jaxpr.in_avals, *given)]
        lowered = jax.jit(made, donate_argnums=sorted(self.donated)).lower(*specs)
        compiled = lowered.compile(compiler_options=dict(compiler_options()))
        return Certified(compiled, given, _certificate(compiled, specs), plan)


def spec(aval: X) -> jax.ShapeDtypeStruct:
    """Return the shape, dtype and weak type of an array, for tracing."""
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=getattr(aval, "weak_type", False))


def _as(aval: X, value: X) -> X:
    """Return a value with the weak type of the original result."""
    if not aval.weak_type:
        return value
    return lax.convert_element_type_p.bind(
        value, new_dtype=aval.dtype, weak_type=True, sharding=None
    )


def _certificate(compiled: Any, specs: Sequence[X]) -> Certificate:
    found, module = compiled.memory_analysis(), compiled.as_text()
    arguments = sum(one.size * one.dtype.itemsize for one in specs)  # unused ones, too
    return Certificate(
        max(arguments, found.argument_size_in_bytes),
        found.output_size_in_bytes - found.alias_size_in_bytes,
        found.temp_size_in_bytes,
        0 if on_gpu() else _outside(module),
    )


def _outside(module: str) -> int:
    """Return what kernels of a CPU allocate outside of XLA's buffers."""
    for name in sorted(libraries(module)):
        warnings.warn(
            f"XLA {jax.__version__} hands computations to {name}: what it allocates is not counted,"
            " and a call may exceed what is certified",
            stacklevel=2,
        )
    return outside_bytes(module)
