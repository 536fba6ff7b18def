"""The choice of the loops to shard: the regions whose shards save the most time.

A shard is a range of one axis of a region, like a chunk in splitting for memory. Regions, stages
and the combination of results are the same. Only the choice differs: it is by time, where computing
is divided by the number of devices, and the time of sending is added.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tf_exla.ir.graph import ARG_REDUCERS, Combine, Graph, Loop, Node, Tensor
from tf_exla.ir.lists import is_list
from tf_exla.model.cost import graph_seconds, node_seconds
from tf_exla.model.lifetimes import CHAIN_BYTES
from tf_exla.model.projection import Projector
from tf_exla.model.settings import SETTINGS
from tf_exla.shard.link import Link
from tf_exla.split.loops.repeating import compared_again
from tf_exla.split.loops.resize import resize_loop
from tf_exla.split.loops.stages import arrange, rewrite
from tf_exla.split.regions.def_use import DefUse
from tf_exla.split.regions.growth import grow
from tf_exla.split.regions.large import Large
from tf_exla.split.regions.region import RefusedSplit

SEEDS = 8
"""Tensors from which regions are grown in one step, those of the slowest nodes first. The product
that dominates a region is among the first, so more seeds would only make planning slower."""
_SENT = frozenset({"resource", "string", "variant"})
"""Dtypes of tensors that stay on the device where they were made."""


@dataclass(frozen=True)
class Fleet:
    """The devices that shards run on.

    `shards`: the number of parts of an axis. If there are more shards than `devices`, other devices
    can take over those of a slow or lost device. `link`: between driver and devices. `remote`: the
    driver, which runs the other parts, is not one of the devices. `apart`: inputs of the program
    that no device holds whole; only shards may read them, each its rows. `keep_rows`: rows of
    results that no other node reads stay on their devices.
    """

    devices: int
    shards: int
    link: Link
    remote: bool = False
    apart: frozenset[Tensor] = frozenset()
    keep_rows: bool = False


def shard_loops(
    projector: Projector, graph: Graph, fleet: Fleet, room: int
) -> tuple[Graph, list[RefusedSplit], int]:
    """Replace regions that are faster on several devices by loops, one region at a time.

    Each iteration of a loop is a shard: its body is the template cut for the shard's indices, not
    split further yet. No loop is made whose results the driver cannot combine within `room` bytes.
    Return the graph, the reasons why regions were not sharded, and the least bytes that exceeded
    `room`, 0 if none did.
    """
    refusals: list[RefusedSplit] = []
    over: list[int] = []
    left, seconds = len(read_whole(graph, fleet)), graph_seconds(projector.ops, graph)
    while True:
        found = [
            (len(read_whole(one, fleet)), sharded_seconds(projector, one, fleet), one)
            for one in _candidates(projector, graph, fleet, refusals)
            if _fits(one, fleet, room, over)
        ]
        fewest, best, made = min(found, key=lambda one: one[:2], default=(left, seconds, graph))
        if fewest > left or (fewest == left and best >= SETTINGS.margin * seconds):
            return graph, refusals, min(over, default=0)
        graph, left, seconds = made, fewest, best


def _fits(graph: Graph, fleet: Fleet, room: int, over: list[int]) -> bool:
    """Return whether the driver has `room` bytes to send operands and combine results of each loop.

    If not, append the bytes that it needs to `over`.
    """
    kept = kept_rows(graph, fleet)
    most = max(
        combined_bytes(node, kept) + rows_sending(node, fleet)
        for node in graph.nodes
        if isinstance(node, Loop)
    )
    if most > room:
        over.append(most)
    return most <= room


def read_whole(graph: Graph, fleet: Fleet) -> list[tuple[Tensor, Node]]:
    """Return the reads of `fleet.apart` other than by loops over rows: (tensor, reader)."""
    return [
        (tensor, node)
        for node in graph.nodes
        for at, tensor in enumerate(node.inputs)
        if tensor in fleet.apart and not (isinstance(node, Loop) and _by_rows(node, at))
    ]


def _by_rows(loop: Loop, position: int) -> bool:
    slot = loop.slots[position]
    return slot is not None and slot.axis == 0


def sharded_seconds(projector: Projector, graph: Graph, fleet: Fleet) -> float:
    """Estimate the time of a graph whose loops are sharded: computing and sending."""
    held = frozenset(graph.inputs)
    return sum(
        _loop_seconds(projector, node, fleet, held)
        if isinstance(node, Loop)
        else node_seconds(projector.ops, node)
        for node in graph.nodes
    )


def _loop_seconds(projector: Projector, loop: Loop, fleet: Fleet, held: frozenset[Tensor]) -> float:
    """Estimate the time of a sharded loop; `held`: tensors kept on the devices between calls."""
    rounds = -(-loop.iterations // fleet.devices)
    computing = rounds * graph_seconds(projector.ops, loop.body)
    return computing + fleet.link.seconds(sent_bytes(loop, fleet, held), 2 * rounds)


def sent_bytes(
    loop: Loop,
    fleet: Fleet,
    held: frozenset[Tensor],
    kept: frozenset[Tensor] = frozenset(),
) -> int:
    """Return the bytes that a call sends for a loop: operands to devices, results back.

    `held`: operands on the devices from an earlier call; `kept`: results whose rows stay there.
    """
    sent = 0
    for tensor, slot in zip(loop.inputs, loop.slots, strict=True):
        if tensor not in held:
            sent += tensor.nbytes if slot is not None else tensor.nbytes * fleet.devices
    for whole, result in zip(loop.outputs, loop.results, strict=True):
        if whole not in kept:
            sent += whole.nbytes if result.slot is not None else whole.nbytes * loop.iterations
    return sent


def rows_sending(loop: Loop, fleet: Fleet) -> int:
    """Return the bytes of rows and whole operands that leave the driver at the same time."""
    parts = whole = 0
    for outer, inner, slot in zip(loop.inputs, loop.body.inputs, loop.slots, strict=True):
        if slot is None:
            whole += inner.nbytes
        elif outer not in fleet.apart:
            parts += inner.nbytes
    return sending_bytes(fleet, loop.iterations, parts, whole)


def sending_bytes(fleet: Fleet, shards: int, parts: int, whole: int) -> int:
    """Return the bytes on the driver of copies of operands that are being sent to other devices.

    `parts`, `whole`: bytes of the parts of tensors, and of the whole tensors, that one shard reads.
    All devices but the driver may receive at the same time. Parts are copies, and TensorFlow's
    protocol between processes makes two more: a message, and its serialization.
    """
    if not fleet.remote:
        return (min(fleet.devices, shards) - 1) * parts
    return min(fleet.devices, shards) * (3 * parts + 2 * whole)


def kept_rows(graph: Graph, fleet: Fleet) -> frozenset[Tensor]:
    """Return the program's results whose rows stay on the devices that computed them."""
    if not fleet.keep_rows:
        return frozenset()
    read = {tensor for node in graph.nodes for tensor in node.inputs}
    return frozenset(
        tensor
        for node in graph.nodes
        if isinstance(node, Loop)
        for tensor, result in zip(node.outputs, node.results, strict=True)
        if result.slot is not None and result.slot.axis == 0
        if tensor in graph.outputs and tensor not in read
    )


