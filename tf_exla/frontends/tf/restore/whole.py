"""Compile a planned program as XLA modules, loops included.

On a GPU, TensorFlow launches each op of an iteration from the host. In a module, XLA fuses the ops
of an iteration and runs the loops itself. A program is one module, or several with nodes between
them that are left to TensorFlow (`late/staging.py`). XLA orders a module and assigns its buffers,
so a projection guarantees nothing. The compiled module states its buffers. If they exceed the
limit, the program is planned again for less.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.framework import ops

from tf_exla.errors import MemoryLimitError
from tf_exla.frontends.tf.device import device
from tf_exla.frontends.tf.op_set import OPS, TensorFlowOps
from tf_exla.frontends.tf.restore import Restored, restore
from tf_exla.ir.axis_rule import AxisRule
from tf_exla.ir.bounds import HANDLES
from tf_exla.ir.graph import Graph, Loop, Node, Tensor
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.rates import Rates
from tf_exla.ir.traits import EXTREMES
from tf_exla.ir.traverse import walk, walk_node
from tf_exla.late.inverting import invert
from tf_exla.late.staging import stage
from tf_exla.model.allocator import Allocator
from tf_exla.model.gpu_rates import in_module
from tf_exla.model.module_ops import ModuleOps
from tf_exla.model.options import Options
from tf_exla.model.projection import Projector
from tf_exla.model.xla_gpu import GPU_SCRATCH, workspace
from tf_exla.pipeline.plan import Plan
from tf_exla.pipeline.tightening import TRIES, Try, next_room
from tf_exla.split.regions.origins import tests_order
from tf_exla.vocabulary.rules.builders import words

ALIGNMENT = 256
"""Bytes to which TensorFlow's allocators round on a GPU."""
_STRUCTURE = frozenset(words("cond constant loop switch while xla_cluster"))
_VARIABLES = frozenset(
    words("AssignAddVariableOp AssignSubVariableOp AssignVariableOp read_variable")
)
_LIBRARIES = frozenset(words("""
    all any arange BiasAddGrad cholesky cross_entropy cumprod cumsum einsum erf erfc floor_divide
    L2Loss matrix_diag matrix_diag_part matrix_set_diag max mean min
    solve_triangular strided_slice_grad sum take top_k
"""))  # fmt: skip
"""Ops that clusters leave to TensorFlow's kernels, since XLA's code for a CPU is slower, loses NaNs
or is less exact in sums of float32. On a GPU XLA calls the same libraries and adds in pairs."""
_SLOW = frozenset(words("cholesky"))
"""Libraries' ops that XLA has no call for on a GPU: its own code has an iteration for each row."""


@dataclass(frozen=True)
class Operands:
    """What a program is called with: `arguments`, then the values of `captured` tensors."""

    arguments: Sequence[Tensor]
    captured: Sequence[Any]

    @property
    def are_known(self) -> bool:
        """Whether a module can be compiled for them before a call."""
        return all(one.is_static and one.dtype not in HANDLES for one in self.arguments) and all(
            isinstance(one, ops.EagerTensor) for one in self.captured
        )


def compile_whole(
    plan_within: Callable[[int, TensorFlowOps], Plan],
    emit: Callable[[Graph, bool], Restored],
    operands: Operands,
    limit: int,
    allocator: Allocator,
) -> Restored | None:
    """Return a planned program as modules whose buffers are within the limit.

    None if XLA must not compile the program, or if no plan was found whose modules are within the
    limit. Raises whatever XLA, a plan or its function raises.

    `plan_within`: returns the plan for a limit, made with an op set. `emit`: returns the function
    of a graph; its second argument is whether XLA compiles all of it.
    """
    # WHOLE_OPS expects XLA to fuse more. OPS is tried if XLA does not.
    for kernels in (WHOLE_OPS, OPS):
        budget = limit
        tried: Try | None = None
        for _ in range(TRIES):
            try:
                plan = plan_within(budget, kernels)
            except MemoryLimitError:
                break
            if not (operands.are_known and _keeps_choices(plan.graph)):
                return None
            made, asked = _compiled(invert(plan.graph, WHOLE_OPS), emit, operands)
            if made is None:
                return None
            needed = allocator.taken(asked)
            if plan.resident + needed <= limit:
                module = dataclasses.replace(plan, working_set=needed)
                return dataclasses.replace(made, module=module)
            now = Try(plan.working_set, needed)
            budget = plan.resident + next_room(limit - plan.resident, tried, now)
            tried = now
            if budget <= plan.resident:
                break
    return None


def in_place_of(plan: Plan, made: Restored) -> Restored:
    """Return a compiled function whose plan has the limit of `plan` and its data of the original.

    The module's own plan was made for a smaller limit, and its data are those of the original as a
    module.
    """
    module = made.module
    assert module is not None
    steps = module.steps
    if steps and plan.steps:
        first = dataclasses.replace(steps[0], seconds_before=plan.steps[0].seconds_before)
        steps = (first, *steps[1:])
    compared = dataclasses.replace(
        module,
        limit=plan.limit,
        working_set_before=plan.working_set_before,
        projection_before=plan.projection_before,
        steps=steps,
    )
    return dataclasses.replace(made, module=compared)


