"""Sinking: large tensors that a While or branches read are computed inside of them.

`K = kernel(X); while ...: y = K p` holds all of K while the loop runs. If the producers of K move
into the body, the body can be split: K is recomputed from X in every iteration, in chunks. The
producers of small tensors that K is computed from move as well if that is cheap. Then all of K's
computation is in the body, which is needed, for example, to prove that K is symmetric. Likewise,
operands of the branches of an If or a Case are computed in the branch that is taken.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping

from tf_exla.ir.bounds import HANDLES
from tf_exla.ir.control_flow import (
    CHOICES,
    Variable,
    body_of,
    cond_of,
    is_while,
    passed_on,
    with_variables,
)
from tf_exla.ir.copying import copy_nodes, put_before
from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.traverse import producers, reads, with_subgraphs, without_dead
from tf_exla.model.settings import SETTINGS
from tf_exla.split.regions.origins import clash, tests_order


def sink(graph: Graph, ops: OpSet, least: int) -> Graph:
    """Move the producers of tensors of more than `least` bytes into Whiles and branches.

    Only loop-invariant tensors move into a While.

    The moved nodes read the program's inputs, results of stateful nodes and of other Whiles, and
    small tensors that take work to compute. A tensor that the condition reads stays outside. So
    does one whose numbers would be compared with those of another copy of it (`origins.py`).
    """
    renamed: dict[Tensor, Tensor] = {}
    nodes: list[Node] = []
    tested = tests_order(graph)
    made_by = producers(graph)

    def is_large(tensor: Tensor) -> bool:
        return tensor.nbytes > least

    def legal(made: Node, names: Mapping[Tensor, Tensor]) -> bool:
        """Return whether no comparison reads two copies of a number if `made` replaces `node`."""
        if not tested:
            return True
        rest = graph.nodes[len(nodes) + 1 :]
        now = {**renamed, **names}
        trial = (*nodes, made, *(one.substitute(now) for one in rest))
        return clash(graph.replace(nodes=trial), ops) is None

    for old in graph.nodes:
        node = old.substitute(renamed)
        for positions in _choices(_candidates(node, made_by, is_large)):
            made, names = _sunk(node, positions, graph, ops, renamed, is_large)
            if made is not node and legal(made, names):
                node = made
                renamed.update(names)
                break
        inside = with_subgraphs(node, lambda sub: sink(sub, ops, least))
        nodes.append(inside if inside is node or legal(inside, {}) else node)
    changed = graph.with_nodes(nodes, renamed)
    return graph if changed is graph else without_dead(changed)


def _candidates(
    node: Node, made_by: Mapping[Tensor, Node], is_large: Callable[[Tensor], bool]
) -> list[int]:
    """Return positions of large operands that the sub-graphs of a node could compute."""
    if is_while(node):
        cond = cond_of(node)
        read = reads(cond)
        positions = [k for k in sorted(passed_on(node)) if cond.inputs[k] not in read]
    elif node.op in CHOICES:
        positions = list(range(1, len(node.inputs)))  # operand 0 is the predicate
    else:
        return []
    return [
        k
        for k in positions
        if is_large(node.inputs[k])
        and node.inputs[k] in made_by
        and movable(made_by[node.inputs[k]])
    ]


def _choices(positions: list[int]) -> Iterator[list[int]]:
    """Yield sets of operands to sink, those with the most operands first.

    Of more than `SETTINGS.sunk_choices` operands, only all of them or single ones are yielded.
    """
    for count in range(len(positions), 0, -1):
        if count < len(positions) and len(positions) > SETTINGS.sunk_choices:
            count = 1
        for chosen in itertools.combinations(positions, count):
            yield list(chosen)
        if count == 1:
            return


def _sunk(
    node: Node,
    positions: list[int],
    graph: Graph,
    ops: OpSet,
    renamed: Mapping[Tensor, Tensor],
    is_large: Callable[[Tensor], bool],
) -> tuple[Node, Mapping[Tensor, Tensor]]:
    """Return a node that computes the operands at `positions` in its sub-graphs.

    Also return replacements for its results that are no longer computed.
    """
    moved, sources = _producers_of([node.inputs[k] for k in positions], graph, ops, is_large)
    if node.op in CHOICES:
        return _sunk_into_branches(node, positions, moved, sources), {}
    # The loop does not change these variables, so readers after it read their initial values.
    names = {node.outputs[k]: node.inputs[k] for k in positions}
    return _sunk_into_loop(node, positions, moved, sources, renamed), names


def _sunk_into_loop(
    node: Node,
    sunk: list[int],
    moved: list[Node],
    sources: list[Tensor],
    renamed: Mapping[Tensor, Tensor],
) -> Node:
    body = body_of(node)
    inside = {tensor: tensor.fresh_copy() for tensor in sources}
    nodes = copy_nodes(moved, inside)
    computed = {body.inputs[k]: inside[node.inputs[k]] for k in sunk}
    nodes.extend(one.substitute(computed) for one in body.nodes)
    passed = [Variable(renamed.get(t, t), inside[t], inside[t]) for t in sources]
    return with_variables(node, passed, sunk, body.with_nodes(nodes, computed))


def _sunk_into_branches(
    node: Node, sunk: list[int], moved: list[Node], sources: list[Tensor]
) -> Node:
    """Compute operands of the branches in the branch that is taken."""
    kept = [k for k in range(1, len(node.inputs)) if k not in sunk]
    branches = {}
    for key, branch in node.subgraphs:
        inside = {tensor: tensor.fresh_copy() for tensor in sources}
        stand_ins = list(inside.values())
        copies = copy_nodes(moved, inside)
        computed = {branch.inputs[k - 1]: inside[node.inputs[k]] for k in sunk}
        inputs = [*(branch.inputs[k - 1] for k in kept), *stand_ins]
        branches[key] = put_before(inputs, copies, computed, branch)
    operands = (node.inputs[0], *(node.inputs[k] for k in kept), *sources)
    return dataclasses.replace(node, inputs=operands, attrs={**node.attrs, **branches})


def movable(node: Node) -> bool:
    """Return whether a node may be computed in a loop or a branch instead, once or again."""
    if node.stateful or node.subgraphs:
        return False
    static = all(tensor.is_static for tensor in node.outputs)
    return static and all(tensor.dtype not in HANDLES for tensor in node.inputs)


def _producers_of(
    tensors: list[Tensor], before: Graph, ops: OpSet, is_large: Callable[[Tensor], bool]
) -> tuple[list[Node], list[Tensor]]:
    """Return the nodes that compute `tensors`, in order, and the tensors they read from outside."""
    wanted = set(tensors)
    moved: list[Node] = []
    heavy = light = 0.0
    for node in reversed(before.nodes):
        if not movable(node) or all(tensor not in wanted for tensor in node.outputs):
            continue
        work = ops.flops(node) + sum(tensor.size for tensor in node.outputs)
        if any(is_large(tensor) for tensor in (*node.inputs, *node.outputs)):
            heavy += work
        elif node.op != "constant":
            if light + work > SETTINGS.light_work * heavy:
                continue
            light += work
        moved.append(node)
        wanted.update(node.inputs)
    made = {tensor for node in moved for tensor in node.outputs}
    sources = dict.fromkeys(t for node in reversed(moved) for t in node.inputs if t not in made)
    return moved[::-1], list(sources)
