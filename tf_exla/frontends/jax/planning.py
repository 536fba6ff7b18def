"""Planning of captured programs: the passes, run with JAX's op set."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

from tf_exla.frontends.jax.device import GPU_BYTES, allocator, on_gpu
from tf_exla.frontends.jax.op_set import GpuOps, JaxOps
from tf_exla.ir.graph import Graph
from tf_exla.model.options import Options
from tf_exla.pipeline.optimize import optimize_graph
from tf_exla.pipeline.plan import Plan
from tf_exla.rewrite.families import switches

_CPU_OPS, _GPU_OPS = JaxOps(), GpuOps()
_IN_CACHE = 2
"""The sizes of chunks and bodies are the default ones divided by this: for a cache of 32 MB, 8 MB
for a chunk and 12 MB for a body.

XLA keeps a result in addition to its operands, and other programs share the cache. Compared with
chunks of 16 MB, conjugate gradients took 0.87 of the processor time, and half of the time if other
programs ran as well; attention and gradients of kernels took 0.95. With chunks of 4 MB, the
products of sparse GPs took a third longer (two cores, JAX 0.6.2).
"""


def options(rewrites: Mapping[str, bool] | bool | None = None) -> Options:
    """Return options for a program that XLA compiles as a whole and runs one chunk at a time."""
    usual = Options()
    return Options(
        jit_compile=False,
        cores=1,
        rewrites=switches(rewrites),
        chunk_bytes=usual.chunk_bytes // _IN_CACHE,
        body_bytes=usual.body_bytes // _IN_CACHE,
    )


def gpu_options(options: Options) -> Options:
    """Return the options adapted to a GPU."""
    return dataclasses.replace(
        options,
        chunk_bytes=GPU_BYTES,
        body_bytes=4 * GPU_BYTES,
        cached=False,
        allocator=allocator(),
    )


def op_set() -> JaxOps:
    """Return the op set of the device that programs run on by default."""
    return _GPU_OPS if on_gpu() else _CPU_OPS


@dataclass(frozen=True)
class Settings:
    """The settings of a program: `name` for reports and errors, `limit` in bytes."""

    name: str
    limit: int
    options: Options = field(default_factory=options)

    def within(self, limit: int) -> Settings:
        """Return the same settings for another limit."""
        return dataclasses.replace(self, limit=limit)

    def derived(self, how: str) -> Settings:
        """Return the settings of a derived program."""
        return dataclasses.replace(self, name=f"{self.name}, {how}")


def make_plan(graph: Graph, settings: Settings) -> Plan:
    """Return the plan of a program. Raises `MemoryLimitError` if no plan is within the limit."""
    options = gpu_options(settings.options) if on_gpu() else settings.options
    return optimize_graph(
        graph, op_set(), limit=settings.limit, options=options, function=settings.name
    )
