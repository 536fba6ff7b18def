"""Stages: from a region to one loop per stage.

A member's stage is the largest stage of its operands, plus one if it reads a *completed* result of
the region, directly or through nodes outside. A completed result is reduced or concatenated. The
loop of stage k computes every result of stage k in one pass over the data. Tensors of earlier
stages are recomputed from the sources, read from kept tensors, or sliced from small completed
results.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType

from tf_exla.ir.axis_rule import AxisRule
from tf_exla.ir.graph import ARG_REDUCERS, Graph, Loop, LoopResult, Node, SplitAxis, Tensor
from tf_exla.ir.lists import is_list
from tf_exla.ir.traverse import CycleError, put_in_order
from tf_exla.model.float32_sums import least_chunk
from tf_exla.model.top_k import CHUNKED
from tf_exla.split.loops.online_reduction import stream
from tf_exla.split.loops.resize import UNCUT
from tf_exla.split.loops.widening import shortened, widened
from tf_exla.split.regions.def_use import DefUse
from tf_exla.split.regions.region import Region

Operand = tuple[Tensor, SplitAxis | None]


@dataclass(frozen=True)
class Stage:
    """The work of one loop.

    `nodes`: in order. `results`: what the loop completes. `recomputed`: those of its nodes that an
    earlier stage computes as well.
    """

    number: int
    nodes: tuple[Node, ...]
    results: tuple[Tensor, ...]
    recomputed: tuple[Node, ...]


@dataclass(frozen=True)
class Stages:
    """All stages of a region, in order.

    `exact`: recomputed numbers must be the same to the last bit.
    """

    region: Region
    stages: tuple[Stage, ...]
    exact: bool = False

    def recomputed_large(self, is_large: Callable[[Tensor], bool]) -> list[Tensor]:
        """Return the large tensors that later stages recompute, the earliest first.

        Results of remade nodes are left out, since these nodes are cheap to run again.
        """
        found: dict[Tensor, None] = {}
        for stage in self.stages:
            for node in stage.recomputed:
                for tensor in () if node in self.region.remade else node.outputs:
                    if tensor in self.region.slots and is_large(tensor) and not is_list(tensor):
                        found[tensor] = None
        return list(found)


def arrange(
    index: DefUse,
    region: Region,
    is_large: Callable[[Tensor], bool],
    keep: frozenset[Tensor] = frozenset(),
) -> Stages:
    """Divide a region into stages.

    `keep`: large tensors that an earlier stage concatenates, so that later ones do not recompute
    them.
    """
    stage_of = _stage_numbers(index, region)
    count = max(stage_of.values()) + 1
    wanted: list[dict[Tensor, None]] = [{} for _ in range(count)]
    for tensor in _completed(index, region):
        wanted[stage_of[index.producer[tensor]]][tensor] = None
    stages: list[Stage] = []
    for number in reversed(range(count)):
        nodes: set[Node] = set()
        work = [index.producer[tensor] for tensor in wanted[number]]
        while work:
            node = work.pop()
            if node in nodes:
                continue
            nodes.add(node)
            for position, tensor in enumerate(node.inputs):
                if not region.inside(node, position):
                    continue
                producer = index.producer[tensor]
                earlier = stage_of[producer]
                small = not is_large(tensor) and producer not in region.remade
                if earlier < number and (tensor in keep or small):
                    wanted[earlier][tensor] = None
                else:
                    work.append(producer)
        if not nodes:
            continue
        ordered = sorted(nodes, key=index.position.__getitem__)
        stages.append(
            Stage(
                number,
                tuple(ordered),
                tuple(wanted[number]),
                tuple(node for node in ordered if stage_of[node] < number),
            )
        )
    return Stages(region, tuple(reversed(stages)))


def _stage_numbers(index: DefUse, region: Region) -> dict[Node, int]:
    """Number the members' stages by one walk over the graph.

    Stateful nodes stay in order, so that a read of a variable waits for its assignments.
    """
    stage_of: dict[Node, int] = {}
    # The first stage that may read a tensor whole or through nodes outside the region. A tensor
    # that is not a key may be read from stage 0 on.
    level: dict[Tensor, int] = {}
    state = 0
    for node in index.graph.nodes:
        number = 0
        if node not in region.members:
            for tensor in node.inputs:
                if tensor in level and level[tensor] > number:
                    number = level[tensor]
            if node.stateful:
                number = state = max(number, state)
        else:
            for position, tensor in enumerate(node.inputs):
                if region.inside(node, position):
                    number = max(number, stage_of[index.producer[tensor]])
                elif tensor in level:
                    number = max(number, level[tensor])
            stage_of[node] = number
            if node not in region.remade:
                number += 1
        if number:
            for tensor in node.outputs:
                level[tensor] = number
    return stage_of


def _completed(index: DefUse, region: Region) -> Iterable[Tensor]:
    """Yield the results of members that are read whole or outside the region."""
    for node in region.members:
        if node in region.remade:
            continue
        if region.combiner(node) in ARG_REDUCERS:
            yield from node.outputs  # the values and their positions are combined together
            continue
        for position, tensor in enumerate(node.outputs):
            readers = index.readers.get(tensor, ())
            if tensor in index.outputs:
                yield tensor
            elif region.result_slot(node, position) is None:
                if readers:
                    yield tensor
            elif any(
                reader not in region.members or not region.inside(reader, at)
                for reader, at in readers
            ):
                yield tensor


def rewrite(index: DefUse, stages: Stages) -> Iterator[Graph]:
    """Yield the graph with one loop per stage instead of a region, then also with merged stages.

    The loops have no chunks yet.
    """
    region = stages.region
    loops = [build_loop(index, region, stage, exact=stages.exact) for stage in stages.stages]
    pairs = zip(loops, stages.stages, strict=True)
    short = [node for loop, stage in pairs for node in shortened(index.ops, loop, stage.results)]
    yield replaced(index, region, (*loops, *short))
    streams = stream(index, loops, short)
    if streams is not None:
        with suppress(CycleError):  # a read of a variable may lie between the stages
            yield replaced(index, region, (*streams.loops, *streams.after))


def replaced(index: DefUse, region: Region, nodes: Sequence[Node]) -> Graph:
    """Return the graph with a region replaced by `nodes`.

    Each is placed where the graph computed the last of its results, as far as operands allow it.
    """
    position: dict[Tensor, int] = {}
    priority: dict[Node, int] = {}
    for node in nodes:
        for tensor in node.outputs:
            if tensor in index.producer:
                position[tensor] = index.position[index.producer[tensor]]
    for node in nodes:  # a wide sum has the position of the short one that is cast from it
        if node.op == "astype" and node.output in position:
            position.setdefault(node.inputs[0], position[node.output])
    for node in nodes:
        priority[node] = max((position.get(tensor, 0) for tensor in node.outputs), default=0)
    outside = _outside(index, region)
    merged = sorted(
        [*outside, *nodes],
        key=lambda node: priority[node] if node in priority else index.position[node],
    )
    return index.graph.replace(nodes=put_in_order(merged))


def _outside(index: DefUse, region: Region) -> list[Node]:
    """Return the nodes that stay outside the loops.

    These are the nodes that are no members, and remade members with a reader outside.
    """
    kept: list[Node] = []
    read = set(index.outputs)
    for node in region.members:
        read.update(t for k, t in enumerate(node.inputs) if not region.inside(node, k))
    for node in reversed(index.graph.nodes):
        remade = node in region.remade and any(tensor in read for tensor in node.outputs)
        if remade or node not in region.members:
            kept.append(node)
            read.update(node.inputs)
    return kept[::-1]


def build_loop(index: DefUse, region: Region, stage: Stage, exact: bool = False) -> Loop:
    """Return the loop of one stage, memoized and without a chunk.

    Its sums and products over chunks are float32 if they were bfloat16 or float16 (`widening.py`).
    `exact`: set its `bitwise_group`.
    """
    members = tuple((one.label, one.unit) for one in map(region.members.__getitem__, stage.nodes))
    key = region.seed, region.axis, region.extent, stage, members, exact
    if key not in index.made.loops:
        index.made.loops[key] = _built(index, region, stage, exact)
    return index.made.loops[key]


def _built(index: DefUse, region: Region, stage: Stage, exact: bool) -> Loop:
    made = {tensor for node in stage.nodes for tensor in node.outputs}
    operands: dict[Operand, Tensor] = {}
    constants: dict[Tensor, Node] = {}
    renamed: list[Node] = []
    for node in stage.nodes:
        inputs = []
        for position, tensor in enumerate(node.inputs):
            producer = index.producer.get(tensor)
            slot = region.slot_of(node, position)
            if tensor in made and region.inside(node, position):
                inputs.append(tensor)
            elif slot is None and producer is not None and producer.op == "constant":
                constants[tensor] = producer
                inputs.append(tensor)
            else:
                inputs.append(_stand_in(operands, tensor, slot))
        attrs = node.attrs
        if region.combiner(node) == "top_k" and index.ops.picks_rows():
            attrs = {**attrs, CHUNKED: True}
        same = attrs is node.attrs and all(map(operator.is_, inputs, node.inputs))
        renamed.append(node if same else node.replace(inputs=tuple(inputs), attrs=attrs))
    carried = {tensor: slot for tensor, slot in region.slots.items() if tensor in made}
    carried.update({stand_in: slot for (_, slot), stand_in in operands.items() if slot})
    results = {tensor: _result(index, region, tensor) for tensor in stage.results}
    combines = {tensor: result.combine for tensor, result in results.items()}
    wide_nodes, ends = widened(index.ops, renamed, combines, carried)
    outputs = tuple(ends.get(tensor, tensor) for tensor in stage.results)
    nodes = (*constants.values(), *wide_nodes)
    template = Graph(tuple(operands.values()), nodes, outputs)
    least = max(
        *(_least_chunk(region, node) for node in stage.nodes),
        *(least_chunk(one, result, region.extent) for one, result in results.items()),
        1,
    )
    seed = index.producer.get(region.seed)
    return Loop(
        op="loop",
        inputs=tuple(tensor for tensor, _ in operands),
        outputs=outputs,
        name=f"stage{stage.number}_{region.seed.name}",
        source=seed.source if seed is not None else "",
        extent=region.extent,
        chunk=UNCUT,
        body=template,
        slots=tuple(slot for _, slot in operands),
        results=tuple(results.values()),
        min_chunk=least,
        stage=stage.number,
        template=template,
        split_axes=MappingProxyType(carried),
        recomputed=tuple(node.name or node.op for node in stage.recomputed),
        recomputed_flops=sum(map(index.ops.flops, stage.recomputed)),
        axis=f"axis {region.axis} of {region.seed}",
        bitwise_group=region.seed if exact else None,
    )


def _stand_in(operands: dict[Operand, Tensor], tensor: Tensor, slot: SplitAxis | None) -> Tensor:
    """Return the body's input for a tensor from outside that is sliced along `slot`, or whole."""
    key = (tensor, slot)
    if key not in operands:
        operands[key] = tensor.fresh_copy()
    return operands[key]


def _result(index: DefUse, region: Region, tensor: Tensor) -> LoopResult:
    node = index.producer[tensor]
    slot = region.result_slot(node, node.outputs.index(tensor))
    if slot is not None:
        return LoopResult("concat", slot)
    member = region.members[node]
    rule: AxisRule = member.rule
    return LoopResult(rule.combine[member.label], block=member.unit)


def _least_chunk(region: Region, node: Node) -> int:
    if region.combiner(node) != "top_k":
        return 1
    return -(-node.outputs[0].dims[-1] // region.members[node].unit)
