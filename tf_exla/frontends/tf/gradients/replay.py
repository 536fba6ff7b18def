"""Control flow with side effects, run again for a gradient without them.

The results of stateful nodes must not be recomputed, so they come from the forward call. Those
inside control flow become additional results of it: a While appends the result of each iteration to
a list, a choice returns the results of the branch taken, and zeros for the other branches. The
gradient runs the same control flow with these nodes replaced by reads of the saved values. A
condition with side effects is replaced by the number of iterations.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

import numpy as np
import tensorflow as tf

from tf_exla.ir.bounds import HANDLES
from tf_exla.ir.control_flow import Variable, body_of, cond_of, is_while, with_variables
from tf_exla.ir.graph import Graph, Node, Tensor, const
from tf_exla.ir.traverse import producers, reads

Key = tuple[str, int]
"""A result of a stateful node: the node's name, and the position."""


def is_handle(tensor: Tensor) -> bool:
    return tensor.dtype in HANDLES


def results_inside(graph: Graph) -> dict[Key, Tensor]:
    """Return the results of stateful nodes that the graph reads, by node and position.

    Results inside of a While are lists with an item for each iteration. A While whose condition has
    side effects adds the number of its iterations, as result 0 of the While.
    """
    read = reads(graph)
    found: dict[Key, Tensor] = {}
    for node in graph.nodes:
        if not node.stateful:
            continue
        if not node.subgraphs:
            wanted = enumerate(node.outputs)
            found.update(((node.name, k), t) for k, t in wanted if t in read and not is_handle(t))
        elif "body" not in node.attrs:
            for _, sub in node.subgraphs:
                found.update(results_inside(sub))
        else:
            cond, body = cond_of(node), body_of(node)
            found.update((key, Tensor((), "variant", key[0])) for key in results_inside(body))
            if cond.is_stateful:
                found[node.name, 0] = Tensor((), "int32", f"{node.name}/count")
    return found


def stateful_inside(node: Node) -> Iterator[Node]:
    """Yield the stateful nodes in the sub-graphs of a node, control flow too."""
    for _, sub in node.subgraphs:
        for inner in sub.nodes:
            if inner.stateful:
                yield inner
                yield from stateful_inside(inner)


# The forward call.


def keeping(node: Node) -> tuple[list[Node], dict[Key, Tensor]]:
    """Return a While, If or Case that also returns the results of its stateful nodes.

    Returns the nodes that replace `node`, and these results in the graph around it.
    """
    return _keeping_while(node) if is_while(node) else _keeping_choice(node)


def _keeping_inside(graph: Graph) -> tuple[Graph, dict[Key, Tensor]]:
    kept = results_inside(graph)
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.stateful and node.subgraphs:
            made, inner = keeping(node)
            nodes += made
            kept.update(inner)
        else:
            nodes.append(node)
    return graph.replace(nodes=tuple(nodes)), kept


def _keeping_while(node: Node) -> tuple[list[Node], dict[Key, Tensor]]:
    cond, body = cond_of(node), body_of(node)
    body, kept = _keeping_inside(body)
    before: list[Node] = []
    nodes = list(body.nodes)
    added: list[Variable] = []
    for key, tensor in kept.items():
        empty = _empty_list(tensor, key[0])
        before += empty
        inner = empty[-1].output.fresh_copy()
        attrs = {"element_dtype": tensor.dtype}
        pushed = Tensor((), "variant", f"{key[0]}/kept")
        nodes.append(Node("list_push", (inner, tensor), (pushed,), attrs, name=key[0]))
        added.append(Variable(empty[-1].output, inner, pushed))
    keys = list(kept)
    if cond.is_stateful:
        zero, step, counter = _counter(node.name)
        before.append(zero)
        nodes += step
        added.append(Variable(zero.output, counter, step[-1].output))
        keys.append((node.name, 0))
    body = body.replace(nodes=tuple(nodes))
    made = with_variables(node, added, body=body, cond=cond)
    results = made.outputs[len(node.outputs) :]
    return [*before, made], dict(zip(keys, results, strict=True))


def _keeping_choice(node: Node) -> tuple[list[Node], dict[Key, Tensor]]:
    branches = {key: _keeping_inside(sub) for key, sub in node.subgraphs}
    wanted = {key: tensor for _, kept in branches.values() for key, tensor in kept.items()}
    subs = {}
    for name, (sub, kept) in branches.items():
        nodes, results = list(sub.nodes), []
        for key, tensor in wanted.items():
            if key not in kept:
                nodes += _nothing(tensor, key[0])
            results.append(kept[key] if key in kept else nodes[-1].output)
        subs[name] = Graph(sub.inputs, tuple(nodes), (*sub.outputs, *results))
    made = {key: tensor.fresh_copy() for key, tensor in wanted.items()}
    outputs = (*node.outputs, *made.values())
    return [dataclasses.replace(node, outputs=outputs, attrs={**node.attrs, **subs})], made


def _empty_list(element: Tensor, name: str) -> list[Node]:
    """Return nodes that make a list for tensors like `element`; the last makes the list."""
    shape = _shape_operand(element, name)
    most = const(np.int32(-1), f"{name}/most")
    attrs = {"element_dtype": element.dtype, "shape_type": "int32"}
    made = Tensor((), "variant", f"{name}/list")
    inputs = (shape.output, most.output)
    return [shape, most, Node("list_empty", inputs, (made,), attrs, name=made.name)]


