"""Cuts of programs where sizes appear in a call: an iterator's `next`, a variable without shape.

A program is cut behind such *sources*. Its *head* runs all effects up to there, once and in order,
and returns the results of these nodes. The rest is captured again for the sizes of these results,
which are its inputs. The rest of a program with several sources is cut again.

Sizes that are computed, as the number of rows that a mask selects, may have upper bounds, by which
a program is planned as a whole. Only if this fails it is cut: behind small integers from which a
size follows (`tf.range(n)`), which are constants of the rest, or behind nodes whose results have
such a size (the mask's positions).

A graph cannot look at sizes. In a call from a graph, and inside loops and branches, they stay open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
import tensorflow as tf

from tf_exla.frontends.tf.effects import READS
from tf_exla.frontends.tf.given import Given, Key
from tf_exla.frontends.tf.op_set import OPS
from tf_exla.frontends.tf.random_state import COUNTED, keeps_state
from tf_exla.ir.bounds import HANDLES
from tf_exla.ir.graph import Graph, Node, Shape, Tensor, const
from tf_exla.ir.traverse import producers, reads, without_dead
from tf_exla.model.sizes import Sizes

# Elements of iterators. Results of effects that read only inputs and constants are sources too.
_ITERATORS = frozenset({"IteratorGetNext", "IteratorGetNextSync", "OptionalGetValue"})
_INTEGERS = ("int32", "int64")
# The head computes outputs of up to this many bytes if it can, so that the rest does not.
_SMALL_OUTPUTS = 1 << 20
# Integers from which sizes follow: a number, or a shape.
_FEW = 8


@dataclass(frozen=True)
class Cut:
    """A cut; `head.outputs`: new `keys`, then new `outputs`; `nodes`: those only the head runs.

    `sources`: their names, with the number of their results. `sizes`: integers that determine
    sizes, the last outputs of the head, by name or, if they are inputs, by position. `awaited`:
    nodes whose results need no bound, since the rest has them as inputs.
    """

    head: Graph
    nodes: frozenset[str]
    keys: tuple[Key, ...]
    outputs: tuple[int, ...]
    sources: Mapping[str, int]
    sizes: tuple[str | int, ...] = ()
    awaited: frozenset[str] = frozenset()

    @property
    def only_reads(self) -> bool:
        """Whether the head has no effect."""
        return all(node.op in READS for node in self.head.nodes if node.stateful)

    def then(
        self, given: Given, before: Sequence[tf.Tensor], values: Sequence[tf.Tensor]
    ) -> tuple[Given, list[tf.Tensor]]:
        """Return the `Given` of the rest and its values: those of `before` and of the head."""
        split = len(values) - len(self.sizes)
        values, sizes = values[:split], values[split:]
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
            {**given.values, **{n: v.numpy() for n, v in zip(self.sizes, sizes, strict=True)}},
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
    cut = _cut(graph, ran, sources, saves, given)
    return replace(cut, awaited=cut.nodes)


def find_computed_cut(graph: Graph, saves: Iterable[Tensor], given: Given) -> Cut | None:
    """Return the cut of a program behind nodes whose results have sizes that data determine.

    None if there are none that can run before all effects on variables and other resources: if the
    rest is refused, nothing must have changed. None also if the kernel of a random op with a seed,
    which has its state, would be in the rest: there would be one for each of the sizes.
    """
    made_by = producers(graph)
    effects: list[Node] = []
    sources: list[Node] = []
    sizes: dict[Tensor, None] = {}
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
            late.update(node.outputs)
            found = [tensor for tensor in node.inputs if _may_be_sizes(tensor)]
            sizes.update(dict.fromkeys(found))
            if not found:
                sources.append(node)
            elif node.stateful and node.op in COUNTED:
                effects.remove(node)  # it becomes stateless in the rest
    if not sources and not sizes:
        return None
    makers = [made_by[tensor] for tensor in sizes if tensor in made_by]
    needed = _ancestors([*sources, *makers], made_by)
    early = (k for k, node in enumerate(effects) if node in needed or keeps_state(node))
    ran = dict.fromkeys((*effects[: max(early, default=-1) + 1], *sources))
    return _cut(graph, list(ran), sources, saves, given, tuple(sizes))


def _may_be_sizes(tensor: Tensor) -> bool:
    """Return whether a tensor is a few integers that are not known yet."""
    few = tensor.is_static and tensor.size <= _FEW
    return few and tensor.value is None and tensor.dtype in _INTEGERS


def _changes_nothing(node: Node) -> bool:
    """Return whether a stateful node changes at most the state of random numbers."""
    if node.subgraphs:
        return False
    return (
        node.op in READS
        or node.op == "RngReadAndSkip"
        or all(tensor.dtype not in HANDLES for tensor in node.inputs)
    )


def _cut(
    graph: Graph,
    ran: list[Node],
    sources: list[Node],
    saves: Iterable[Tensor],
    given: Given,
    sizes: tuple[Tensor, ...] = (),
) -> Cut:
    apart = set(ran)
    later = {node for node in graph.nodes if node.stateful and node not in apart}
    outputs = _early_outputs(graph, apart, later.union(sources), sizes)
    early = [k for k in outputs if k not in given.outputs]
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
            outputs=(
                *(tensor for _, _, tensor in kept),
                *(graph.outputs[k] for k in early),
                *sizes,
            ),
        )
    )
    places = {tensor: k for k, tensor in enumerate(graph.inputs)}
    bounds = Sizes(OPS)
    bounds.lists(graph)
    return Cut(
        head,
        frozenset(node.name for node in ran),
        tuple(Key(name, k, tensor.dtype, *_range(bounds, tensor)) for name, k, tensor in kept),
        tuple(early),
        {node.name: len(node.outputs) for node in sources},
        tuple(places.get(tensor, tensor.name) for tensor in sizes),
    )


def _early_outputs(
    graph: Graph, ran: set[Node], late: set[Node], sizes: tuple[Tensor, ...]
) -> Iterator[int]:
    """Yield the positions of small outputs that depend on neither `sizes` nor later effects."""
    tainted = set(sizes)
    for node in graph.nodes:
        if node in late or any(tensor in tainted for tensor in node.inputs):
            tainted.update(node.outputs)
    made_by = producers(graph)
    for position, tensor in enumerate(graph.outputs):
        if tensor in tainted or tensor not in made_by or made_by[tensor] in ran:
            continue
        if tensor.is_static and tensor.nbytes <= _SMALL_OUTPUTS:
            yield position


def cut_away(graph: Graph, saves: Sequence[Tensor], given: Given) -> Graph:
    """Return the rest of a program, with the results and outputs of its heads as inputs.

    `saves`: tensors that it computes in addition to its outputs.
    """
    ran = {node.name: node for node in graph.nodes if node.name in given.nodes}
    nodes: list[Node] = []
    inputs = []
    for key in given.keys:
        if key.name in ran:
            made = ran[key.name].outputs[key.position]
        else:  # it is not read at these sizes
            made = Tensor(given.shapes[key.name][key.position], key.dtype)
        given_as, clips = _clipped(made, key)
        nodes += clips
        inputs.append(given_as)
    outputs = list(graph.outputs)
    for position in given.outputs:
        outputs[position] = outputs[position].fresh_copy()
        inputs.append(outputs[position])
    rest = Graph(
        (*graph.inputs, *inputs),
        (*nodes, *(node for node in graph.nodes if node.name not in given.nodes)),
        (*outputs, *saves),
    )
    return without_dead(rest).replace(outputs=tuple(outputs))


def _range(bounds: Sizes, tensor: Tensor) -> tuple[int | None, int | None]:
    """Return bounds of a tensor's integers, which the rest cannot know from the node."""
    most = bounds.most(tensor)
    if tensor.dtype not in _INTEGERS or most.top is None or most.below is None:
        return None, None
    return -most.below, most.top


def _clipped(tensor: Tensor, key: Key) -> tuple[Tensor, list[Node]]:
    """Return an input for a tensor, and the nodes that say the bounds of its integers."""
    if key.least is None or key.most is None:
        return tensor, []
    low, high = (const(np.array(one, key.dtype), tensor.name) for one in (key.least, key.most))
    given, clipped = tensor.fresh_copy(), tensor.fresh_copy()
    nodes = [
        Node("maximum", (given, low.output), (clipped,), name=f"{tensor.name}/least"),
        Node("minimum", (clipped, high.output), (tensor,), name=f"{tensor.name}/most"),
    ]
    return given, [low, high, *nodes]


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
    return not all(tensor.is_static or tensor.dtype in HANDLES for tensor in node.outputs)


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
