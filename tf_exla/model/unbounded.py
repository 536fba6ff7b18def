"""Sizes without an upper bound: of results, and of lists that loops keep."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tf_exla.ir.control_flow import is_while
from tf_exla.ir.graph import Graph, Loop, Node
from tf_exla.ir.open_sizes import is_of_unknown_size
from tf_exla.model.sizes import Sizes

SMALL_BYTES = 4096
"""Bytes that a loop of unknown length may keep per iteration without being refused."""


@dataclass(frozen=True, slots=True)
class Unbounded:
    """A size without a bound: of a node's result, or of a While that keeps `bytes` per iteration.

    `outside`: the size may come from outside the program: an input of unknown size, an iterator's
    element, a variable.
    """

    node: Node
    bytes: int | None = None
    outside: bool = False


def unbounded(sizes: Sizes, graph: Graph) -> Iterator[Unbounded]:
    """Yield the causes of unbounded sizes, each once, in the order of the nodes."""
    seen: set[Node] = set()
    # A size that comes from an input of unknown size has no cause.
    for one in _unbounded(sizes, graph, any(map(is_of_unknown_size, graph.inputs))):
        if one.node not in seen:
            seen.add(one.node)
            yield one


def keeps_bounded_lists(sizes: Sizes, graph: Graph) -> bool:
    """Return whether the lists that loops keep are bounded."""
    return all(one.bytes is None for one in unbounded(sizes, graph))


def _unbounded(sizes: Sizes, graph: Graph, inputs: bool) -> Iterator[Unbounded]:
    sizes.lists(graph)
    for node in graph.nodes:
        if isinstance(node, Loop):
            continue
        for _, sub in node.subgraphs:
            yield from _unbounded(sizes, sub, inputs)
        for tensor in node.outputs:
            if not is_of_unknown_size(tensor) or sizes.most(tensor).size is not None:
                continue
            cause = sizes.cause(tensor) or (None if inputs else node)
            if cause is not None:
                yield Unbounded(cause, outside=inputs or _from_outside(cause))
        if is_while(node) and sizes.iterations(node) is None:
            kept = sum(one.added for _, one in sizes.kept(node) if one.most is None)
            if kept > SMALL_BYTES:
                yield Unbounded(node, kept)


def _from_outside(node: Node) -> bool:
    """Return whether a node reads from outside the program: an iterator, a variable, a queue."""
    return all(tensor.dtype == "resource" for tensor in node.inputs) and (
        node.stateful or node.op == "read_variable"
    )
