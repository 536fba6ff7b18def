"""Programs: functions of flat arrays that are planned as a whole, and their derivatives.

To JAX a program is one primitive, so all transformations can be applied to it. A derived program
(linearized, transposed, batched) is made from the original function and planned within the same
limit. So loops of a plan are never differentiated. A gradient recomputes, in chunks, the
intermediate results of the original function that it needs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal, jaxpr_as_fun

from tf_exla.errors import MemoryLimitError
from tf_exla.frontends.jax.capture import capture_jaxpr
from tf_exla.frontends.jax.certify import Certified, certify
from tf_exla.frontends.jax.jaxprs import spec
from tf_exla.frontends.jax.planning import Settings, make_plan
from tf_exla.frontends.jax.restore import restore
from tf_exla.ir.graph import Graph
from tf_exla.model.settings import SETTINGS
from tf_exla.pipeline.plan import Plan

X = Any  # an array, a tracer, or an aval
Mask = tuple[bool, ...]


class Program:
    """A function of flat arrays: a closed jaxpr, and the settings of its plan.

    `of`, `active`: if this program is a linearization, the program that it linearizes, and with
    respect to which operands. Its operands are those of `of`, then the tangents of the active ones.
    """

    def __init__(
        self, jaxpr: Any, settings: Settings, of: Program | None = None, active: Mask = ()
    ) -> None:
        self.jaxpr = jaxpr
        self.settings = settings
        self.of = of
        self.active = active
        self.function: Callable[..., list[X]] = jaxpr_as_fun(jaxpr)
        self._derived: dict[Any, Program] = {}
        self._certified: dict[frozenset[int], Certified] = {}
        self._lock = threading.RLock()

    @property
    def operands(self) -> list[X]:
        return list(self.jaxpr.in_avals)

    @property
    def results(self) -> list[X]:
        return list(self.jaxpr.out_avals)

    @cached_property
    def _captured(self) -> tuple[Graph, tuple[X, ...]]:
        return capture_jaxpr(self.jaxpr)

    @property
    def constants(self) -> tuple[X, ...]:
        """The inputs of the graph after the operands."""
        return self._captured[1]

    @cached_property
    def plan(self) -> Plan:
        """The plan for a program that JAX compiles as a part of another one, without a certificate.

        Its working set leaves a margin for XLA (`SETTINGS.xla_margin`). If no plan is that small,
        it is the smallest plan. Raises `MemoryLimitError` if no plan is within the limit.
        """
        plan = self.plan_within(self.settings.limit)
        room = (self.settings.limit - plan.resident) // SETTINGS.xla_margin
        if plan.working_set <= room:
            return plan
        try:
            return self.plan_within(plan.resident + room)
        except MemoryLimitError as error:
            return self.plan_within(error.smallest_limit)

    def plan_within(self, limit: int) -> Plan:
        """Return the plan within another limit."""
        return make_plan(self._captured[0], self.settings.within(limit))

    def run(self, *operands: X) -> list[X]:
        """Return the results, computed by the plan, in a function that JAX is tracing."""
        return restore(self.plan.graph)(*operands, *self.constants)

    def certified(self, donated: frozenset[int] = frozenset()) -> Certified:
        """Return the program compiled within the limit, with its certificate.

        `donated`: positions of operands whose buffers a call may reuse.
        """
        with self._lock:
            if donated not in self._certified:
                self._certified[donated] = certify(self, donated)
            return self._certified[donated]

    # Derived programs.

    def linear(self, active: Mask) -> Program:
        """Return the linearization with respect to the `active` operands.

        Its operands are all operands, then the tangents of the active ones. Its results are the
        tangents of all results that have one.
        """

        def tangents(*operands: X) -> list[X]:
            primals, given = operands[: len(active)], operands[len(active) :]
            function, at = _restricted(self.function, primals, active)
            return _numbers(jax.jvp(function, at, list(given))[1])

        avals = [*self.operands, *_chosen(self.operands, active)]
        return self._derive(("linear", active), tangents, avals, of=self, active=active)

    def transposed(self, unknown: Mask, given: Mask) -> Program:
        """Return the transpose of a function that is linear in the `unknown` operands.

        Its operands are the known operands, then the cotangents of the `given` results. The
        cotangents of all other results are zero. Its results are the cotangents of the unknown
        operands.
        """
        known = tuple(not one for one in unknown)
        numbers = [aval for aval in self.results if has_tangent(aval)]
        given = tuple(on for on, aval in zip(given, self.results, strict=True) if has_tangent(aval))
        tangents = (False,) * len(self.active) + (True,) * sum(self.active)
        whole = self.of is not None and unknown == tangents

        def pulled(*operands: X) -> Sequence[X]:
            fixed, cotangents = operands[: sum(known)], iter(operands[sum(known) :])
            if whole:  # transpose a linearization: the gradient of the original function
                assert self.of is not None
                function, at = _restricted(self.of.function, fixed, self.active)
                results = self.of.results
            else:
                zeros = (jnp.zeros(a.shape, a.dtype) for a in _chosen(self.operands, unknown))
                function, at = _restricted(
                    self.function, _merged(unknown, zeros, iter(fixed)), unknown
                )
                results = self.results
            made = iter([next(cotangents) if one else None for one in given])
            full = [_cotangent(aval, next(made) if has_tangent(aval) else None) for aval in results]
            made_of: Sequence[X] = jax.vjp(function, *at)[1](full)
            return made_of

        avals = [*_chosen(self.operands, known), *_chosen(numbers, given)]
        return self._derive(("transposed", unknown, given), pulled, avals)

    def batched(
        self, size: int, axes: tuple[int | None, ...], name: Any = None
    ) -> tuple[Program, list[int | None]]:
        """Return the function over a batch of `size`, and the axis of the batch in each result.

        That is None for a result that does not depend on the batch. `axes`: the axis of the batch
        in each operand. `name`: the name of the axis, if the function refers to it.
        """
        placed = self._depending(axes, name)
        function = jax.vmap(
            self.function, in_axes=axes, out_axes=placed, axis_size=size, axis_name=name
        )
        avals = [
            aval if axis is None else _with_axis(aval, axis, size)
            for aval, axis in zip(self.operands, axes, strict=True)
        ]
        return self._derive(("batched", size, axes, name), function, avals), placed

    def uses_axis(self, name: Any) -> bool:
        """Return whether the function refers to an axis of an enclosing `vmap` by name."""
        return any(getattr(one, "name", None) == name for one in self.jaxpr.effects)

    def _depending(self, axes: tuple[int | None, ...], name: Any) -> list[int | None]:
        """Return 0 for each result that depends on a batch of operands, None for others."""
        jaxpr = self.jaxpr.jaxpr
        found = {one for one, axis in zip(jaxpr.invars, axes, strict=True) if axis is not None}
        for eqn in jaxpr.eqns:
            read = [one for one in eqn.invars if not isinstance(one, Literal)]
            if any(one in found for one in read) or (name is not None and eqn.effects):
                found.update(eqn.outvars)
        return [
            None if isinstance(one, Literal) or one not in found else 0 for one in jaxpr.outvars
        ]

    def _derive(
        self, key: Any, function: Callable[..., Any], avals: Sequence[X], **more: Any
    ) -> Program:
        """Return the program of a function derived from this one; memoize it by `key`."""
        with self._lock:
            if key not in self._derived:
                jaxpr = jax.make_jaxpr(function)(*map(spec, avals))
                self._derived[key] = Program(jaxpr, self.settings.derived(key[0]), **more)
            return self._derived[key]


def _restricted(
    function: Callable[..., list[X]], operands: Sequence[X], active: Mask
) -> tuple[Callable[..., list[X]], list[X]]:
    """Return a function of the `active` operands only, and these operands."""
    fixed = [one for one, on in zip(operands, active, strict=True) if not on]

    def made(*chosen: X) -> list[X]:
        return function(*_merged(active, iter(chosen), iter(fixed)))

    return made, _chosen(operands, active)


def _merged(active: Mask, chosen: Any, others: Any) -> list[X]:
    return [next(chosen) if on else next(others) for on in active]


def _chosen(values: Sequence[X], mask: Mask) -> list[X]:
    return [value for value, on in zip(values, mask, strict=True) if on]


def has_tangent(aval: X) -> bool:
    """Return whether values of this type have derivatives: real and complex numbers do."""
    return bool(jnp.issubdtype(aval.dtype, jnp.inexact))


def _numbers(tangents: Sequence[X]) -> list[X]:
    """Return the tangents except those of integers (float0)."""
    return [one for one in tangents if one.dtype != jax.dtypes.float0]


def _cotangent(aval: X, value: X | None) -> X:
    if not has_tangent(aval):
        return np.zeros(aval.shape, jax.dtypes.float0)
    return jnp.zeros(aval.shape, aval.dtype) if value is None else value


def _with_axis(aval: X, axis: int, size: int) -> X:
    shape = [*aval.shape]
    shape.insert(axis, size)
    return jax.ShapeDtypeStruct(tuple(shape), aval.dtype, weak_type=aval.weak_type)
