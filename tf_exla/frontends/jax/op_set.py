"""The op set of JAX: ops of the vocabulary, and `lax` primitives that stay as they are.

XLA compiles a planned program as one module and assigns its buffers: see `model/xla_module.py`.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from functools import cache

from tf_exla.frontends.jax.device import kind_of_gpu
from tf_exla.frontends.jax.held import held
from tf_exla.frontends.jax.primitives.records import RECORDS
from tf_exla.frontends.jax.scratch import JAX_GPU_SCRATCH, SCRATCH, packed
from tf_exla.ir.axis_rule import AxisRule
from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.ir.rates import Rates
from tf_exla.model.gpu_rates import in_module
from tf_exla.model.module_ops import ModuleOps
from tf_exla.model.rates import cpu_kind, load
from tf_exla.model.xla_gpu import Bound, workspace
from tf_exla.vocabulary.meaning import Meaning

_UPDATES = frozenset(
    {
        "lax.dynamic_update_slice", "lax.scatter", "lax.scatter-add", "matrix_set_diag",
        "scatter_add", "scatter_update", "update_rows",
    }
)  # fmt: skip
"""Ops that write a part of their first operand."""


@cache
def _rates() -> Rates:
    """Return the rates of XLA's code for a CPU.

    XLA runs the work on small arrays on one core. So the costs of starting work are set higher,
    which makes plans prefer chunks that are large enough for all cores: forces between 1,501 bodies
    take 21 instead of 49 ms.
    """
    return dataclasses.replace(
        load(cpu_kind()), launch=7e-6, iteration=4e-5, variable=0.0, convolution=0.0,
        cached_byte=1e-11, fork=0.0,
    )  # fmt: skip


class JaxOps(ModuleOps):
    """The ops of JAX on a CPU."""

    scratch_of: Mapping[str, Bound] = SCRATCH

    def meaning(self, op: str) -> Meaning:
        """Return the record of an op, by its name in graphs."""
        return RECORDS.get(op) or super().meaning(op)

    def rates(self) -> Rates:
        """Return the measured rates of the processor if there are any, else usual ones."""
        return _rates()

    def of_product(self, node: Node, rule: AxisRule) -> int:
        """Return the bytes that a product needs in addition to its result."""
        return packed(node, rule)

    def forwards(self, node: Node) -> tuple[int, ...]:
        """Return positions of the inputs whose buffer the first output may take over."""
        return (0,) if node.op in _UPDATES else ()

    def held(self, graph: Graph) -> frozenset[Tensor]:
        """Return the tensors that are kept in buffers although XLA could fuse them."""
        return held(graph)


@cache
def _gpu_rates() -> Rates:
    return in_module(load(kind_of_gpu()))


class GpuOps(JaxOps):
    """The ops of JAX on a GPU."""

    longest_fused = sys.maxsize
    scratch_of = JAX_GPU_SCRATCH

    def rates(self) -> Rates:
        """Return the rates of the GPU: measured if there are any, else the usual ones."""
        return _gpu_rates()

    def of_product(self, node: Node, rule: AxisRule) -> int:
        """Return the bytes that a product needs in addition to its result."""
        return workspace(node, rule)
