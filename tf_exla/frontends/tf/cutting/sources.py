"""Cuts of programs where sizes become known only during a call.

Examples are an iterator's `next` and the value of a variable without a static shape.

A program is cut behind such *sources*. Its *head* runs all effects up to there, once and in order,
and returns the results of these nodes. The rest is captured again for the sizes of these results,
which are its inputs. The rest of a program with several sources is cut again.

Computed sizes, such as the number of rows that a mask selects, may have upper bounds. Then a
program is planned as a whole for these bounds, and it is cut only if no such plan is within the
limit. It is cut behind small integers from which a size follows (`tf.range(n)`), which become
constants of the rest, or behind nodes whose results have such a size (the mask's positions).

A plan in a graph cannot depend on sizes that appear in the graph. So a program is also cut at a
loop over a dataset, and, if it cannot be planned as a whole, at other loops and branches with open
sizes. The call itself runs them step by step (`bodies.py`). In a call from a graph, or one that a
tape records, sizes inside of them stay open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain

from tf_exla.frontends.tf.capture.effects import READS
from tf_exla.frontends.tf.capture.given import Given
from tf_exla.frontends.tf.capture.random_state import COUNTED, keeps_state
from tf_exla.frontends.tf.capture.row_numbers import counted, number_of_rows
from tf_exla.frontends.tf.cutting.cuts import Cut, make_cut
from tf_exla.frontends.tf.cutting.dataset_loops import REDUCTION
from tf_exla.frontends.tf.cutting.stepped_control import has_open_sizes, without_results
from tf_exla.frontends.tf.op_set import OPS
from tf_exla.ir.bounds import HANDLES
from tf_exla.ir.control_flow import is_while
from tf_exla.ir.dtypes import INTEGERS
from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.ir.lists import is_list
from tf_exla.ir.traverse import ancestors, producers, without_dead
from tf_exla.model.sizes import Sizes

# Elements of iterators. Results of effects that read only inputs and constants are sources too.
_ITERATORS = frozenset({"IteratorGetNext", "IteratorGetNextSync", "optional_value"})
# Integers from which sizes follow: a number, or a shape.
_FEW = 8


def find_cut(graph: Graph, saves: Iterable[Tensor], given: Given) -> Cut | None:
    """Return the cut of a program behind its first sources, or None if it has none."""
    made_by = producers(graph)
    order = {node: k for k, node in enumerate(graph.nodes)}
    found = next(
        (node for node in graph.nodes if node.op == REDUCTION or _is_source(node, made_by, given)),
        None,
    )
    if found is None:
        return None
    if found.op == REDUCTION:
        ran = [node for node in graph.nodes[: order[found] + 1] if node.stateful]
        return make_cut(graph, ran, [found], saves, given)
    last = max((order[node] for node in ancestors([found], made_by) if node.stateful), default=-1)
    ran = [node for node in graph.nodes[: last + 1] if node.stateful]
    if found not in ran:
        ran.append(found)
    sources = [found]
    # The source may not need some effects before it. These are left for the rest, and so are all
    # effects after them.
    left = any(node.stateful and node not in ran for node in graph.nodes[: order[found]])
    for node in graph.nodes[order[found] + 1 :]:  # further sources that can run at once
        at_once = not (left and node.stateful) and all(
            tensor in graph.inputs or made_by[tensor] in ran or made_by[tensor].op == "constant"
            for tensor in node.inputs
        )
        if at_once and _is_source(node, made_by, given):
            ran.append(node)
            sources.append(node)
        elif node.stateful and node not in ran:
            break
    cut = make_cut(graph, ran, sources, saves, given)
    return replace(cut, awaited=cut.nodes, beside=_beside(graph, ran, sources))


CutFinder = Callable[[Graph, Iterable[Tensor], Given], Cut | None]


def cut_finders(records: bool) -> tuple[CutFinder, ...]:
    """Return the functions that find cuts of a program which has no plan within the limit.

    They are to be tried in this order. `records`: whether the gradient of the call may be
    requested.
    """
    counting = partial(find_computed_cut, positions=True)
    return find_computed_cut, counting, *(() if records else (find_stepped_cut,))


def find_computed_cut(
    graph: Graph, saves: Iterable[Tensor], given: Given, positions: bool = False
) -> Cut | None:
    """Return the cut of a program behind nodes whose results have sizes that data determine.

    None if no such node can run before all effects on variables and other resources: if the rest is
    refused, nothing may have changed. None also if the rest would contain a random op with a seed,
    whose kernel keeps the state: each specialisation of the rest would have its own kernel.
    `positions`: whether the head counts the positions that `tf.where` finds in a mask.
    """
    made_by = producers(graph)
    bounds = Sizes(OPS)
    bounds.lists(graph)
    effects: list[Node] = []
    sources: list[Node] = []
    sizes: dict[Tensor, None] = {}
    more: dict[Node, list[Node]] = {}  # nodes that compute a size, by the node of that size
    late: set[Tensor] = set()  # what depends on sources, or on effects that the head cannot run
    blocked = False
    for node in graph.nodes:
        waits = any(tensor in late for tensor in node.inputs)
        counts, operand = number_of_rows(node, given, positions), counted(node)
        if counts is not None and operand is not None and operand not in late:
            more[node] = counts
            sizes[counts[-1].output] = None
            if operand.dtype == "bool" and operand in made_by:
                sources.append(made_by[operand])
            late.update(node.outputs)
            continue
        if node.stateful:
            blocked |= waits or not _changes_nothing(node)
        fills = _fills_lists(node) and bounds.iterations(node) is None
        if fills and not waits and _is_counted(node):
            sizes.update(dict.fromkeys(filter(_may_be_sizes, node.inputs)))
        if fills or waits or (node.stateful and blocked):
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
    for tensor in sizes.keys() & _given(graph, given):  # known by an earlier cut
        del sizes[tensor]
    if not sources and not sizes:
        return None
    graph = graph.with_nodes([one for node in graph.nodes for one in (*more.get(node, ()), node)])
    made_by = producers(graph)
    makers = [made_by[tensor] for tensor in sizes if tensor in made_by]
    needed = ancestors([*sources, *makers], made_by)
    early = (k for k, node in enumerate(effects) if node in needed or keeps_state(node))
    ran = dict.fromkeys((*effects[: max(early, default=-1) + 1], *sources))
    return make_cut(graph, list(ran), sources, saves, given, tuple(sizes), more)


def find_stepped_cut(graph: Graph, saves: Iterable[Tensor], given: Given) -> Cut | None:
    """Return the cut at the first loop or branch with open sizes, or None if there is none.

    Results that are only `saves` are removed from it, since control flow that runs step by step has
    no gradient.
    """
    found = next(filter(has_open_sizes, graph.nodes), None)
    if found is None or any(keeps_state(node) for node in graph.nodes if node.op not in COUNTED):
        return None
    place, saves = graph.nodes.index(found), frozenset(saves)
    before, after = graph.nodes[:place], graph.nodes[place + 1 :]
    node = without_results(found, saves)
    graph = graph.replace(nodes=(*before, node, *after))
    ran = [one for one in before if one.stateful]
    return make_cut(graph, [*ran, node], [node], saves.difference(found.outputs), given)


def _beside(graph: Graph, ran: Iterable[Node], sources: Iterable[Node]) -> Graph | None:
    """Return the effects that TensorFlow runs although `sources` fail; None if there are none.

    Such an effect depends on no result of `ran`, except of reads. It also follows no effect that is
    not run: neither one on the same variable or other resource, nor, if it has no such operand,
    another one without.
    """
    failed = frozenset(sources)
    done = {node for node in ran if node.op not in READS}
    late: set[Tensor] = set()
    kept: list[Node] = []
    blocked = False
    for node in graph.nodes:
        handles = [tensor for tensor in node.inputs if tensor.dtype in HANDLES]
        waits = not late.isdisjoint(node.inputs) or (blocked and node.stateful and not handles)
        if node not in done and not waits:
            kept.append(node)
            continue
        late.update(node.outputs)
        if node.stateful and node.op not in READS and (waits or node in failed):
            late.update(handles)
            blocked |= not handles
    if all(node.op in READS for node in kept if node.stateful):
        return None
    return without_dead(graph.replace(nodes=tuple(kept), outputs=()))


def _given(graph: Graph, given: Given) -> set[Tensor]:
    """Return the tensors of a graph whose integers are given."""
    made = (tensor for node in graph.nodes for tensor in node.outputs)
    keys = chain(enumerate(graph.inputs), ((tensor.name, tensor) for tensor in made))
    return {tensor for key, tensor in keys if key in given.values}


def _may_be_sizes(tensor: Tensor) -> bool:
    """Return whether a tensor is a few integers that are not known yet."""
    few = tensor.is_static and tensor.size <= _FEW
    return few and tensor.value is None and tensor.dtype in INTEGERS


def _changes_nothing(node: Node) -> bool:
    """Return whether a stateful node changes at most the state of random numbers."""
    if node.subgraphs:
        return False
    return (
        node.op in READS
        or node.op == "RngReadAndSkip"
        or all(tensor.dtype not in HANDLES for tensor in node.inputs)
    )


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


def _fills_lists(node: Node) -> bool:
    return is_while(node) and any(map(is_list, node.outputs))


def _is_counted(node: Node) -> bool:
    """Return whether the number of iterations follows from integer operands of a loop."""
    return OPS.iterations(node, dict.fromkeys(filter(_may_be_sizes, node.inputs), 1)) is not None
