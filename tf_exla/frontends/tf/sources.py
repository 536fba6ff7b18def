"""Where sizes come in during a call: an iterator's `next`, a variable without a shape.

A program is cut behind such *sources*. Its *head* runs all that has effects up to there, once and
in order, and gives what these nodes gave. The rest is captured again for the sizes that came, with
what the head gave as inputs. The rest of a program with several sources is cut again.

A graph cannot look at sizes: in a call from one, and inside of loops and branches, they stay open.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import tensorflow as tf

from tf_exla.ir.graph import Graph, Node, Shape, Tensor
from tf_exla.ir.traverse import producers, reads, without_dead

# Elements of iterators; and whatever an effect gives that nothing has to be computed for.
_ITERATORS = frozenset({"IteratorGetNext", "IteratorGetNextSync", "OptionalGetValue"})
_HANDLES = ("resource", "variant")
# Outputs up to so many bytes are computed by the head where it can, and not again by the rest.
_SMALL_OUTPUTS = 1 << 20

Key = tuple[str, int]
"""A result of a node: the node's name, and the position."""


@dataclass(frozen=True)
class Given:
    """What the heads before a program have done.

    `nodes`: the names of nodes that ran. `keys`: their results that the program is given, after its
    constants, and then the `outputs` of the program, by position. `shapes`: the sizes that came.
    """

    nodes: frozenset[str] = frozenset()
    keys: tuple[Key, ...] = ()
    outputs: tuple[int, ...] = ()
    shapes: Mapping[str, tuple[Shape | None, ...]] = field(
        default_factory=lambda: MappingProxyType({})
    )


NOTHING = Given()


@dataclass(frozen=True)
class Cut:
    """`head.outputs`: the new `keys`, then the new `outputs`; `nodes`: what only the head runs."""

    head: Graph
    nodes: frozenset[str]
    keys: tuple[Key, ...]
    outputs: tuple[int, ...]
    sources: tuple[Key, ...]

    def then(
        self, given: Given, before: Sequence[tf.Tensor], values: Sequence[tf.Tensor]
    ) -> tuple[Given, list[tf.Tensor]]:
        """Return what the rest is given, and the values: those of `before`, and of the head."""
        count, new = len(given.keys), len(self.keys)
        came = dict(zip(self.keys, values, strict=False))
        shapes = dict(given.shapes)
        for name, _ in self.sources:
            known = (came.get((name, k)) for k in range(self._results(name)))
            shapes[name] = tuple(None if value is None else _shape(value) for value in known)
        made = Given(
            given.nodes | self.nodes,
            given.keys + self.keys,
            given.outputs + self.outputs,
            MappingProxyType(shapes),
        )
        return made, [*before[:count], *values[:new], *before[count:], *values[new:]]

    def _results(self, name: str) -> int:
        return 1 + max(position for source, position in self.sources if source == name)


def _shape(value: tf.Tensor) -> Shape | None:
    if value.dtype in (tf.resource, tf.variant):
        return None
    return tuple(value.shape.as_list())


def find_cut(graph: Graph, saves: Iterable[Tensor], given: Given) -> Cut | None:
    """Return where to cut a program: behind its first sources; None where it has none."""
    made_by = producers(graph)
    order = {node: k for k, node in enumerate(graph.nodes)}
    found = next((node for node in graph.nodes if _is_source(node, made_by, given)), None)
    if found is None:
        return None
    last = max((order[node] for node in _ancestors([found], made_by) if node.stateful), default=-1)
    ran = [node for node in graph.nodes[: last + 1] if node.stateful]
    if found not in ran:
        ran.append(found)
    sources = [found]
    for node in graph.nodes[order[found] + 1 :]:  # what comes at once
        if _is_source(node, made_by, given) and all(
            tensor in graph.inputs or made_by[tensor] in ran or made_by[tensor].op == "constant"
            for tensor in node.inputs
        ):
            ran.append(node)
            sources.append(node)
        elif node.stateful and node not in ran:
            break
    return _cut(graph, ran, sources, saves, given)


def _cut(
    graph: Graph, ran: list[Node], sources: list[Node], saves: Iterable[Tensor], given: Given
) -> Cut:
    made_by = producers(graph)
    apart = set(ran)
    later = {node for node in graph.nodes if node.stateful and node not in apart}
    tainted: set[Tensor] = set()  # what waits for the sizes, or for later effects
    for node in graph.nodes:
        if node in later or node in sources or any(tensor in tainted for tensor in node.inputs):
            tainted.update(node.outputs)
    early = [
        k
        for k, tensor in enumerate(graph.outputs)
        if k not in given.outputs
        and tensor not in tainted
        and tensor not in graph.inputs
        and made_by[tensor] not in apart
        and tensor.is_static
        and tensor.nbytes <= _SMALL_OUTPUTS
    ]
    rest = without_dead(
        graph.replace(
            nodes=tuple(node for node in graph.nodes if node not in apart),
            outputs=(
                *(tensor for k, tensor in enumerate(graph.outputs) if k not in early),
                *saves,
            ),
        )
    )
    read = reads(rest)
    kept = [
        (node.name, k, tensor)
        for node in ran
        for k, tensor in enumerate(node.outputs)
        if tensor in read or node in sources
    ]
    head = without_dead(
        graph.replace(
            nodes=tuple(node for node in graph.nodes if node not in later),
            outputs=(*(tensor for _, _, tensor in kept), *(graph.outputs[k] for k in early)),
        )
    )
    return Cut(
        head,
        frozenset(node.name for node in ran),
        tuple((name, k) for name, k, _ in kept),
        tuple(early),
        tuple((node.name, k) for node in sources for k in range(len(node.outputs))),
    )


def cut_away(graph: Graph, saves: Sequence[Tensor], given: Given) -> Graph:
    """Return the rest of a program: with results of the nodes that ran, and outputs, as inputs.

    `saves`: tensors that it makes beside its outputs.
    """
    nodes = {node.name: node for node in graph.nodes if node.name in given.nodes}
    inputs = [nodes[name].outputs[position] for name, position in given.keys]
    outputs = list(graph.outputs)
    for position in given.outputs:
        outputs[position] = outputs[position].fresh_copy()
        inputs.append(outputs[position])
    rest = Graph(
        (*graph.inputs, *inputs),
        tuple(node for node in graph.nodes if node.name not in given.nodes),
        (*outputs, *saves),
    )
    return without_dead(rest).replace(outputs=tuple(outputs))


def _is_source(node: Node, made_by: Mapping[Tensor, Node], given: Given) -> bool:
    if node.name in given.shapes or node.subgraphs or not node.outputs:
        return False
    if all(tensor.is_static or tensor.dtype in _HANDLES for tensor in node.outputs):
        return False
    if node.op in _ITERATORS:
        return True
    if not node.stateful and node.op != "read_variable":
        return False
    return all(tensor not in made_by or made_by[tensor].op == "constant" for tensor in node.inputs)


def _ancestors(nodes: Iterable[Node], made_by: Mapping[Tensor, Node]) -> set[Node]:
    """Return nodes with all that they are made of."""
    found: set[Node] = set()
    work = list(nodes)
    while work:
        node = work.pop()
        if node not in found:
            found.add(node)
            work += [made_by[tensor] for tensor in node.inputs if tensor in made_by]
    return found
