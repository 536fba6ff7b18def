"""Choosing again: a choice computes results of an earlier choice by the same predicate itself.

The gradient of a choice is a second choice, which reads results of the first: a kernel matrix, for
example. They exist whole between the two. If the second choice computes them again in its branches,
the branches can be split.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tf_exla.ir.clean import drop_dead
from tf_exla.ir.control_flow import CHOICES
from tf_exla.ir.copying import copy_nodes, put_before
from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.traverse import producers, with_subgraphs
from tf_exla.split.regions.origins import clash, tests_order

Read = tuple[int, int]
"""An operand of a choice, and its position among the results of an earlier one."""


def choose_again(graph: Graph, ops: OpSet, least: int) -> Graph:
    """Let choices compute operands that are results of earlier choices by the same predicate.

    These are operands of more than `least` bytes, and others that need no further work. If numbers
    of two copies would then be compared (`origins.py`), all such operands are computed instead, or
    none. Results of nodes with side effects are not computed again.
    """
    nodes: list[Node] = []
    tested = tests_order(graph)
    made_by: dict[Tensor, Node] = {}

    def legal(made: Node) -> bool:
        rest = graph.nodes[len(nodes) + 1 :]
        return not tested or clash(graph.replace(nodes=(*nodes, made, *rest)), ops) is None

    for node in graph.nodes:
        for first in _reads(node, made_by):
            reads = _reads(node, made_by).get(first, [])  # each change of `node` moves positions
            large = [one for one in reads if _bytes(first, one[1]) > least]
            for chosen in (_with_free(first, large, reads), reads) if large else ():
                made = _again(node, first, chosen)
                if made is not node and legal(made):
                    node = made
                    break
        inside = with_subgraphs(node, lambda sub: choose_again(sub, ops, least))
        nodes.append(inside if inside is node or legal(inside) else node)
        if node.op in CHOICES:
            made_by.update(dict.fromkeys(node.outputs, nodes[-1]))
    changed = graph.with_nodes(nodes)
    return graph if changed is graph else drop_dead(changed)


def _reads(node: Node, made_by: Mapping[Tensor, Node]) -> dict[Node, list[Read]]:
    """Return, for each earlier choice by the same predicate, the results that `node` reads."""
    found: dict[Node, list[Read]] = {}
    if node.op not in CHOICES:
        return found
    for position, tensor in enumerate(node.inputs[1:], 1):
        first = made_by.get(tensor)
        if first is None or (first.op, first.inputs[0]) != (node.op, node.inputs[0]):
            continue
        if [key for key, _ in first.subgraphs] == [key for key, _ in node.subgraphs]:
            found.setdefault(first, []).append((position, first.outputs.index(tensor)))
    return found


def _bytes(choice: Node, position: int) -> int:
    """Return the bytes of a result, in the branch where it is largest.

    An optional counts with the bytes of its value.
    """
    return max(_held(branch, branch.outputs[position]) for _, branch in choice.subgraphs)


def _held(graph: Graph, tensor: Tensor) -> int:
    maker = producers(graph).get(tensor)
    if maker is not None and maker.op in CHOICES:
        return _bytes(maker, maker.outputs.index(tensor))
    if maker is not None and maker.op == "optional":
        return sum(_held(graph, one) for one in maker.inputs)
    return tensor.nbytes


def _with_free(first: Node, large: Sequence[Read], reads: Sequence[Read]) -> list[Read]:
    """Return the reads of large results, and of all others that need no further work.

    Predicates of choices in branches are among the latter, so that these can choose again, too.
    """
    free: set[Tensor] = set()
    for _, branch in first.subgraphs:
        part = _part(branch, [branch.outputs[at] for _, at in large])
        free.update(branch.inputs)
        free.update(tensor for node in part for tensor in node.outputs)
        for node in branch.nodes:
            if not node.stateful and (not node.inputs or node.op == "optional"):
                free.update(node.outputs if free.issuperset(node.inputs) else ())
    branches = [branch for _, branch in first.subgraphs]
    return [one for one in reads if all(branch.outputs[one[1]] in free for branch in branches)]


def _again(node: Node, first: Node, reads: Sequence[Read]) -> Node:
    """Return the choice `node` with the results `reads` of `first` computed in its branches.

    Return `node` itself if their computation has side effects.
    """
    parts = {
        key: _part(branch, [branch.outputs[at] for _, at in reads])
        for key, branch in first.subgraphs
    }
    if any(one.stateful for part in parts.values() for one in part):
        return node
    # Operands of `first` that its parts read, in any branch.
    more = sorted(
        {
            k
            for key, branch in first.subgraphs
            for k, tensor in enumerate(branch.inputs)
            if any(tensor in one.inputs for one in parts[key])
            or any(tensor is branch.outputs[at] for _, at in reads)
        }
    )
    computed = {position for position, _ in reads}
    kept = [k for k in range(1, len(node.inputs)) if k not in computed]
    before = dict(first.subgraphs)
    branches = {}
    for key, branch in node.subgraphs:
        given = [before[key].inputs[k] for k in more]
        copies = {tensor: tensor.fresh_copy() for tensor in given}
        stand_ins = list(copies.values())
        nodes = copy_nodes(parts[key], copies)
        names = {branch.inputs[k - 1]: copies[before[key].outputs[at]] for k, at in reads}
        branches[key] = put_before(
            [*(branch.inputs[k - 1] for k in kept), *stand_ins], nodes, names, branch
        )
    inputs = (
        node.inputs[0],
        *(node.inputs[k] for k in kept),
        *(first.inputs[1 + k] for k in more),
    )
    return node.replace(inputs=inputs, attrs={**node.attrs, **branches})


def _part(graph: Graph, wanted: Sequence[Tensor]) -> list[Node]:
    """Return the nodes that compute some tensors, in order."""
    needed = set(wanted)
    found: list[Node] = []
    for node in reversed(graph.nodes):
        if any(tensor in needed for tensor in node.outputs):
            found.append(node)
            needed.update(node.inputs)
    return found[::-1]