def module_of(options: Options, restore: Callable[[], object]) -> Plan | None:
    """Return the plan that XLA compiles, with the peak of its buffers, or None."""
    return getattr(restore(), "module", None) if options.whole else None


class WholeOps(ModuleOps, TensorFlowOps):
    """The ops of TensorFlow in a module that XLA compiles for a GPU."""

    longest_fused = sys.maxsize
    scratch_of = GPU_SCRATCH

    def rates(self) -> Rates:
        """Return the rates of the GPU in a module."""
        return in_module(super().rates())

    def of_product(self, node: Node, rule: AxisRule) -> int:
        """Return the bytes that a product needs in addition to its result."""
        return workspace(node, rule)


WHOLE_OPS = WholeOps(device="GPU")


def _compiled(
    graph: Graph, emit: Callable[[Graph, bool], Restored], operands: Operands
) -> tuple[Restored | None, int]:
    """Return the function of a plan as modules, and the bytes that a call of it allocates.

    None and 0 if XLA must not compile it. `emit`: see `compile_whole`.
    """
    if all(map(_is_in_a_module, graph.nodes)):
        made = emit(graph, True)
        return made, buffers(made, operands)
    if any(node.subgraphs and not _is_in_one_of_several(node) for node in graph.nodes):
        return None, 0  # clusters in the bodies of the loop are compiled instead
    staged = stage(graph, _is_in_one_of_several)
    modules = [node for node in staged.nodes if node.op == "xla_cluster"]
    if not modules or not all(one.is_static for node in modules for one in node.inputs):
        return None, 0
    return emit(staged, False), _Staged(OPS, modules).working_set(staged)


class _Staged(Projector):
    """Projects a program whose modules state their buffers."""

    def __init__(self, ops: OpSet, modules: Sequence[Node]) -> None:
        super().__init__(ops)
        self.buffers = {node: _buffers_of(node) for node in modules}

    def _cluster_temporary(self, node: Node) -> int:
        return max(0, self.buffers[node] - sum(tensor.nbytes for tensor in node.outputs))


def _buffers_of(module: Node) -> int:
    ((_, graph),) = module.subgraphs
    return buffers(restore(graph, compiled=True), Operands(graph.inputs, ()))


def _keeps_choices(graph: Graph) -> bool:
    """Return whether no maximum or minimum can be compared with the elements it was chosen from.

    XLA computes a fused tensor again for each reader, and not always to the same bits. So the
    chosen element may equal no element of the tensor later, and its gradient would be lost.
    """
    return not tests_order(graph) or not any(
        node.op in EXTREMES and node.inputs[0].is_real for node in walk(graph)
    )


def _is_in_a_module(node: Node) -> bool:
    """Return whether XLA computes TensorFlow's numbers for a node and all nodes in it, and fast."""
    return node.op not in _SLOW and all(map(_is_compiled, walk_node(node)))


def _is_in_one_of_several(node: Node) -> bool:
    """Return the same for one of several modules, which cannot access variables."""
    if node.stateful or any(tensor.dtype in HANDLES for tensor in node.inputs):
        return False
    return _is_in_a_module(node)


def _is_compiled(node: Node) -> bool:
    if isinstance(node, Loop) and node.bitwise_group is not None:
        return False
    if node.op in _STRUCTURE or node.op in _VARIABLES:
        return True
    if WHOLE_OPS.compiles(node):
        return True
    static = all(tensor.is_static for tensor in (*node.inputs, *node.outputs))
    if node.op not in _LIBRARIES or not static or node.stateful:
        return False
    if node.op == "mean":  # TensorFlow adds integers in 64 bits, XLA in their own
        return not node.output.dtype.startswith(("int", "uint"))
    if node.op == "floor_divide" and not node.output.is_real:
        # TensorFlow raises an error for a division by zero
        divisor = node.inputs[1].value
        return divisor is not None and bool(divisor.all())
    return True


def buffers(restored: Restored, operands: Operands) -> int:
    """Return the bytes that a call of a compiled function allocates, results included.

    They include constants, since XLA makes larger ones from those of the program. This compiles the
    function, as its first call does again.
    """
    from tensorflow.compiler.xla.service import hlo_pb2  # here: releases may lack it

    serialized = context.context().get_compiler_ir(
        device_name=tf.config.list_logical_devices(device())[0].name,
        platform_name=None,
        function_name=restored.function.name.decode(),
        flat_args=[tf.TensorSpec(one.shape, one.dtype) for one in operands.arguments],
        captured_inputs=list(operands.captured),
        stage="optimized_hlo_proto_serialized",
    )
    module = hlo_pb2.HloProto.FromString(serialized)
    return sum(
        -(-one.size // ALIGNMENT) * ALIGNMENT
        for one in module.buffer_assignment.buffer_allocations
        if not (one.is_entry_computation_parameter or one.is_thread_local)
    )
