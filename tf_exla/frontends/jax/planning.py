"""Plan a captured program: hand it to the passes, with JAX's ops."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

from tf_exla.frontends.jax.op_set import JaxOps
from tf_exla.ir.graph import Graph
from tf_exla.model.options import Options
from tf_exla.pipeline.optimize import optimize_graph
from tf_exla.pipeline.plan import Plan
from tf_exla.rewrite.families import switches

OPS = JaxOps()
_IN_CACHE = 2
"""A chunk takes so many times less of the cache than usual: 8 MB of 32, and a body 12 MB.

XLA writes a result beside its operands, and others share the cache. Conjugate gradients took 0.87
of the processor time of chunks of 16 MB, and half of the time where other programs ran beside them;
attention and gradients of kernels 0.95. Chunks of 4 MB took a third more for the products of sparse
GPs (two cores, JAX 0.6.2).
"""


def options(rewrites: Mapping[str, bool] | bool | None = None) -> Options:
    """Return the passes' options: XLA compiles the whole, and runs one chunk after the other."""
    usual = Options()
    return Options(
        jit_compile=False,
        cores=1,
        rewrites=switches(rewrites),
        chunk_bytes=usual.chunk_bytes // _IN_CACHE,
        body_bytes=usual.body_bytes // _IN_CACHE,
    )


@dataclass(frozen=True)
class Settings:
    """What is asked of a program: `name` for reports and errors, `limit` in bytes."""

    name: str
    limit: int
    options: Options = field(default_factory=options)

    def within(self, limit: int) -> Settings:
        """Return the same settings for another limit."""
        return dataclasses.replace(self, limit=limit)

    def derived(self, how: str) -> Settings:
        """Return the settings of what is derived from a program."""
        return dataclasses.replace(self, name=f"{self.name}, {how}")


def make_plan(graph: Graph, settings: Settings) -> Plan:
    """Return the plan of a program. Raises `MemoryLimitError` where no plan holds the limit."""
    return optimize_graph(
        graph, OPS, limit=settings.limit, options=settings.options, function=settings.name
    )
