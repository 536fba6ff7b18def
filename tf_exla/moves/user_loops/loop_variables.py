"""Separates the variables of a loop that would keep it from being split.

A loop can be split along an axis only if all of its results that are read carry the axis or are
sums over it. Therefore

- readers of a variable that the loop passes on unchanged read its initial value instead;
- variables that depend on its counters alone, such as the number of iterations that its gradient
  reads, are computed by a loop of their own;
- if each iteration adds the same tensor to a list, the gradient reads that tensor instead;
- nodes that begin with the same empty list get one each, for items of the shape that they write.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Set

from tf_exla.ir.control_flow import Variable, body_of, cond_of, is_while, with_variables
from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.ir.lists import is_list
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.traverse import producers, reads, with_subgraphs
from tf_exla.ir.unneeded import without_idle_variables
from tf_exla.model.settings import SETTINGS
from tf_exla.split.regions.while_axes import resized_while

_EMPTY_LISTS = frozenset({"list_empty", "list_reserve"})


def part_loop_variables(graph: Graph, ops: OpSet) -> Graph:
    """Separate the variables of all loops, also in sub-graphs; the same graph if there are none."""
    if not any(node.subgraphs or any(map(is_list, node.outputs)) for node in graph.nodes):
        return graph
    wanted = frozenset(reads(graph))
    made = producers(graph)
    renamed: dict[Tensor, Tensor] = {}
    repeated: dict[Tensor, Tensor] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        node = with_subgraphs(node.substitute(renamed), lambda sub: part_loop_variables(sub, ops))
        if is_while(node):
            node = _without_repeats(node, repeated, wanted)
        nodes += _own_lists(node, made)
        if is_while(node):
            own = nodes[-1]
            renamed.update(_passed_on(node))
            for result, given in _repeated(node, made):
                if isinstance(given, Node):
                    nodes.append(given)
                    given = given.output
                repeated[result] = given
            counting = _counting(ops, own, wanted - renamed.keys() - repeated.keys())
            if counting is not None:
                nodes.append(counting[0])
                renamed.update(counting[1])
    return graph.with_nodes(nodes, renamed)


def _passed_on(node: Node) -> dict[Tensor, Tensor]:
    """Map each result of a While that no iteration changes to its initial value."""
    body = body_of(node)
    pairs = zip(node.outputs, node.inputs, body.outputs, body.inputs, strict=True)
    return {result: given for result, given, after, before in pairs if after is before}


def _repeated(node: Node, made: dict[Tensor, Node]) -> Iterator[tuple[Tensor, Tensor | Node]]:
    """Yield the lists to which each iteration of a While adds the same tensor.

    With each list, yield that tensor, or the node of a constant that makes it.
    """
    body = body_of(node)
    given = dict(zip(body.inputs, node.inputs, strict=True))
    same = {t for t, after in zip(body.inputs, body.outputs, strict=True) if t is after}
    stepped = producers(body)
    for result, start, before, after in zip(
        node.outputs, node.inputs, body.inputs, body.outputs, strict=True
    ):
        push, first = stepped.get(after), made.get(start)
        if push is None or first is None or first.op != "list_empty":
            continue
        if push.op != "list_push" or push.inputs[0] is not before:
            continue
        item = push.inputs[1]
        maker = stepped.get(item)
        if item in same:
            yield result, given[item]
        elif maker is not None and maker.op == "constant":
            yield result, dataclasses.replace(maker, outputs=(item.fresh_copy(),))


def _without_repeats(node: Node, repeated: dict[Tensor, Tensor], wanted: frozenset[Tensor]) -> Node:
    """Return a While that reads a tensor directly instead of popping it from a list of repeats.

    Nothing else may read the rest of the list, which the While then passes on unchanged.
    """
    body, cond = body_of(node), cond_of(node)
    tested = reads(cond)
    for k, given in enumerate(node.inputs):
        pops = [one for one in body.nodes if body.inputs[k] in one.inputs]
        if given not in repeated or len(pops) != 1 or pops[0].op != "list_pop":
            continue
        rest, item = pops[0].outputs
        readers = [one for one in body.nodes if rest in one.inputs]
        if readers or [j for j, t in enumerate(body.outputs) if t is rest] != [k]:
            continue
        if node.outputs[k] in wanted or cond.inputs[k] in tested or body.inputs[k] in body.outputs:
            continue
        one = repeated[given]
        inner = one.fresh_copy()
        outputs = list(body.outputs)
        outputs[k] = body.inputs[k]
        body = body.replace(
            nodes=tuple(n.substitute({item: inner}) for n in body.nodes if n is not pops[0]),
            outputs=tuple(inner if tensor is item else tensor for tensor in outputs),
        )
        node = with_variables(node, [Variable(one, inner, inner)], body=body)
        body, cond = body_of(node), cond_of(node)
    return node


def _own_lists(node: Node, made: dict[Tensor, Node]) -> list[Node]:
    """Return copies of the empty lists that a node reads, for it alone, and the node itself."""
    lists: list[Node] = []
    inputs = list(node.inputs)
    for k, tensor in enumerate(node.inputs):
        maker = made.get(tensor)
        items = _written(node, k)
        if maker is not None and maker.op in _EMPTY_LISTS and items is not None:
            own = dataclasses.replace(tensor, items=items)
            lists.append(dataclasses.replace(maker, outputs=(own,)))
            inputs[k] = own
    return [*lists, dataclasses.replace(node, inputs=tuple(inputs)) if lists else node]


def _written(node: Node, position: int) -> tuple[int | None, ...] | None:
    """Return the shape of the items that a node writes to its operand at `position`, a list."""
    if not is_list(node.inputs[position]):
        return None
    if is_while(node):
        return body_of(node).inputs[position].items
    if node.op in ("list_push", "list_set"):
        return node.output.items
    return None


def _counting(
    ops: OpSet, node: Node, wanted: Set[Tensor]
) -> tuple[Node, dict[Tensor, Tensor]] | None:
    """Return a While for the results of `node` that only count, and a map from these to its own.

    None if no wanted result of `node` depends on counters alone, or if all of them do.
    """
    body, cond = body_of(node), cond_of(node)
    if node.stateful:
        return None
    numbers = {tensor for tensor in body.inputs if _is_number(tensor)}
    while True:
        inside = set(numbers)
        for one in body.nodes:
            if not one.subgraphs and all(
                tensor in inside or tensor.value is not None for tensor in one.inputs
            ):
                inside.update(tensor for tensor in one.outputs if _is_number(tensor))
        pairs = zip(body.inputs, body.outputs, strict=True)
        kept = {before for before, after in pairs if before in numbers and after in inside}
        if kept == numbers:
            break
        numbers = kept
    tested = reads(cond)
    pairs = zip(body.inputs, cond.inputs, strict=True)
    if any(tensor in tested and before not in numbers for before, tensor in pairs):
        return None
    results = [
        tensor
        for tensor, before in zip(node.outputs, body.inputs, strict=True)
        if before in numbers and tensor in wanted
    ]
    if not results or len(results) == sum(tensor in wanted for tensor in node.outputs):
        return None
    slim = without_idle_variables(node, set(results))
    own = resized_while(ops, slim, slim.inputs, [tensor.axes for tensor in slim.outputs])
    own = dataclasses.replace(own, name=f"{node.name}/count")
    return own, dict(zip(slim.outputs, own.outputs, strict=True))


def _is_number(tensor: Tensor) -> bool:
    axes = tensor.axes
    return (
        axes is not None
        and None not in axes
        and math.prod(size or 0 for size in axes) <= SETTINGS.counter
    )
