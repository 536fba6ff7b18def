"""Cuts of programs where sizes appear in a call: an iterator's `next`, a variable without shape.

A program is cut behind such *sources*. Its *head* runs all effects up to there, once and in order,
and returns the results of these nodes. The rest is captured again for the sizes of these results,
which are its inputs. The rest of a program with several sources is cut again.

Sizes that are computed, as the number of rows that a mask selects, have upper bounds, by which a
program is planned as a whole. Only if this fails it is cut behind the nodes that determine them.

A graph cannot look at sizes. In a call from a graph, and inside loops and branches, they stay open.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

import tensorflow as tf

from tf_exla.frontends.tf.effects import READS
from tf_exla.frontends.tf.random_state import COUNTED, keeps_state
from tf_exla.ir.graph import Graph, Node, Shape, Tensor
from tf_exla.ir.traverse import producers, reads, without_dead

# Elements of iterators. Results of effects that read only inputs and constants are sources too.
_ITERATORS = frozenset({"IteratorGetNext", "IteratorGetNextSync", "OptionalGetValue"})
_HANDLES = ("resource", "variant")
# The head computes outputs of up to this many bytes if it can, so that the rest does not.
_SMALL_OUTPUTS = 1 << 20


class Key(NamedTuple):
    """A result of a node: the node's name, the position, and the dtype."""

    name: str
    position: int
    dtype: str


@dataclass(frozen=True)
class Given:
    """The results of the heads before a program.

    `nodes`: the names of nodes that ran. After its constants, the program takes their results
    `keys`, and then its own `outputs` that are computed already, by position. `shapes`: the shapes
    of results of sources, by node name.
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
    """A cut; `head.outputs`: new `keys`, then new `outputs`; `nodes`: those only the head runs.

    `sources`: their names, with the number of their results.
    """

    head: Graph
    nodes: frozenset[str]
    keys: tuple[Key, ...]
    outputs: tuple[int, ...]
    sources: Mapping[str, int]

    def then(
        self, given: Given, before: Sequence[tf.Tensor], values: Sequence[tf.Tensor]
    ) -> tuple[Given, list[tf.Tensor]]:
        """Return the `Given` of the rest and its values: those of `before` and of the head."""
        count, new = len(given.keys), len(self.keys)
        came = {
            (key.name, key.position): _shape(value)
            for key, value in zip(self.keys, values, strict=False)
        }
        shapes = dict(given.shapes)
        for name, results in self.sources.items():
            shapes[name] = tuple(came.get((name, k)) for k in range(results))
        made = Given(
            given.nodes | self.nodes,
            given.keys + self.keys,
            given.outputs + self.outputs,
            MappingProxyType(shapes),
        )
        return made, [*before[:count], *values[:new], *before[count:], *values[new:]]


def _shape(value: tf.Tensor) -> Shape | None:
    if value.dtype in (tf.resource, tf.variant):
        return None
    return tuple(value.shape.as_list())


def find_cut(graph: Graph, saves: Iterable[Tensor], given: Given) -> Cut | None:
    """Return the cut of a program behind its first sources, or None if it has none."""
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
    for node in graph.nodes[order[found] + 1 :]:  # further sources that can run at once
        if _is_source(node, made_by, given) and all(
            tensor in graph.inputs or made_by[tensor] in ran or made_by[tensor].op == "constant"
            for tensor in node.inputs
        ):
            ran.append(node)
            sources.append(node)
        elif node.stateful and node not in ran:
            break
    return _cut(graph, ran, sources, saves, given)


def find_computed_cut(graph: Graph, saves: Iterable[Tensor], given: Given) -> Cut | None:
    """Return the cut of a program behind nodes whose results have sizes that data determine.

    None if there are none that can run before all effects on variables and other resources: if the
    rest is refused, nothing must have changed. None also if the kernel of a random op with a seed,
    which has its state, would be in the rest: there would be one for each of the sizes.
    """
    effects: list[Node] = []
    sources: list[Node] = []
    late: set[Tensor] = set()  # what depends on sources, or on effects that the head cannot run
    blocked = False
    for node in graph.nodes:
        waits = any(tensor in late for tensor in node.inputs)
        if node.stateful:
            blocked |= waits or not _changes_nothing(node)
        if waits or (node.stateful and blocked):
            late.update(node.outputs)
            if node.op not in COUNTED and keeps_state(node):
                return None
            continue
        if node.stateful:
            effects.append(node)
        if _has_open_sizes(node, given):
            sources.append(node)
            late.update(node.outputs)
    if not sources:
        return None
    needed = _ancestors(sources, producers(graph))
    early = (k for k, node in enumerate(effects) if node in needed or keeps_state(node))
    ran = dict.fromkeys((*effects[: max(early, default=-1) + 1], *sources))
    return _cut(graph, list(ran), sources, saves, given)


def _changes_nothing(node: Node) -> bool:
    """Return whether a stateful node changes at most the state of random numbers."""
    if node.subgraphs:
        return False
    return (
        node.op in READS
        or node.op == "RngReadAndSkip"
        or all(tensor.dtype not in _HANDLES for tensor in node.inputs)
    )


def _cut(
    graph: Graph, ran: list[Node], sources: list[Node], saves: Iterable[Tensor], given: Given
) -> Cut:
    made_by = producers(graph)
    apart = set(ran)
    later = {node for node in graph.nodes if node.stateful and node not in apart}
    tainted: set[Tensor] = set()  # tensors that depend on the sizes or on later effects
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
        tuple(Key(name, k, tensor.dtype) for name, k, tensor in kept),
        tuple(early),
        {node.name: len(node.outputs) for node in sources},
    )


def cut_away(graph: Graph, saves: Sequence[Tensor], given: Given) -> Graph:
    """Return the rest of a program, with the results and outputs of its heads as inputs.

    `saves`: tensors that it computes in addition to its outputs.
    """
    nodes = {node.name: node for node in graph.nodes if node.name in given.nodes}
    inputs = [
        nodes[key.name].outputs[key.position]
        if key.name in nodes
        else Tensor(given.shapes[key.name][key.position], key.dtype)  # not read at these sizes
        for key in given.keys
    ]
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
    if not _has_open_sizes(node, given):
        return False
    if node.op in _ITERATORS:
        return True
    if not node.stateful and node.op != "read_variable":
        return False
    return all(tensor not in made_by or made_by[tensor].op == "constant" for tensor in node.inputs)


def _has_open_sizes(node: Node, given: Given) -> bool:
    """Return whether sizes of a node's results are not known yet."""
    if node.name in given.shapes or node.subgraphs:
        return False
    return not all(tensor.is_static or tensor.dtype in _HANDLES for tensor in node.outputs)


def _ancestors(nodes: Iterable[Node], made_by: Mapping[Tensor, Node]) -> set[Node]:
    """Return nodes with their transitive producers."""
    found: set[Node] = set()
    work = list(nodes)
    while work:
        node = work.pop()
        if node not in found:
            found.add(node)
            work += [made_by[tensor] for tensor in node.inputs if tensor in made_by]
    return found
