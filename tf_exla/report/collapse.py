"""A graph with the nodes of one name scope as one node, so that hundreds of nodes can be read.

Frameworks name nodes "sgpr/elbo/Kuf/Exp": all but the last part is the scope. If that leaves too
many groups, those of the smallest tensors are merged into a producer or a consumer. Groups form no
cycle: where a scope would, the rest of it becomes another group.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from tf_exla.byte_size import format_bytes
from tf_exla.report.graph import INPUT, GraphNode

MANY = 60
"""Graphs with more nodes are drawn by name scopes as well."""
GROUPS = 24
"""Boxes of 150 x 74 in a window of 1000 x 560: six rows of four."""
_DEPTHS = (4, 3, 2, 1)
_NO_SCOPE = frozenset({"gradient_tape"})
"""Parts of names that say nothing about the computation."""
_NAMED, _LABEL = 12, 22
"""Members that a group's name lists, the largest first; characters of a group's label."""
_RUNS = 500
"""Groups that can be merged in less than a second. If there are many more, runs of nodes are the
groups."""
_LOOKED_AT = 300
"""Groups on the paths from one to another. If there may be more, the two are not merged."""


def collapsed(nodes: Sequence[GraphNode], most: int = GROUPS) -> list[GraphNode]:
    """Return about `most` groups of `nodes` by name scopes; inputs and loops' nodes stay single.

    Scopes have the largest depth that gives few enough groups. A group has the shape and the bytes
    of its largest member, and its `name` lists the members.
    """
    groups: list[_Group] = []
    for depth in _DEPTHS if len(nodes) <= 10 * _RUNS else _DEPTHS[-1:]:
        groups = _grouped(nodes, depth)
        if sum(not one.alone for one in groups) <= most:
            break
    if len(groups) > 2 * _RUNS:
        groups = _in_runs(nodes)
    return _in_order(_merged(groups, most), nodes)


@dataclass(eq=False)
class _Group:
    scope: str
    alone: bool  # an input or a loop
    bytes: int = 0  # of the largest member
    members: list[int] = field(default_factory=list)
    reads: set[_Group] = field(default_factory=set)
    readers: set[_Group] = field(default_factory=set)


def _grouped(nodes: Sequence[GraphNode], depth: int) -> list[_Group]:
    scopes = {scope for node in nodes if (scope := _scope(node.name, depth))}
    groups: list[_Group] = []
    latest: dict[str, _Group] = {}  # of each scope
    place: list[_Group] = []  # of each node
    for number, node in enumerate(nodes):
        reads = {place[k] for k in node.inputs}
        alone = node.loop is not None or node.op == INPUT
        # An op may have the name of a scope: "truediv" joins the scope of "truediv/Less".
        named = "/".join(_parts(node.name))
        scope = "" if alone else _scope(node.name, depth) or (named if named in scopes else "")
        group = latest.get(scope) if scope else None
        if group is None or _by_way_of_others(group, reads):
            group = _Group(scope, alone)
            groups.append(group)
        if scope:
            latest[scope] = group
        _add(group, number, node, reads)
        place.append(group)
    return groups


def _in_runs(nodes: Sequence[GraphNode]) -> list[_Group]:
    """Return groups of successive nodes; none reads a later group."""
    length = -(-len(nodes) // _RUNS)
    groups: list[_Group] = []
    place: list[_Group] = []
    for number, node in enumerate(nodes):
        alone = node.loop is not None or node.op == INPUT
        group = groups[-1] if groups else None
        if group is None or alone or group.alone or len(group.members) == length:
            group = _Group(_scope(node.name, 1), alone)
            groups.append(group)
        _add(group, number, node, {place[k] for k in node.inputs})
        place.append(group)
    return groups


def _add(group: _Group, number: int, node: GraphNode, reads: set[_Group]) -> None:
    group.members.append(number)
    group.bytes = max(group.bytes, node.bytes)
    for one in reads - {group}:
        group.reads.add(one)
        one.readers.add(group)


def _by_way_of_others(group: _Group, reads: Iterable[_Group]) -> bool:
    """Return whether another group in `reads` depends on the group; True if that takes too long."""
    seen: set[_Group] = set()
    waiting = [one for one in reads if one is not group]
    while waiting:
        one = waiting.pop()
        if one is group or len(seen) > _LOOKED_AT:
            return True
        if one not in seen:
            seen.add(one)
            waiting += one.reads
    return False


def _merged(groups: Sequence[_Group], most: int) -> list[_Group]:
    """Merge the smallest groups into others until about `most` are left."""
    number = {group: at for at, group in enumerate(groups)}
    left = set(groups)
    count = sum(not one.alone for one in groups)
    smallest = [(*_weight(one), number[one]) for one in groups if not one.alone]
    heapq.heapify(smallest)
    while smallest and count > most:
        *weight, at = heapq.heappop(smallest)
        group = groups[at]
        if group not in left or (*weight,) != _weight(group):
            continue
        other = _joinable(group, number)
        if other is not None:
            _join(group, other)
            left.remove(group)
            count -= 1
            heapq.heappush(smallest, (*_weight(other), number[other]))
    return [one for one in groups if one in left]


def _weight(group: _Group) -> tuple[float, int]:
    """Return a size from members and bytes: a factor of 1000 in bytes counts as five members."""
    return len(group.members) + math.log2(1 + group.bytes) / 2, group.bytes


def _joinable(group: _Group, number: dict[_Group, int]) -> _Group | None:
    """Return the smallest producer or consumer that `group` may be merged into."""
    near = sorted(group.reads | group.readers, key=lambda one: (*_weight(one), number[one]))
    for one in near:
        source, target = (one, group) if one in group.reads else (group, one)
        if one.alone:
            continue
        # If `source` has no other consumer, or `target` no other producer, there is no other path.
        only = len(source.readers) == 1 or len(target.reads) == 1
        if only or not _by_way_of_others(source, target.reads):
            return one
    return None


def _join(group: _Group, other: _Group) -> None:
    if group.bytes > other.bytes:
        other.scope = group.scope
    other.bytes = max(other.bytes, group.bytes)
    other.members = sorted(other.members + group.members)
    for one in group.reads:
        one.readers.discard(group)
        if one is not other:
            one.readers.add(other)
            other.reads.add(one)
    for one in group.readers:
        one.reads.discard(group)
        if one is not other:
            one.reads.add(other)
            other.readers.add(one)


def _in_order(groups: Sequence[_Group], nodes: Sequence[GraphNode]) -> list[GraphNode]:
    """Return the groups as nodes in topological order, otherwise in the given order.

    An input that another input depends on is omitted, since the lines of all would cross.
    """
    number = {group: at for at, group in enumerate(groups)}
    left = {group: len(group.reads) for group in groups}
    ready = [number[group] for group in groups if not group.reads]
    place: dict[_Group, int] = {}
    above: list[set[int]] = []  # by made node: all nodes that it depends on
    made: list[GraphNode] = []
    while ready:
        group = groups[heapq.heappop(ready)]
        place[group] = len(made)
        reads = sorted(place[one] for one in group.reads)
        inputs = tuple(k for k in reads if not any(k in above[other] for other in reads))
        above.append(set(reads).union(*(above[k] for k in reads)))
        made.append(_node(group, [nodes[k] for k in group.members], inputs))
        for reader in group.readers:
            left[reader] -= 1
            if not left[reader]:
                heapq.heappush(ready, number[reader])
    return made


def _node(group: _Group, members: Sequence[GraphNode], inputs: tuple[int, ...]) -> GraphNode:
    by_size = sorted(members, key=lambda one: -one.bytes)
    largest = by_size[0]
    output = any(one.output for one in members)
    if len(members) == 1:
        return replace(largest, inputs=inputs)
    count = f" ({len(members)})"
    title = group.scope or largest.op
    room = _LABEL - len(count)
    title = title if len(title) <= room else "…" + title[1 - room :]
    lines = [f"{n.op} {n.name}, {format_bytes(n.bytes)}" for n in by_size[:_NAMED]]
    lines += ["..."] * (len(members) > _NAMED)
    return replace(largest, op=title + count, name="\n".join(lines), inputs=inputs, output=output)


def _parts(name: str) -> list[str]:
    return [part for part in name.split("/") if part not in _NO_SCOPE]


def _scope(name: str, depth: int) -> str:
    """Return the outermost `depth` parts of a node's scope, "" where it has none."""
    return "/".join(_parts(name)[:-1][:depth])