def combined_bytes(loop: Loop, kept: frozenset[Tensor]) -> int:
    """Return the bytes that the driver needs to combine the results of shards except `kept`."""
    total = 0
    for whole, part, result in zip(loop.outputs, loop.body.outputs, loop.results, strict=True):
        if whole in kept:
            continue
        came = whole.nbytes if result.slot is not None else part.nbytes * loop.iterations
        total += came + merging_bytes(result.combine, came, whole.nbytes)
    return total


def merging_bytes(combine: Combine, came: int, whole: int) -> int:
    """Return the bytes that combining takes beside the `came` bytes of all partial results.

    These are the bytes of the combined result, `whole`, for most combiners. A top-k is selected
    from all partial results at once. For argmax and argmin, the result so far, the next one, and
    positions along the whole axis are alive at the same time.
    """
    if combine == "top_k":
        return 3 * came
    return 3 * whole if combine in ARG_REDUCERS else whole


def _candidates(
    projector: Projector, graph: Graph, fleet: Fleet, refusals: list[RefusedSplit]
) -> Iterator[Graph]:
    """Yield the graphs in which one more region is sharded."""
    index = DefUse(graph, projector.ops)
    tried: set[object] = set()
    seeds = [tensor for tensor, _ in read_whole(graph, fleet)]
    for seed in (*dict.fromkeys(seeds), *_seeds(projector, graph)):
        smalls = dict.fromkeys(
            max(bound, CHAIN_BYTES) for bound in (seed.nbytes // SETTINGS.small_beside, 0)
        )
        for axis, size in enumerate(seed.dims):
            if size < fleet.devices and seed not in fleet.apart:
                continue
            for small in smalls:
                is_large = Large(small, seed)
                region = grow(index, seed, axis, is_large, remake=True)
                if region is None or (region.key, region.extent) in tried:
                    continue
                tried.add((region.key, region.extent))
                refusals += region.refusals
                stages = arrange(index, region, is_large)
                compared = compared_again(index, stages)
                if compared:
                    # The numbers have the same bits only if both loops have the same shapes. This
                    # is not certain, since shards are planned separately.
                    node, tensor, _ = compared[0]
                    refusals.append(RefusedSplit(tensor, axis, node, _COMPARED))
                    continue
                projector.effort.tick()
                made = _in_shards(projector, next(rewrite(index, stages)), fleet)
                if made is not None:
                    yield made


_COMPARED = "numbers are compared with what another stage computes again, to the last bit"


def _seeds(projector: Projector, graph: Graph) -> list[Tensor]:
    """Return results and operands of the slowest nodes, one tensor of each shape and dtype."""

    def seconds(node: Node) -> float:
        return node_seconds(projector.ops, node)

    nodes = [
        node
        for node in graph.nodes
        if not isinstance(node, Loop)
        and not node.stateful
        and node.outputs
        and node.outputs[0].is_static
        and not is_list(node.outputs[0])
    ]
    seeds: dict[object, Tensor] = {}
    for node in sorted(nodes, key=seconds, reverse=True):
        # Operands as well: if a product reduces the long axis, only its operands have it.
        for tensor in (node.outputs[0], *node.inputs):
            if tensor.is_static and tensor.dims and tensor.nbytes >= CHAIN_BYTES:
                seeds.setdefault((tensor.dims, tensor.dtype), tensor)
        if len(seeds) >= SEEDS:
            break
    return list(seeds.values())[:SEEDS]


def _in_shards(projector: Projector, graph: Graph, fleet: Fleet) -> Graph | None:
    """Cut the new loops of a graph into shards; None if a loop cannot be sharded."""
    nodes = []
    for node in graph.nodes:
        if isinstance(node, Loop) and not node.chunk:
            if not all(_is_sent(tensor) for tensor in (*node.inputs, *node.outputs)):
                return None
            node = resize_loop(projector.ops, node, -(-node.extent // fleet.shards), 1)
            if node.iterations < min(2, fleet.devices) and not fleet.apart:
                return None
        nodes.append(node)
    return graph.replace(nodes=tuple(nodes))


def _is_sent(tensor: Tensor) -> bool:
    return tensor.is_static and tensor.dtype not in _SENT
