"""Reports on programs: the plan, and the peak of what XLA compiled."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from tf_exla.byte_size import format_bytes
from tf_exla.frontends.jax.calls.program import Program
from tf_exla.frontends.jax.certify import RUNTIME, Certified
from tf_exla.frontends.jax.device import on_gpu
from tf_exla.frontends.jax.planning import op_set
from tf_exla.pipeline.plan import Plan
from tf_exla.report.make import make_report
from tf_exla.report.report import MemoryReport

_ANY = 1 << 60


def report(program: Program) -> MemoryReport:
    """Return the report of a program, which is compiled but not run."""
    certified = program.certified()
    plan = certified.plan or _unchanged(program)
    plan = dataclasses.replace(plan, limit=program.settings.limit)
    return make_report(
        plan,
        op_set(),
        function=program.settings.name,
        device="GPU" if on_gpu() else "CPU",
        notes=tuple(_notes(certified)),
    )


def _unchanged(program: Program) -> Plan:
    """Return a plan that is the original program."""
    plan = program.plan_within(_ANY)
    return dataclasses.replace(
        plan,
        graph=plan.original,
        working_set=plan.working_set_before,
        projection=plan.projection_before,
        refusals=(),
        applications=(),
        steps=(),
    )


def _notes(certified: Certified) -> Iterator[str]:
    one = certified.certificate
    if certified.plan is None:
        yield "XLA is within the limit without a plan: the function runs as it is"
    yield (
        f"Certified peak of what XLA compiled: {format_bytes(one.peak)}, of which"
        f" {format_bytes(one.arguments)} arguments, {format_bytes(one.results)} results,"
        f" {format_bytes(one.temporary)} temporary, {format_bytes(one.outside)} {one.kind},"
        f" {format_bytes(RUNTIME)} runtime"
    )
