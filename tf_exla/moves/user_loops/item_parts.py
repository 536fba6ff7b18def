"""A list keeps of each tensor only the part that is read.

`tf.scan(step, rows)[:, -1]` stacks whole states and reads one number of each. If only slices of the
stacked tensors are read, which keep all rows, the loop writes these slices to lists of their own.

The slice needs a whole tensor, so that the loop cannot be split along the axis that is sliced. So a
loop that keeps other lists of such tensors, for its gradient, stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from tf_exla.ir.axis_rule import AxisRule
from tf_exla.ir.builder import Builder
from tf_exla.ir.control_flow import Variable, body_of, is_while, passed_on, with_variables
from tf_exla.ir.graph import Graph, Node, Shape, SplitAxis, Tensor
from tf_exla.ir.lists import is_list
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.resized import resized_graph
from tf_exla.ir.traverse import consumers, producers, reads, with_subgraphs, without_dead
from tf_exla.moves.user_loops.kept_lists import only_reader
from tf_exla.split.loops.resize import chunk_shape

_SLICES = frozenset({"strided_slice", "slice"})


def with_item_parts(graph: Graph, ops: OpSet) -> Graph:
    """Keep parts of tensors in lists, also in sub-graphs; return the same graph if none is read."""
    graph = graph.with_nodes(
        [with_subgraphs(node, lambda sub: with_item_parts(sub, ops)) for node in graph.nodes]
    )
    while True:
        plans = list(_plans(graph, ops))
        parted = {listed for plan in plans for listed in plan.lists}
        plan = next((one for one in plans if _is_alone(graph, one, parted)), None)
        if plan is None:
            return graph
        graph = _replaced(graph, plan, ops)


@dataclass(frozen=True)
class _Part:
    """A slice of the stacked tensors: what it reads as a graph, and its result."""

    template: Graph

    @property
    def result(self) -> Tensor:
        return self.template.outputs[0]

    def of(self, item: Tensor, w: Builder) -> Tensor:
        """Write nodes that take the part of one tensor; return the part."""
        whole = self.template.inputs[0]
        carried = {whole: SplitAxis(0), self.result: SplitAxis(0)}

        def shape_of(tensor: Tensor) -> Shape | None:
            return chunk_shape(tensor, carried.get(tensor), 1)

        row = w.shaped(item, (1, *item.dims))
        sliced = resized_graph(w.ops, self.template, {whole: row}, shape_of)[0]
        w.nodes += sliced.nodes
        return w.shaped(sliced.outputs[0], self.result.dims[1:])


@dataclass(frozen=True)
class _Plan:
    """The parts that are read of the tensors in a list, and the nodes that write it.

    `chain`: the nodes, from the one that reserves the list to the last; `lists`: its results.
    """

    stack: Node
    chain: tuple[Node, ...]
    lists: tuple[Tensor, ...]
    parts: tuple[_Part, ...]


def _plans(graph: Graph, ops: OpSet) -> Iterator[_Plan]:
    """Yield the lists of which only parts are read, less than the whole together."""
    stacks = [n for n in graph.nodes if n.op == "list_stack" and n.output.is_static]
    if not stacks:
        return
    made, uses = producers(graph), consumers(graph)
    for stack in stacks:
        whole = stack.output
        parts = [_part(ops, whole, reader, made) for reader, _ in uses.get(whole, ())]
        found = tuple(part for part in parts if part is not None)
        if not found or len(found) < len(parts) or whole in graph.outputs:
            continue
        if sum(part.result.nbytes for part in found) >= whole.nbytes:
            continue
        chain = _chain(graph, stack, made, uses)
        if chain is not None:
            yield _Plan(stack, *chain, found)


def _is_alone(graph: Graph, plan: _Plan, parted: Set[Tensor]) -> bool:
    """Return whether the loops keep no other list of tensors as large, but those to be parted."""
    own = plan.stack.output.size // plan.stack.output.dims[0]
    wanted = reads(graph)
    return not any(
        is_list(tensor) and tensor in wanted and tensor not in parted and _elements(tensor) >= own
        for node in plan.chain
        if is_while(node)
        for k, tensor in enumerate(node.outputs)
        if k not in passed_on(node)
    )


def _part(ops: OpSet, whole: Tensor, reader: Node, made: Mapping[Tensor, Node]) -> _Part | None:
    """Return what a node reads of all rows of `whole`; None if it is no slice, or takes no part."""
    if reader.op not in _SLICES or whole in reader.inputs[1:] or not reader.output.is_static:
        return None
    rule, rows = ops.rule(reader), whole.dims[0]
    if not isinstance(rule, AxisRule) or not ops.resizable(reader):
        return None
    first = (rule.operands[0] or (None,))[0]
    if first is None or not first.splittable or rule.result_axis(0, first.label) != (0, first):
        return None
    if first.block != 1 or reader.output.dims[0] != rows or rows < 2:
        return None
    bounds = [made.get(tensor) for tensor in reader.inputs[1:]]
    constants = [node for node in bounds if node is not None and node.op == "constant"]
    if len(constants) < len(bounds):
        return None
    return _Part(Graph((whole,), (*dict.fromkeys(constants), reader), (reader.output,)))


def _chain(
    graph: Graph,
    stack: Node,
    made: Mapping[Tensor, Node],
    uses: Mapping[Tensor, list[tuple[Node, int]]],
) -> tuple[tuple[Node, ...], tuple[Tensor, ...]] | None:
    """Return the nodes that write a list, in order, and their lists; None if it is used otherwise.

    The first of them reserves the list.
    """
    chain: list[Node] = []
    lists = [stack.inputs[0]]
    items = stack.output.dims[1:]
    while len(uses[lists[-1]]) == 1 and lists[-1] not in graph.outputs:
        node = made.get(lists[-1])
        if node is None:
            return None
        chain.append(node)
        if node.op == "list_reserve":
            return tuple(reversed(chain)), tuple(reversed(lists))
        if node.op == "list_set" and node.inputs[2].axes == items:
            lists.append(node.inputs[0])
        elif is_while(node) and _writes(node, k := node.outputs.index(lists[-1]), items):
            lists.append(node.inputs[k])
        else:
            return None
    return None


def _writes(node: Node, k: int, items: Shape) -> bool:
    """Return whether an iteration only writes one of the tensors to the list at `k`."""
    write = only_reader(node, k)
    if write is None or write.op != "list_set" or write.inputs[0] is not body_of(node).inputs[k]:
        return False
    return write.inputs[2].axes == items


def _replaced(graph: Graph, plan: _Plan, ops: OpSet) -> Graph:
    """Return the graph with a list for each part in place of the list of whole tensors."""
    parts, stack = plan.parts, plan.stack
    lists: list[Tensor] = []  # of the parts, after the nodes so far
    instead: dict[Node, list[Node]] = {}
    for node, listed in zip(plan.chain, plan.lists, strict=True):
        w = Builder(node, ops)
        if node.op == "list_reserve":
            lists = [_reserved(w, node, part) for part in parts]
        elif node.op == "list_set":
            lists = [_written(w, node, part, one) for part, one in zip(parts, lists, strict=True)]
        else:
            made = _loop(node, node.outputs.index(listed), parts, lists, ops)
            w.nodes.append(made)
            lists = list(made.outputs[-len(parts) :])
        instead[node] = w.nodes
    w = Builder(stack, ops)
    for part, one in zip(parts, lists, strict=True):
        shape = w.const(part.result.dims[1:], stack.inputs[1].dtype)
        inputs = (one, shape, *stack.inputs[2:])
        w.nodes.append(stack.replace(inputs=inputs, outputs=(part.result,)))
    instead[stack] = w.nodes
    gone = {part.template.nodes[-1] for part in parts}
    nodes = [new for old in graph.nodes if old not in gone for new in instead.get(old, [old])]
    return without_dead(graph.replace(nodes=tuple(nodes)))


def _elements(listed: Tensor) -> float:
    """Return the number of elements of a tensor in a list; infinity if unknown."""
    items: Shape = (None,) if listed.items is None else listed.items
    return math.inf if None in items else math.prod(size or 0 for size in items)


def _reserved(w: Builder, node: Node, part: _Part) -> Tensor:
    shape = w.const(part.result.dims[1:], node.inputs[0].dtype)
    made = _listed(node.output, part)
    w.nodes.append(node.replace(inputs=(shape, *node.inputs[1:]), outputs=(made,)))
    return made


def _written(w: Builder, node: Node, part: _Part, listed: Tensor) -> Tensor:
    made = _listed(node.output, part)
    item = part.of(node.inputs[2], w)
    w.nodes.append(node.replace(inputs=(listed, node.inputs[1], item), outputs=(made,)))
    return made


def _listed(listed: Tensor, part: _Part) -> Tensor:
    """Return a list of parts."""
    return replace(listed.fresh_copy(), items=part.result.dims[1:])


def _loop(node: Node, k: int, parts: Sequence[_Part], lists: list[Tensor], ops: OpSet) -> Node:
    """Return a While that writes parts, to lists that come after its other variables."""
    body = body_of(node)
    write = producers(body)[body.outputs[k]]
    w = Builder(write, ops)
    added = []
    for part, one in zip(parts, lists, strict=True):
        inner = _listed(one, part)
        added.append(Variable(one, inner, _written(w, write, part, inner)))
    nodes = (new for old in body.nodes for new in (w.nodes if old is write else [old]))
    return with_variables(node, added, (k,), body.replace(nodes=tuple(nodes)))
