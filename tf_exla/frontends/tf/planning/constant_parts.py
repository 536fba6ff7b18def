"""Results of constants: computed once, before the first call, and then inputs of the plans.

TensorFlow folds such results up to 10 MB when it runs a function for the first time. A plan hides
constants from it, since TensorFlow would keep each result twice (`emitter.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import tensorflow as tf

from tf_exla.frontends.tf.op_set import OPS
from tf_exla.ir.clean import clean
from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.ir.traverse import reads, without_dead
from tf_exla.model.cost import graph_seconds, node_seconds
from tf_exla.model.settings import SETTINGS
from tf_exla.pipeline.plan import Plan

# As TensorFlow's `constant_folding.cc`: larger results are computed in each call.
MOST_BYTES = 10 << 20

_NO_NUMBERS = frozenset({"resource", "string", "variant"})


@dataclass(eq=False)
class _Part:
    """A plan that computes some `results`; `arguments`: the values of its inputs."""

    results: tuple[Tensor, ...]
    plan: Plan
    arguments: tuple[tf.Tensor, ...]


@dataclass(frozen=True)
class ConstantParts:
    """The results of constants that the plans of one concrete function read.

    `_instead`: the input of the plans that replaces a result; `_replaced`: the reverse.
    """

    _instead: dict[Tensor, Tensor] = field(default_factory=dict)
    _replaced: dict[Tensor, Tensor] = field(default_factory=dict)
    _parts: dict[Tensor, _Part] = field(default_factory=dict)
    _values: dict[Tensor, tf.Tensor] = field(default_factory=dict)

    def folded(
        self,
        graph: Graph,
        constants: Mapping[Tensor, tf.Tensor],
        plan: Callable[[Graph], Plan],
    ) -> Graph | None:
        """Return a graph whose results of constants are inputs, after all others.

        `constants`: the values of inputs that are constants. `plan` makes the plan of the nodes
        that compute the results, and may raise `MemoryLimitError`. None if a call would save less
        than a twentieth of its time.
        """
        if self.inputs(graph):
            return None
        if not _worth_keeping(graph, _constant_nodes(graph, constants)):
            return None
        graph = clean(graph, OPS)  # equal results are kept once
        constant = _constant_nodes(graph, constants)
        results = _worth_keeping(graph, constant)
        if not results:
            return None
        new = [result for result in results if result not in self._instead]
        if new:
            part = without_dead(graph.replace(nodes=tuple(constant), outputs=tuple(new)))
            needed = reads(part)
            inputs = tuple(tensor for tensor in constants if tensor in needed)
            planned = plan(part.replace(inputs=inputs))
            made = _Part(tuple(new), planned, tuple(constants[tensor] for tensor in inputs))
            for result in new:
                kept = Tensor(result.shape, result.dtype, f"{result.name}_folded")
                self._instead[result], self._replaced[kept] = kept, result
                self._parts[result] = made
        instead = {result: self._instead[result] for result in results}
        return without_dead(
            graph.replace(
                inputs=(*graph.inputs, *instead.values()),
                nodes=tuple(node.substitute(instead) for node in graph.nodes),
                outputs=tuple(instead.get(tensor, tensor) for tensor in graph.outputs),
            )
        )

    def inputs(self, graph: Graph) -> list[Tensor]:
        """Return the inputs of a graph that replace results."""
        return [tensor for tensor in graph.inputs if tensor in self._replaced]

    def values(
        self, graph: Graph, run: Callable[[Plan, Sequence[tf.Tensor]], list[tf.Tensor]]
    ) -> tuple[tf.Tensor, ...]:
        """Return the values of the inputs of a folded graph that replace results.

        `run`: runs a plan on arguments. It is called only for values that are not known yet.
        """
        results = [self._replaced[tensor] for tensor in self.inputs(graph)]
        for result in results:
            if result not in self._values:
                part = self._parts[result]
                values = run(part.plan, part.arguments)
                self._values.update(zip(part.results, values, strict=True))
        return tuple(self._values[result] for result in results)


def _constant_nodes(graph: Graph, constants: Collection[Tensor]) -> list[Node]:
    """Return the nodes that read only constants and have results that TensorFlow would fold."""
    nodes, known = [], {tensor for tensor in constants if tensor.dtype not in _NO_NUMBERS}
    for node in graph.nodes:
        if node.stateful or node.subgraphs or not known.issuperset(node.inputs):
            continue
        if (node.inputs or node.op == "constant") and all(map(_is_foldable, node.outputs)):
            nodes.append(node)
            known.update(node.outputs)
    return nodes


def _is_foldable(tensor: Tensor) -> bool:
    return tensor.dtype not in _NO_NUMBERS and tensor.is_static and tensor.nbytes <= MOST_BYTES


def _worth_keeping(graph: Graph, constant: Sequence[Node]) -> tuple[Tensor, ...]:
    """Return the results of `constant` to compute once and keep.

    There are none if that saves less than a twentieth of the time of a call. In general they are
    the results that the rest reads. But if the operands of a node are not larger than its result,
    they are kept in its place, and the node runs in each call. That is done for nodes without
    arithmetic, such as zeros and repeated rows, and for others as long as all of them together take
    less than a twentieth of the time of the rest.
    """
    part = 1 - SETTINGS.margin
    computed = [node for node in constant if node.op != "constant"]
    seconds = {node: node_seconds(OPS, node) if OPS.flops(node) else 0.0 for node in computed}
    saved = sum(seconds.values())
    whole = graph_seconds(OPS, graph)
    if saved < part * whole:
        return ()
    made = {tensor: node for node in computed for tensor in node.outputs}
    rest = set(graph.nodes) - set(constant)
    needed = {tensor for node in rest for tensor in node.inputs} | set(graph.outputs)
    kept = {tensor for tensor in made if tensor in needed}
    again = part * max(whole - saved, 0.0)
    for node in reversed(computed):
        own = kept.intersection(node.outputs)
        more = {tensor for tensor in node.inputs if tensor in made} - kept
        larger = sum(one.nbytes for one in own) >= sum(one.nbytes for one in more)
        if own and larger and seconds[node] <= again:
            again -= seconds[node]
            kept = (kept - own) | more
    return tuple(tensor for tensor in made if tensor in kept)
