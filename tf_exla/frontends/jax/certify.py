"""Compilation of programs within a limit that is certified for the compiled program.

XLA orders a program and assigns its buffers itself, so a projection alone guarantees nothing. So
the compiled program is measured: `memory_analysis()` reports the bytes of buffers. On a CPU,
`outside.py` bounds what kernels allocate in addition; on a GPU, what the allocator takes for whole
blocks is added. If the sum exceeds the limit, the program is planned again for less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from tf_exla.caller import warn
from tf_exla.errors import MemoryLimitError, PeakPart
from tf_exla.frontends.jax.compat import compiler_options
from tf_exla.frontends.jax.device import allocator, on_gpu
from tf_exla.frontends.jax.jaxprs import spec
from tf_exla.frontends.jax.outside import libraries, outside_bytes
from tf_exla.frontends.jax.planning import Settings
from tf_exla.frontends.jax.primitives.mapping import largest_array
from tf_exla.frontends.jax.restore import restore
from tf_exla.ir.graph import Graph, Tensor
from tf_exla.ir.traverse import walk
from tf_exla.pipeline.plan import Plan
from tf_exla.pipeline.tightening import TRIES, Try, between, next_room

X = Any  # an array, or an aval

SPARE = 1.25
"""Plans larger than the smallest one are tried only if the limit leaves room for this multiple of
what the smallest one needs, since each try is a compilation."""
OTHERWISE = 2
"""The original program is compiled once more, in another order, only if it needs at most this many
times the limit."""
RUNTIME = 1 << 20
"""Bytes of a call in addition to all arrays: handles, small allocations of threads."""
PACKED, BLOCKS = "operands that kernels pack", "unused parts of the allocator's blocks"


@dataclass(frozen=True)
class Certificate:
    """The peak of a call, in bytes.

    `outside`: bytes allocated outside of XLA's buffers; `kind`: what they are, in words.
    """

    arguments: int
    results: int
    temporary: int
    outside: int
    kind: str = PACKED

    @property
    def peak(self) -> int:
        return self.arguments + sum(one.bytes for one in self.parts)

    @property
    def parts(self) -> tuple[PeakPart, ...]:
        """The parts of the peak other than the arguments."""
        return (
            PeakPart("results", self.results),
            PeakPart("what XLA holds in between", self.temporary),
            PeakPart(self.kind, self.outside),
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
    """Return a program compiled within its limit: unchanged if that is possible, else by a plan.

    `donated`: positions of operands whose buffers a call may reuse. Raises `MemoryLimitError` if no
    plan is within the limit.
    """
    return _Search(program, donated).found()


class _Search:
    def __init__(self, program: Plannable, donated: frozenset[int]) -> None:
        self.program = program
        self.donated = donated
        self.limit = program.settings.limit
        self._plans: dict[int, Plan | None] = {}
        self._refused: MemoryLimitError | None = None

    def found(self) -> Certified:
        if self._may_hold and self._holds(self._original):
            return self._original
        budget = self.limit
        tried: Try | None = None
        for _ in range(TRIES):
            plan = self._plan(budget)
            if plan is None:
                break
            made = self._planned(plan)
            if self._holds(made):
                return made
            before, tried = tried, self._try(plan, made)
            budget = plan.resident + next_room(self.limit - plan.resident, before, tried)
            if budget <= plan.resident:
                break
        return self._smallest(tried)

    @cached_property
    def _may_hold(self) -> bool:
        """Whether to compile the original program, which XLA may fuse better than is projected.

        On a CPU this is always tried. On a GPU the compiler runs kernels to find the fastest, so
        each array of the program must be within the limit, and its projection as well. The
        projection is ignored if capture made arrays larger: a scan that carries nothing is captured
        as its body on all rows.
        """
        if not on_gpu():
            return True
        largest = largest_array(self.program.jaxpr)
        if largest > self.limit:
            return False
        plan = self._plan(self.limit)
        if plan is None:
            return True
        captured = max((one.nbytes for one in _tensors(plan.original)), default=0)
        return captured > largest or plan.projected_peak_before <= self.limit

    def _plan(self, limit: int) -> Plan | None:
        """Return the plan within a limit, memoized; None if no plan holds it."""
        if limit not in self._plans:
            try:
                self._plans[limit] = self.program.plan_within(limit)
            except MemoryLimitError as error:
                self._plans[limit], self._refused = None, error.with_traceback(None)
        return self._plans[limit]

    def _smallest(self, failed: Try | None) -> Certified:
        """Compile the smallest plan. Raises `MemoryLimitError` if even that exceeds the limit.

        `failed`: the last try.
        """
        plan = self._plan(1) if self._refused is None else None
        if plan is None:
            assert self._refused is not None
            plan = self.program.plan_within(self._refused.smallest_limit)
        made = self._planned(plan)
        if self._holds(made):
            return self._larger(plan, made, failed) or made
        smallest, original = made.certificate.peak, plan.projected_peak_before
        if self._may_hold:
            original = self._original.certificate.peak
            smallest = min(smallest, original)
        least = self._refused
        raise MemoryLimitError(
            self.program.settings.name,
            limit=self.limit,
            resident=plan.resident,
            projected_peak=original,
            smallest_limit=smallest,
            blocker=least.blocker if least else None,
            residents=least.residents if least else (),
            parts=made.certificate.parts,
            slowdown=least.slowdown if least else 1.0,
        )

    def _larger(self, least: Plan, made: Certified, failed: Try | None) -> Certified | None:
        """Return a plan between the smallest one, which is within the limit, and one that is not.

        `failed`: the last try. None if all plans were projected to exceed the limit; XLA then needs
        less than is projected for the smallest one. In this case a plan that is larger in that
        proportion is tried first. Return None if no larger plan is within the limit.
        """
        room = self.limit - least.resident
        now = self._try(least, made)
        if SPARE * now.needed > room:
            return None
        first = failed is None
        target = between(room, now, failed) if failed else next_room(room, None, now)
        while True:
            plan = self._plan(least.resident + target)
            if plan is None or plan.projected_peak <= least.projected_peak:
                return None
            found = self._planned(plan)
            if self._holds(found):
                return found
            if not first:
                return None
            first = False
            target = between(room, now, self._try(plan, found))

    @staticmethod
    def _try(plan: Plan, made: Certified) -> Try:
        return Try(plan.working_set, made.certificate.peak - plan.resident)

    def _holds(self, made: Certified) -> bool:
        return made.certificate.peak <= self.limit

    @cached_property
    def _original(self) -> Certified:
        """The unchanged program, compiled to run in sequence or as JAX does by default.

        If the first exceeds the limit, it is the one that needs less. Either may be: a program with
        a choice between matrices took 126 MB in sequence, and 84 MB by default.
        """
        made = self._unchanged(concurrent=False)
        if self._holds(made) or made.certificate.peak > OTHERWISE * self.limit or on_gpu():
            return made
        other = self._unchanged(concurrent=True)
        if other.certificate.outside:  # the bound is for one kernel at a time
            return made
        return min(made, other, key=lambda one: one.certificate.peak)

    def _unchanged(self, concurrent: bool) -> Certified:
        jaxpr = self.program.jaxpr
        count = len(jaxpr.in_avals)

        def function(*operands: X) -> list[X]:
            closed = ClosedJaxpr(jaxpr.jaxpr, list(operands[count:]))
            made: list[X] = jaxpr_as_fun(closed)(*operands[:count])
            return made

        return self._compiled(function, jaxpr.consts, None, concurrent)

    def _planned(self, plan: Plan) -> Certified:
        return self._compiled(restore(plan.graph), self.program.constants, plan)

    def _compiled(
        self,
        function: Callable[..., list[X]],
        constants: Sequence[X],
        plan: Plan | None,
        concurrent: bool = False,
    ) -> Certified:
        kinds = self.program.jaxpr.out_avals

        def made(*operands: X) -> list[X]:
            results = function(*operands)
            return [_as(kind, one) for kind, one in zip(kinds, results, strict=True)]

        given = [jnp.asarray(one) for one in constants]
        specs = [spec(aval) for aval in (*self.program.jaxpr.in_avals, *given)]
        lowered = jax.jit(made, donate_argnums=sorted(self.donated)).lower(*specs)
        compiled = lowered.compile(compiler_options=compiler_options(concurrent))
        return Certified(compiled, given, _certificate(compiled, specs, kinds), plan)


def _as(aval: X, value: X) -> X:
    """Return a value with the weak type of the original result."""
    if not aval.weak_type:
        return value
    return lax.convert_element_type_p.bind(
        value, new_dtype=aval.dtype, weak_type=True, sharding=None
    )


def _tensors(graph: Graph) -> Iterator[Tensor]:
    return (one for node in walk(graph) for one in node.outputs if one.is_static)


def _certificate(compiled: Any, specs: Sequence[X], results: Sequence[X]) -> Certificate:
    found = compiled.memory_analysis()
    made = found.output_size_in_bytes - found.alias_size_in_bytes
    return Certificate(
        max(sum(map(_bytes, specs)), found.argument_size_in_bytes),  # include unused arguments
        made,
        found.temp_size_in_bytes,
        _unused(found.temp_size_in_bytes, made, results) if on_gpu() else _outside(compiled),
        BLOCKS if on_gpu() else PACKED,
    )


def _bytes(aval: X) -> int:
    return int(aval.size * aval.dtype.itemsize)


def _unused(temporary: int, made: int, results: Sequence[X]) -> int:
    """Return the bytes that the allocator may take beyond those that are requested.

    XLA requests one allocation for each result, and one for all temporary buffers (`temporary`
    bytes). `made`: bytes of the results that do not reuse the buffers of arguments.
    """
    taken = allocator().taken
    rest = sum(taken(_bytes(one)) - _bytes(one) for one in results)
    return taken(temporary) - temporary + min(rest, made)  # at most twice what is asked for


def _outside(compiled: Any) -> int:
    """Return a bound of the bytes that kernels on a CPU allocate outside of XLA's buffers.

    Warn about libraries whose allocations are not known.
    """
    module = compiled.as_text()
    for name in sorted(libraries(module)):
        warn(
            f"XLA {jax.__version__} hands computations to {name}: what it allocates is not counted,"
            " and a call may exceed what is certified"
        )
    return outside_bytes(module)
