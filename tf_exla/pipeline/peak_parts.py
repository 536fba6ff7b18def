"""The parts of a plan's peak, for the error that reports the smallest limit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tf_exla.byte_size import format_bytes
from tf_exla.errors import Blocker, PeakPart, named_tensor
from tf_exla.ir.graph import Graph, Loop, Node, Shape, Tensor
from tf_exla.ir.lists import is_list
from tf_exla.ir.traverse import producers
from tf_exla.model.projection import Projection, Projector
from tf_exla.split.regions.region import RefusedSplit

LARGEST = 3
"""The number of tensors that each line of the error names."""


@dataclass(frozen=True, slots=True)
class _Alive:
    """A tensor of `graph` that is alive at the peak.

    `loop`: the loop of whose body `graph` is; None if it is in no loop.
    """

    tensor: Tensor
    bytes: int
    graph: Graph
    loop: Loop | None


def peak_parts(projector: Projector, graph: Graph) -> tuple[PeakPart, ...]:
    """Return the parts of a plan's working set at its largest moment, largest first."""
    parts = [*_parts(projector, graph, frozenset())]
    parts.append(PeakPart("what the executor keeps", projector.overhead(graph)))
    return tuple(sorted((one for one in parts if one.bytes), key=lambda one: -one.bytes))


def largest_residents(graph: Graph) -> tuple[PeakPart, ...]:
    """Return the largest tensors that exist before the call."""
    constants = [node.output for node in graph.nodes if node.op == "constant"]
    found = [(tensor, tensor.nbytes + tensor.held) for tensor in (*graph.inputs, *constants)]
    ranked = sorted(found, key=lambda one: -one[1])[:LARGEST]
    return tuple(PeakPart(_named(tensor), size) for tensor, size in ranked if size)


def blocker(
    projector: Projector, graph: Graph, refusals: tuple[RefusedSplit, ...]
) -> Blocker | None:
    """Return the largest tensor that is alive at a plan's peak, and what keeps it whole.

    Among tensors of equal size, one with a known reason is preferred.
    """
    alive = sorted(_alive(projector, graph, frozenset(), None), key=lambda one: -one.bytes)
    if not alive:
        return None
    reasons = {one.tensor: one for one in refusals}
    most = alive[0].bytes
    equal = [one for one in alive if one.bytes == most]
    chosen = next((one for one in equal if one.tensor in reasons), equal[0])
    refusal = reasons.get(chosen.tensor)
    if refusal is None and chosen.loop is None:
        # Report why a tensor of at least this size, such as an operand of it, could not be split.
        made = producers(graph)
        others = (one for one in refusals if one.tensor.nbytes >= most and one.tensor in made)
        refusal = max(others, key=lambda one: one.tensor.nbytes, default=None)
    if refusal is not None:
        chosen = _Alive(refusal.tensor, refusal.tensor.nbytes, graph, None)
    return _described(chosen, refusal, graph)


def computed_at_peak(projector: Projector, graph: Graph) -> int:
    """Return the bytes of the largest computed tensor at the peak, in loops too, except outputs."""
    alive = [*_alive(projector, graph, frozenset(), None)]
    made = {tensor for one in {each.graph for each in alive} for tensor in producers(one)}
    made -= {*graph.outputs}
    return max((one.bytes for one in alive if one.tensor in made), default=0)


def _parts(projector: Projector, graph: Graph, sliced: frozenset[Tensor]) -> Iterator[PeakPart]:
    found = projector.project(graph, sliced)
    at = _peak_step(found)
    if at is None:
        yield PeakPart("tensors below 4 kB", found.working_set)
        return
    node, temporary = at
    alive = found.working_set - temporary
    ranked = ", ".join(f"{_named(t)} {format_bytes(size)}" for t, size in found.live[:LARGEST])
    named = f" ({ranked})" if ranked else ""
    yield PeakPart(f"tensors alive during {node.name or node.op}{named}", alive)
    if isinstance(node, Loop):
        body = _largest_body(projector, node)
        each = projector.project_body(node, body)
        times = node.parallel if body is node.body else 1
        inner = ", ".join(f"{_named(t)} {format_bytes(size)}" for t, size in each.live[:LARGEST])
        held = f" ({inner})" if inner else ""
        beside = f"{times} iterations side by side" if times > 1 else "an iteration"
        where = f" over {node.axis}" if node.axis else ""
        yield PeakPart(f"{beside} of the loop{where}{held}", times * each.working_set)
        yield PeakPart("the sum of two results of the loop", temporary - times * each.working_set)
    elif node.subgraphs:
        yield PeakPart(f"what {node.name or node.op} ({node.op}) takes inside", temporary)
    else:
        yield PeakPart(f"scratch memory of {node.op}", temporary)


def _alive(
    projector: Projector, graph: Graph, sliced: frozenset[Tensor], loop: Loop | None
) -> Iterator[_Alive]:
    """Yield the tensors that are alive at the peak, in the bodies of loops as well."""
    found = projector.project(graph, sliced)
    for tensor, size in found.live:
        if size:
            yield _Alive(tensor, size, graph, loop)
    at = _peak_step(found)
    if at is None:
        return
    node = at[0]
    if isinstance(node, Loop):
        body = _largest_body(projector, node)
        yield from _alive(projector, body, node.sliced(body), node)
    elif node.subgraphs and node.op != "xla_cluster":
        subs = [sub for _, sub in node.subgraphs]
        sub = max(subs, key=lambda one: projector.project(one).working_set)
        yield from _alive(projector, sub, frozenset(), loop)


def _peak_step(found: Projection) -> tuple[Node, int] | None:
    step = found.step(found.peak_step) if found.nodes else None
    if step is None or step.bytes < found.working_set:
        return None
    return step.node, step.temporary


def _largest_body(projector: Projector, loop: Loop) -> Graph:
    rest = loop.remainder
    whole = loop.parallel * projector.project_body(loop, loop.body).working_set
    if rest is not None and projector.project_body(loop, rest).working_set > whole:
        return rest
    return loop.body


def _named(tensor: Tensor) -> str:
    if tensor.holds:
        return tensor.holds
    return named_tensor(tensor.name, tensor.dtype, _shape(tensor))


def _shape(tensor: Tensor) -> Shape | None:
    return tensor.items if is_list(tensor) else tensor.shape


def _described(one: _Alive, refusal: RefusedSplit | None, graph: Graph) -> Blocker:
    tensor = one.tensor
    node = producers(one.graph).get(tensor)
    if refusal is not None:
        reason = refusal.reason
    elif tensor in graph.outputs:
        reason = "it is an output of the function and must exist whole"
    elif one.loop is not None:
        reason = f"it is made in a loop, by chunks of {one.loop.chunk} of {one.loop.extent} indices"
    elif is_list(tensor):
        reason = "no axis of its tensors can be split"
    else:
        reason = "no axis of it can be split"
    return Blocker(
        tensor=tensor.name,
        shape=_shape(tensor) or (),
        dtype=tensor.dtype,
        bytes=one.bytes,
        axis=None if refusal is None else refusal.axis,
        op=None if refusal is None else refusal.node.op,
        reason=reason,
        source=node.source if node is not None else "",
    )
