"""Cuts of programs: the head that runs first, and the rest, which takes the head's results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
import tensorflow as tf

from tf_exla.frontends.tf.capture.effects import READS
from tf_exla.frontends.tf.capture.given import Given, Key, constant_value
from tf_exla.frontends.tf.cutting.dataset_loops import REDUCTION
from tf_exla.frontends.tf.cutting.stepped_control import stepped_at
from tf_exla.frontends.tf.cutting.steps import Beside, Stepped
from tf_exla.frontends.tf.held import element_dtype, held_bytes
from tf_exla.frontends.tf.op_set import OPS
from tf_exla.ir.bounds import HANDLES
from tf_exla.ir.dtypes import INTEGERS
from tf_exla.ir.graph import Graph, Node, Shape, Tensor, const
from tf_exla.ir.traverse import producers, reads, without_dead
from tf_exla.model.sizes import Sizes

# The head computes outputs of up to this many bytes if it can, so that the rest does not.
_SMALL_OUTPUTS = 1 << 20


@dataclass(frozen=True)
class Cut:
    """A cut of a program into its head and the rest.

    `head`: the graph that runs first. Its outputs are the results `keys`, then some `outputs` of
    the program, then `sizes`, then the operands of `loop`. `nodes`: the names of the nodes that
    only the head runs. `keys`: the results that the rest takes as inputs. `outputs`: the positions
    of the program's outputs that the head computes.

    `sources`: the number of results of each source, by name. `sizes`: integers that determine
    sizes, by name or, if they are inputs, by position. `awaited`: nodes whose results need no
    bound, since the rest has them as inputs.

    `beside`: the effects of the rest that read no result of a source, as a graph with the inputs of
    the head. At the end of a dataset, TensorFlow runs them although the source fails.

    `variables`: the names of sources that are the value of a variable during the whole call, by
    `constant_value`. `loop`: control flow that runs between the head and the rest. Its results are
    the last `keys`.
    """

    head: Graph
    nodes: frozenset[str]
    keys: tuple[Key, ...]
    outputs: tuple[int, ...]
    sources: Mapping[str, int]
    sizes: tuple[str | int, ...] = ()
    awaited: frozenset[str] = frozenset()
    beside: Graph | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    loop: Stepped | None = None

    @property
    def only_reads(self) -> bool:
        """Whether the head has no effect."""
        return all(node.op in READS for node in self.head.nodes if node.stateful)

    @property
    def is_differentiable(self) -> bool:
        """Whether the gradient of the rest is that of the program: a dataset's loop has none."""
        return self.loop is None or self.loop.node.op == REDUCTION

    def take_operands(
        self, values: list[tf.Tensor], resident: int
    ) -> tuple[list[tf.Tensor], Beside]:
        """Remove the operands of the loop from the head's values.

        Returns the operands, and what stays in memory while the loop runs. `resident`: bytes of the
        program's inputs.
        """
        assert self.loop is not None
        first = len(values) - len(self.loop.operands)
        one: dict[Tensor, tf.Tensor] = {}  # equal operands are one object
        made = zip(self.loop.operands, values[first:], strict=True)
        operands = [one.setdefault(tensor, value) for tensor, value in made]
        del values[first:], one, made
        sizes = {tensor: tensor.nbytes + tensor.held for tensor in self.head.inputs}
        kept = zip(self.head.outputs, values, strict=False)
        elements = {
            key: one.element for key, one in zip(self.head.outputs, self.keys, strict=False)
        }
        stay = {one: held_bytes(value, elements.get(one, "")) for one, value in kept}
        beside = resident + sum(size for one, size in stay.items() if one not in sizes)
        stay.update(sizes)
        lasting = zip(self.loop.operands, operands, strict=True)
        return operands, Beside(beside, tuple((v, stay[t]) for t, v in lasting if t in stay))

    def looped(self, values: list[tf.Tensor], made: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Return the head's values without operands, and the results of the loop in their place."""
        keys = len(values) - len(self.outputs)
        return [*values[:keys], *made, *values[keys:]]

    def then(
        self, given: Given, before: Sequence[tf.Tensor], values: Sequence[tf.Tensor]
    ) -> tuple[Given, list[tf.Tensor]]:
        """Return what the rest is given, and the values of its further inputs.

        `given`, `before`: the same of this program, from earlier heads. `values`: those of this
        head, with the results of the loop.
        """
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
        shapes.update((name, shapes[read]) for name, read in self.variables.items())
        made = Given(
            given.nodes | self.nodes,
            given.keys + self.keys,
            given.outputs + self.outputs,
            MappingProxyType(shapes),
            {**given.values, **{n: v.numpy() for n, v in zip(self.sizes, sizes, strict=True)}},
            {**given.lists, **_lists(self.keys, values)},
            given.saves and self.is_differentiable,
        )
        return made, [*before[:count], *values[:new], *before[count:], *values[new:]]


def _lists(keys: Sequence[Key], values: Sequence[tf.Tensor]) -> dict[int | Key, int]:
    """Return the bytes that lists hold, by their keys."""
    pairs = zip(keys, values, strict=False)
    return {key: held_bytes(value, key.element) for key, value in pairs if key.element}


def _shape(value: tf.Tensor) -> Shape | None:
    if value.dtype in (tf.resource, tf.variant):
        return None
    return tuple(value.shape.as_list())


# Many parameters: what a cut consists of.
def make_cut(
    graph: Graph,
    ran: list[Node],
    sources: list[Node],
    saves: Iterable[Tensor],
    given: Given,
    sizes: tuple[Tensor, ...] = (),
    rest: Iterable[Node] = (),
) -> Cut:
    """Return the cut after the nodes `ran`, which include the `sources`.

    A loop or branch that runs step by step may be the only source. `saves`: tensors that the rest
    computes in addition to its outputs. `sizes`: integers that the head computes, from which sizes
    follow. `rest`: nodes whose results have one of these sizes, although they do not read it.
    """
    made_by = producers(graph)
    loop = stepped_at(sources[0], made_by) if sources else None
    later = {node for node in graph.nodes if node.stateful}.difference(ran)
    if loop is not None:
        later.add(loop.node)
    outputs = _early_outputs(graph, set(ran), later.union(sources, rest), sizes)
    early = [k for k in outputs if k not in given.outputs]
    shared = [] if loop is None else _shared(loop, made_by)
    ran = [*shared, *ran]
    kept = _kept(graph, ran, sources, early, saves)
    looped = {loop.node.name} if loop else set()
    head = without_dead(
        graph.replace(
            nodes=tuple(node for node in graph.nodes if node not in later),
            outputs=(
                *(tensor for name, _, tensor in kept if name not in looped),
                *(graph.outputs[k] for k in early),
                *sizes,
                *(loop.operands if loop else ()),
            ),
        )
    )
    own = len(graph.inputs) - len(given.keys) - len(given.outputs)
    places = {tensor: k for k, tensor in enumerate(graph.inputs[:own])}
    bounds = Sizes(OPS)
    bounds.lists(graph)
    return Cut(
        head,
        frozenset(node.name for node in ran),
        tuple(
            Key(name, k, tensor.dtype, *_range(bounds, tensor), element_dtype(graph, tensor))
            for name, k, tensor in kept
        ),
        tuple(early),
        {node.name: len(node.outputs) for node in (*sources, *shared)},
        tuple(places.get(tensor, tensor.name) for tensor in sizes),
        variables={
            constant_value(node.inputs[0].name): node.name
            for node in sources
            if node.op == "read_variable" and not node.stateful and node.inputs[0] in places
        },
        loop=loop,
    )


def _kept(
    graph: Graph, ran: list[Node], sources: list[Node], early: list[int], saves: Iterable[Tensor]
) -> list[tuple[str, int, Tensor]]:
    """Return the results of `ran` that the rest reads, and all results of `sources`.

    Each is (name of the node, position among its results, tensor).
    """
    apart, known = set(ran), set(sources)
    outputs = (tensor for k, tensor in enumerate(graph.outputs) if k not in early)
    nodes = tuple(node for node in graph.nodes if node not in apart)
    read = reads(without_dead(graph.replace(nodes=nodes, outputs=(*outputs, *saves))))
    return [
        (node.name, k, tensor)
        for node in ran
        for k, tensor in enumerate(node.outputs)
        if tensor in read or node in known
    ]


def _shared(loop: Stepped, made_by: Mapping[Tensor, Node]) -> list[Node]:
    """Return the nodes that compute operands of a loop, if the rest can take their results.

    Operands exist while the loop runs, so it takes no further memory to pass them to the rest.
    """
    makers = dict.fromkeys(made_by[tensor] for tensor in loop.operands if tensor in made_by)
    return [node for node in makers if _can_be_given(node)]


def _can_be_given(node: Node) -> bool:
    """Return whether the result of a node can be an input of the rest, instead of the node."""
    if node.stateful or node.op == "constant" or len(node.outputs) != 1:
        return False
    return node.output.is_static and node.output.dtype not in HANDLES


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
        else:  # the program for these sizes does not contain the node
            made = Tensor(given.shapes[key.name][key.position], key.dtype)
        given_as, clips = _clipped(made, key)
        shape = given.shapes[key.name][key.position] if key.name in given.shapes else None
        if key in given.lists or (shape is not None and not made.is_static):
            # The node's result lacks these: the bytes of a list, the size of a saved value.
            held = given.lists.get(key, 0)
            given_as = Tensor(shape or made.shape, made.dtype, made.name, held=held)
            clips = [Node("identity", (given_as,), (made,), name=f"{made.name}/given")]
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
    """Return the least and the largest possible integer of a tensor, or None for both.

    The rest, which does not contain the node, cannot infer them itself.
    """
    most = bounds.most(tensor)
    if tensor.dtype not in INTEGERS or most.top is None or most.below is None:
        return None, None
    return -most.below, most.top


def _clipped(tensor: Tensor, key: Key) -> tuple[Tensor, list[Node]]:
    """Return an input for a tensor, and nodes that clip it to the known bounds of its integers.

    No value exceeds them. The nodes make the bounds known to the passes.
    """
    if key.least is None or key.most is None:
        return tensor, []
    low, high = (const(np.array(one, key.dtype), tensor.name) for one in (key.least, key.most))
    given, clipped = tensor.fresh_copy(), tensor.fresh_copy()
    nodes = [
        Node("maximum", (given, low.output), (clipped,), name=f"{tensor.name}/least"),
        Node("minimum", (clipped, high.output), (tensor,), name=f"{tensor.name}/most"),
    ]
    return given, [low, high, *nodes]