def _nothing(like: Tensor, name: str) -> list[Node]:
    """Return nodes that make zeros, or an empty list, for a result of another branch."""
    if like.dtype == "variant":
        return _empty_list(Tensor((), "int32"), name)
    sizes = [size or 0 for size in like.shape or ()]
    kind = tf.as_dtype(like.dtype)
    zero = const("" if kind == tf.string else np.zeros((), kind.as_numpy_dtype), dtype=like.dtype)
    dims = const(np.asarray(sizes, np.int32), f"{name}/dims")
    made = Tensor(like.shape, like.dtype, f"{name}/nothing")
    inputs = (dims.output, zero.output)
    return [dims, zero, Node("full", inputs, (made,), name=made.name)]


# The gradient.


def replay(node: Node, given: Mapping[Key, Tensor]) -> list[Node]:
    """Return nodes that run a While, If or Case without its side effects.

    `given`: the values saved by the forward call, as tensors of the graph around `node`.
    """
    return _replay_while(node, given) if is_while(node) else [_replay_choice(node, given)]


def without_effects(graph: Graph, given: Mapping[Key, Tensor]) -> Graph:
    """Return a graph in which saved values replace the results of stateful nodes."""
    renamed: dict[Tensor, Tensor] = {}
    nodes: list[Node] = []
    for old in graph.nodes:
        node = old.substitute(renamed)
        if not node.stateful:
            nodes.append(node)
        elif node.subgraphs:
            nodes += replay(node, given)
        else:
            for k, tensor in enumerate(node.outputs):
                if (node.name, k) in given:
                    renamed[tensor] = given[node.name, k]
    return graph.with_nodes(nodes, renamed)


def _replay_while(node: Node, given: Mapping[Key, Tensor]) -> list[Node]:
    cond, body = cond_of(node), body_of(node)
    zero, step, counter = _counter(node.name)
    reads: list[Node] = []
    inside: dict[Key, Tensor] = {}
    added = [Variable(zero.output, counter, step[-1].output, counter.fresh_copy())]
    for key, tensor in results_inside(body).items():
        if key not in given:
            continue
        inner = given[key].fresh_copy()
        added.append(Variable(given[key], inner, inner))
        shape = _shape_operand(tensor, key[0])
        item = tensor.fresh_copy()
        attrs = {"element_dtype": tensor.dtype}
        inputs = (inner, counter, shape.output)
        reads += [shape, Node("list_get", inputs, (item,), attrs, name=key[0])]
        inside[key] = item
    if cond.is_stateful:
        kept, tested = given[node.name, 0], given[node.name, 0].fresh_copy()
        inner = kept.fresh_copy()
        assert added[0].tested is not None
        cond = _counted(cond, added[0].tested, tested)
        added.append(Variable(kept, inner, inner, tested))
    pure = without_effects(body, inside)
    body = pure.replace(nodes=(*reads, *pure.nodes, *step))
    made = with_variables(node, added, body=body, cond=cond)
    return [zero, dataclasses.replace(made, stateful=False)]


def _replay_choice(node: Node, given: Mapping[Key, Tensor]) -> Node:
    keys = dict.fromkeys(key for _, sub in node.subgraphs for key in results_inside(sub))
    known = {key: given[key] for key in keys if key in given}
    subs = {}
    for name, sub in node.subgraphs:
        inside = {key: tensor.fresh_copy() for key, tensor in known.items()}
        pure = without_effects(sub, inside)
        subs[name] = pure.replace(inputs=(*pure.inputs, *inside.values()))
    inputs, attrs = (*node.inputs, *known.values()), {**node.attrs, **subs}
    return dataclasses.replace(node, inputs=inputs, attrs=attrs, stateful=False)


def _counted(cond: Graph, counter: Tensor, count: Tensor) -> Graph:
    """Return a condition without side effects, which holds `count` times.

    The terms of a conjunction in `cond` that have no side effects are kept. `counter`: the number
    of the iteration.
    """
    made_by = producers(cond)
    impure: set[Tensor] = set()
    for node in cond.nodes:
        if node.stateful or not impure.isdisjoint(node.inputs):
            impure.update(node.outputs)

    def conjuncts(tensor: Tensor) -> Iterator[Tensor]:
        maker = made_by.get(tensor)
        if tensor not in impure:
            yield tensor
        elif maker is not None and not maker.stateful and maker.op in ("identity", "logical_and"):
            for operand in maker.inputs:
                yield from conjuncts(operand)

    nodes = [node for node in cond.nodes if not node.stateful and impure.isdisjoint(node.outputs)]
    holds = Tensor((), "bool", "again")
    nodes.append(Node("less", (counter, count), (holds,), name=holds.name))
    for tensor in conjuncts(cond.outputs[0]):
        both = Tensor((), "bool", "both")
        nodes.append(Node("logical_and", (tensor, holds), (both,), name=both.name))
        holds = both
    return Graph(cond.inputs, tuple(nodes), (holds,))


# While loops.


def _counter(name: str) -> tuple[Node, list[Node], Tensor]:
    """Return a counter: its initial value, the nodes that increment it, its tensor in the body."""
    zero = const(np.int32(0), f"{name}/first")
    one = const(np.int32(1), f"{name}/one")
    counter, after = Tensor((), "int32", f"{name}/counter"), Tensor((), "int32", f"{name}/next")
    return zero, [one, Node("add", (counter, one.output), (after,), name=name)], counter


def _shape_operand(element: Tensor, name: str) -> Node:
    """Return the operand with the shape of a list's tensors: -1 for unknown sizes."""
    if element.shape is None:
        return const(np.int32(-1), f"{name}/shape")
    sizes = [-1 if size is None else size for size in element.shape]
    return const(np.asarray(sizes, np.int32), f"{name}/shape")
