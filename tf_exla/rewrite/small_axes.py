"""Small axes: unroll an axis that small tensors are broadcast along and that is reduced again.

Absolute differences [m, n, d] that are summed over d <= 64 are d times as large as their sum. Every
op on them is slow: a broadcast and a reduction along a short axis do not use the full width of
vector instructions. Unrolled, each index takes a few passes over [m, n]. These stay in cache once
they are split, and are fused if they are compiled.

The nodes that are unrolled are a region (`split/regions/`), as for a loop with chunks of one index.
This applies to forward sums and to gradients. If an axis has more than 32 indices and the only
result of the region is a sum, a maximum or the like, the region becomes a contraction instead
(`ir/contraction.py`). Otherwise, as in gradients, up to 64 indices are unrolled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from tf_exla.ir.axis_rule import AxisRule
from tf_exla.ir.contraction import BLOCK, Contraction, contraction_node
from tf_exla.ir.graph import COMBINING, Graph, Loop, Node, Tensor, item_bytes
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.refusal import Refusal
from tf_exla.ir.traverse import with_subgraphs
from tf_exla.model.settings import SETTINGS
from tf_exla.rewrite.rewrite import Application, GraphRewrite, RefusedRewrite, Rewritten
from tf_exla.split.loops.repeating import compared_again
from tf_exla.split.loops.stages import Stages, arrange, build_loop, replaced, rewrite
from tf_exla.split.loops.unrolling import Unroller
from tf_exla.split.regions.def_use import DefUse
from tf_exla.split.regions.growth import grow
from tf_exla.split.regions.region import Region

FAMILY = "small-axes"


def unroll(graph: Graph, ops: OpSet) -> Rewritten:
    """sum_d f(x_d, y_d) = f(x_1, y_1) + f(x_2, y_2) + ...

    It applies to all nodes that carry d, from the broadcast to the reductions: sums, maxima,
    products. A result that keeps d, such as the gradient of x, is concatenated from its parts.
    Sub-graphs are unrolled, too.
    """
    applications: list[Application] = []
    refusals: list[RefusedRewrite] = []

    def change(sub: Graph) -> Graph:
        done = unroll(sub, ops)
        applications.extend(done.applications)
        refusals.extend(done.refusals)
        return done.graph

    nodes = tuple(n if isinstance(n, Loop) else with_subgraphs(n, change) for n in graph.nodes)
    if any(new is not old for new, old in zip(nodes, graph.nodes, strict=True)):
        graph = graph.replace(nodes=nodes)
    tried: set[Tensor] = set()
    made: set[Tensor] = set()
    while (found := _next(graph, ops, tried, made, refusals)) is not None:
        graph, application = found
        applications.append(application)
    return Rewritten(graph, tuple(applications), tuple(refusals))


def _next(
    graph: Graph, ops: OpSet, tried: set[Tensor], made: set[Tensor], refusals: list[RefusedRewrite]
) -> tuple[Graph, Application] | None:
    """Unroll the first axis that allows it; None if there is none.

    `tried`: seeds that are not tried again. `made`: results of unrolled nodes, whose short axes are
    not unrolled again.
    """
    index = DefUse(graph, ops)
    for seed, axis in _seeds(index, tried, made):
        tried.add(seed)
        node = index.producer[seed]
        try:
            admits = partial(_is_simple, ops)
            region = grow(index, seed, axis, _as_large_as(seed), admits=admits)
        except Refusal as error:
            refusals.append(RefusedRewrite(FAMILY, "unroll", node.name, str(error)))
            continue
        if region is None or not any(region.combiner(member) for member in region.members):
            continue
        verdict = _judged(index, region)
        if not isinstance(verdict, Stages):
            refusals.append(RefusedRewrite(FAMILY, "unroll", node.name, verdict))
            continue
        try:
            contract = _contracts(index, verdict)
            if contract:
                result, new = _contracted(index, verdict)
            else:
                result, new = _unrolled(index, verdict)
        except Refusal as error:
            refusals.append(RefusedRewrite(FAMILY, "unroll", node.name, str(error)))
            continue
        made.update(tensor for each in new for tensor in each.outputs)
        return result, _application(ops, region, node, new, "contract" if contract else "unroll")
    return None


def _seeds(index: DefUse, tried: set[Tensor], made: set[Tensor]) -> Iterator[tuple[Tensor, int]]:
    """Yield results that are much larger than each operand, with one of their axes.

    Short axes come first, from the last axis to the first. Then come long axes of tensors that have
    at least two more axes.
    """
    for node in index.graph.nodes:
        if len(node.outputs) != 1 or node.stateful or node.subgraphs or isinstance(node, Loop):
            continue
        seed = node.output
        if (
            seed in tried
            or not seed.is_static
            or not node.inputs
            or seed.size < 2 * SETTINGS.small_operand
        ):
            continue
        if not all(
            t.is_static and t.size * SETTINGS.small_operand <= seed.size for t in node.inputs
        ):
            continue
        axes = [axis for axis in reversed(range(len(seed.dims))) if seed.dims[axis] > 1]
        for axis in axes:
            if seed.dims[axis] <= SETTINGS.short_axis and seed not in made:
                yield seed, axis
        for axis in axes:
            if seed.dims[axis] > SETTINGS.short_axis and len(axes) > 2:
                yield seed, axis


def _as_large_as(seed: Tensor) -> Callable[[Tensor], bool]:
    return lambda tensor: tensor is seed or 2 * tensor.size > seed.size


def _judged(index: DefUse, region: Region) -> Stages | str:
    """Return the stages of a region if unrolling it saves time, else the reason why not."""
    extent, seed = region.extent, region.seed
    if extent != seed.dims[region.axis]:
        return "the axis is merged with another one"
    for node in region.members:
        combine = region.combiner(node)
        if combine is not None and combine not in COMBINING:
            return f"{node.op} needs the positions along the axis"
    sliced = {
        tensor
        for node in region.members
        for position, tensor in enumerate(node.inputs)
        if region.slot_of(node, position) is not None and not region.inside(node, position)
    }
    if sum(tensor.size for tensor in sliced) * SETTINGS.small_operand > seed.size:
        return "what is sliced is not small beside the rest"
    stages = arrange(index, region, _as_large_as(seed))
    for stage in stages.stages:
        for tensor in stage.results:
            if tensor.size * extent > 2 * seed.size:
                return f"{tensor} is needed whole"
    count = _count(stages)
    if _is_long(stages):
        reason = _no_contraction(index, stages)
        if reason is not None:
            return reason
        count = -(-count // BLOCK)
    handled = sum(t.size for node in region.members for t in (*node.inputs, *node.outputs)
                  if _as_large_as(seed)(t) and not index.ops.aliases(node))  # fmt: skip
    rates = index.ops.rates()
    if handled * rates.short_axis_element / 2 <= SETTINGS.chunks_of_rewrites * count * rates.launch:
        return "it saves no time: the tensors are small"
    return stages


def _count(stages: Stages) -> int:
    return stages.region.extent * sum(len(stage.nodes) for stage in stages.stages)


def _is_long(stages: Stages) -> bool:
    return stages.region.extent > SETTINGS.short_axis or _count(stages) > SETTINGS.unrolled_nodes


def _contracts(index: DefUse, stages: Stages) -> bool:
    """Return whether a region becomes a contraction instead of being unrolled."""
    middling = stages.region.extent > SETTINGS.unrolled and _no_contraction(index, stages) is None
    return middling or _is_long(stages)


def _no_contraction(index: DefUse, stages: Stages) -> str | None:
    """Return why a region with a long axis should not become a contraction; None if it should."""
    region = stages.region
    results = [tensor for stage in stages.stages for tensor in stage.results]
    if len(results) > 1 or any(tensor in region.slots for tensor in results):
        return f"it would make {_count(stages)} nodes"
    (result,) = results
    if item_bytes(result.dtype) < 4 and result.dtype != "bool":
        return f"blocks of {result.dtype} are rounded one by one"
    operands: dict[Tensor, int] = {}
    for node in region.members:
        for position, tensor in enumerate(node.inputs):
            slot = region.slot_of(node, position)
            if region.inside(node, position) or tensor.value is not None:
                continue
            if slot is not None and slot.block != 1:
                return "the axis is merged with another one"
            operands[tensor] = tensor.size if slot is None else tensor.size // region.extent
    if sum(operands.values()) * SETTINGS.small_operand > result.size:
        return "what one index makes is not large beside what it is made of"
    return None


def _contracted(index: DefUse, stages: Stages) -> tuple[Graph, list[Node]]:
    """Replace a region by a contraction; return the graph and the new nodes."""
    region, (stage,) = stages.region, stages.stages
    loop = build_loop(index, region, stage)
    (result,), (output,) = loop.results, loop.outputs
    one = Contraction(loop.template, loop.extent, loop.slots, result.combine, loop.split_axes)
    node = contraction_node(one, loop.inputs, output, loop.name, loop.source)
    return replaced(index, region, [node]), [node]


def _is_simple(ops: OpSet, node: Node, rule: AxisRule) -> bool:
    """Return True; raise `Refusal` if a node is not cheaper for one index than for all.

    This is the case for ops that need an axis whole, and for products over two operands.
    """
    if ops.aliases(node):
        return True
    data = sum(axes is not None for axes in rule.operands)
    if not all(label[0].islower() for label in rule.sizes) or (rule.combine and data > 1):
        raise Refusal(f"{node.op} is done for all indices at once")
    return True


def _unrolled(index: DefUse, stages: Stages) -> tuple[Graph, list[Node]]:
    """Unroll the loops of a region; return the graph and the new nodes."""
    ops = index.ops
    again = [node for stage in stages.stages for node in stage.recomputed]
    dear = any(
        ops.flops(node) > SETTINGS.cheap_flops * max(t.size for t in node.outputs) for node in again
    )
    unroller = Unroller(ops, share=dear or bool(compared_again(index, stages)))
    new: list[Node] = []
    nodes: list[Node] = []
    known = set(index.graph.nodes)
    for node in next(rewrite(index, stages)).nodes:
        if isinstance(node, Loop) and node not in known:
            made = unroller.written_out(node)
            new += made
            nodes += made
        else:
            nodes.append(node)
    return index.graph.replace(nodes=tuple(nodes)), new


def _application(ops: OpSet, region: Region, node: Node, new: list[Node], name: str) -> Application:
    return Application(
        FAMILY,
        name,
        REWRITES[0].identity,
        node.name,
        node.source,
        sum(map(ops.flops, region.members)),
        sum(ops.flops(each) for each in new),
        _moved(ops, region.members),
        _moved(ops, new),
    )


def _moved(ops: OpSet, nodes: object) -> int:
    assert isinstance(nodes, (list, dict))
    return sum(
        tensor.nbytes
        for node in nodes
        if node.op != "constant" and not ops.aliases(node)
        for tensor in (*node.inputs, *node.outputs)
    )


REWRITES = (GraphRewrite(FAMILY, unroll),)
