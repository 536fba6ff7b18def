"""Notes of a report: what its numbers leave open, and what was done in addition to splitting."""

from __future__ import annotations

from collections.abc import Sequence

from tf_exla.ir.graph import Graph, item_bytes
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.open_sizes import is_of_unknown_size
from tf_exla.ir.traverse import walk
from tf_exla.late.compiling import uncompiled
from tf_exla.model.sizes import Sizes
from tf_exla.pipeline.plan import Plan
from tf_exla.rewrite.families import IN_CACHE


def plan_notes(plan: Plan, ops: OpSet) -> list[str]:
    """Return the notes of a plan, one sentence each."""
    return [
        *([f"the function runs as it was: {plan.failure}"] if plan.failure else []),
        *_unknown_shapes(plan.graph, ops),
        *_strings(plan.graph),
        *_for_speed(plan),
        *_compiled(plan.graph, ops),
    ]


def _strings(graph: Graph) -> list[str]:
    names = [
        f"{node.name} ({node.op})"
        for node in walk(graph)
        if any(tensor.dtype == "string" and tensor.shape != () for tensor in node.outputs)
    ]
    counted = f"strings are counted as {item_bytes('string')} bytes each, whatever their lengths"
    return [f"{counted}: {_some(names)}"] if names else []


def _for_speed(plan: Plan) -> list[str]:
    if not plan.for_speed:
        return []
    return [
        "split further than the limit asks for: chunks that stay in cache are estimated to be "
        f'faster; rewrites={{"{IN_CACHE}": False}} splits for the limit alone'
    ]


def _compiled(graph: Graph, ops: OpSet) -> list[str]:
    """Note how many clusters XLA compiles, and which ops of the loops it does not compile."""
    clusters = sum(1 for node in walk(graph) if node.op == "xla_cluster")
    if not clusters:
        return []
    left = ", ".join(f"{op} ({count})" for op, count in sorted(uncompiled(graph, ops).items()))
    rest = f"; it leaves to TensorFlow: {left}" if left else ""
    return [f"XLA compiles parts of the bodies of loops, {clusters} in all{rest}"]


def _unknown_shapes(graph: Graph, ops: OpSet) -> list[str]:
    sizes = Sizes(ops)
    sizes.lists(graph)  # walks the graph
    bounded: list[str] = []
    not_counted = [tensor.name for tensor in graph.inputs if is_of_unknown_size(tensor)]
    for node in walk(graph):
        found = [tensor for tensor in node.outputs if is_of_unknown_size(tensor)]
        if not found:
            continue
        known = all(sizes.most(tensor).size is not None for tensor in found)
        (bounded if known else not_counted).append(f"{node.name} ({node.op})")
    return [
        f"sizes known only at run time are {how}: {_some(names)}"
        for how, names in (("counted as the most that they can be", bounded),
                           ("not counted", not_counted))
        if names
    ]  # fmt: skip


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more
