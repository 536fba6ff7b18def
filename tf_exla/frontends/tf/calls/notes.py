"""Notes of a report that concern how TensorFlow runs a plan."""

from __future__ import annotations

from collections.abc import Iterator

from tf_exla.byte_size import format_bytes
from tf_exla.frontends.tf.calls.program import Program
from tf_exla.frontends.tf.device import device
from tf_exla.frontends.tf.op_set import OPS
from tf_exla.ir.graph import Graph, Loop
from tf_exla.ir.traverse import walk
from tf_exla.pipeline.plan import Plan


def notes_of(program: Program, largest: Plan, jit_compile: bool | None) -> Iterator[str]:
    """Yield the notes of a program's report, as sentences for the user.

    `largest`: the plan that is reported, or the module that XLA compiled from it. `jit_compile`:
    that of the `tf.function`.
    """
    if jit_compile:
        yield _JIT
    if _rounds(program.graph):
        yield _TF32
    plans = program.plans
    if all(largest is not plan for plan in plans):
        yield _WHOLE
    elif max(plan.projected_peak for plan in plans) > largest.projected_peak:
        yield _PARTS
    if device() == "GPU" and not program.settings.options.whole and _has_loops(largest.graph):
        yield _COMPILE
    if program.head is not None and program.head.waits_for_call:
        yield _BEFORE
    if kept := program.planner.constant_parts.inputs(largest.graph):
        held = format_bytes(sum(tensor.nbytes for tensor in kept))
        yield f"results of constants are computed once and kept: {held} of the residents"


def _rounds(graph: Graph) -> bool:
    return OPS.rounds_factors("float32") and any(
        OPS.work(node) == "product" and node.outputs[0].dtype == "float32" for node in walk(graph)
    )


def _has_loops(graph: Graph) -> bool:
    return any(isinstance(node, Loop) for node in walk(graph))


_JIT = (
    "jit_compile=True of the tf.function now holds for the bodies of loops, or on a GPU for the"
    " whole plan"
)
_COMPILE = (
    "with jit_compile=True, XLA compiles the loops, which then run 1.3 to 13 times as fast; that"
    " takes some seconds, and pays in programs that are called hundreds of times"
)
_TF32 = (
    "products of float32 are rounded to TF32 where cuBLAS has such a kernel for their shapes: those"
    " of a chunk may be where the whole one is not, and the other way round; "
    "tf.config.experimental.enable_tensor_float_32_execution(False) keeps all digits"
)
_WHOLE = "XLA compiled the plan with its loops: the peak is that of its buffers"
_BEFORE = (
    "a loop of the function has sizes that only a call tells: after a call, the report includes it"
)
_PARTS = (
    "a call runs several plans, since sizes appear in it: the report is of the one whose original "
    "needs most, and the projected peak that of another"
)
