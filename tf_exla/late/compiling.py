"""Compiling: runs of nodes in the bodies of loops become clusters that XLA compiles.

XLA fuses pointwise nodes, so that a chunk is read and written once, not once for each node. For
products it calls the same kernels as TensorFlow. A *cluster* is a run of consecutive nodes of a
body, replaced by a node "xla_cluster" with the run as its sub-graph. Nodes that XLA cannot compile
stay between clusters. Unless it is forced, a cluster is made only if XLA's code is known not to be
slower, and if `SETTINGS.calls` calls of the program save the time that it takes to compile.

XLA orders the nodes of a cluster itself. So in the projection all their results are alive at once,
unless they are fused (`model/projection.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from tf_exla.ir.aliases import is_alias, roots
from tf_exla.ir.graph import Graph, Loop, Node, Tensor
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.traverse import consumers, with_subgraphs
from tf_exla.late.fusing import fusible
from tf_exla.late.recomputing import recompute
from tf_exla.model.cost import compile_seconds, compiled_seconds, node_seconds
from tf_exla.model.settings import SETTINGS


def compile_loops(graph: Graph, ops: OpSet, forced: bool = False) -> Graph:
    """Make clusters in the bodies of the innermost loops.

    `forced`: compile everything that XLA can, whether it pays off or not.
    """

    def inside(sub: Graph, runs: float) -> Graph:
        return sub.with_nodes([node_of(node, runs) for node in sub.nodes])

    @cache  # loops share bodies
    def body_of(body: Graph, runs: float, innermost: bool) -> Graph:
        return _compile_body(body, ops, forced, runs) if innermost else inside(body, runs)

    def node_of(node: Node, runs: float) -> Node:
        if not isinstance(node, Loop):
            if node.op == "xla_cluster":
                return node
            return with_subgraphs(node, lambda sub: inside(sub, runs))
        if node.bitwise_group is not None:
            return node
        innermost = not any(isinstance(inner, Loop) for inner in node.body.nodes)
        body = body_of(node.body, runs * node.mean_trip_count, innermost)
        rest = node.remainder and body_of(node.remainder, runs, innermost)
        if body is node.body and rest is node.remainder:
            return node
        return node.replace(body=body, remainder=rest)

    return inside(graph, runs=1)


def _compile_body(original: Graph, ops: OpSet, forced: bool, runs: float) -> Graph:
    made: list[Node] = []
    changed = False
    nodes, whole = _with_forms(original, ops, forced)
    body = original.replace(nodes=tuple(nodes))
    for run, compiles in _runs(body.nodes, ops, forced):
        inner, after = _without_second_names(body, run, ops) if compiles else (run, [])
        merged = cluster(body, inner) if compiles else None
        if merged is not None and (forced or _pays(merged, inner, ops, runs)):
            made.extend(node for node in run if node.op == "constant")
            made.append(merged)
            made.extend(after)
            changed = True
        else:
            made.extend(dict.fromkeys(whole.get(node, node) for node in run))
    if not changed:
        return original
    return recompute(body.replace(nodes=without_unused(made, body.outputs)), ops)


def _with_forms(body: Graph, ops: OpSet, forced: bool) -> tuple[list[Node], dict[Node, Node]]:
    """Return a body's nodes in the forms for XLA (`fusing.py`), and the original node of each.

    Constants come first.
    """
    compiled = (node for node in body.nodes if _fits(node, ops, forced))
    makers = {tensor: node for node in compiled for tensor in node.outputs}
    nodes: list[Node] = []
    whole: dict[Node, Node] = {}
    for node in body.nodes:
        forms = fusible(node, makers, ops)
        rest = [form for form in forms if form.op != "constant"]
        if not all(_fits(form, ops, forced) for form in rest):
            forms = rest = [node]
        whole.update(dict.fromkeys(rest, node))
        nodes.extend(forms)
    nodes.sort(key=lambda node: node.op != "constant")
    return nodes, whole


def _fits(node: Node, ops: OpSet, forced: bool) -> bool:
    compiles = ops.compiles(node)
    return bool(compiles) if forced else compiles == "well"


def _runs(nodes: Iterable[Node], ops: OpSet, forced: bool) -> Iterable[tuple[list[Node], bool]]:
    """Divide nodes into runs that XLA compiles and runs that it does not; constants join any run.

    Yield each run, and whether XLA compiles it. Views of a run's operands, such as slices, are put
    into a run before it that is not compiled: in XLA's code they would be copies.
    """
    run: list[Node] = []
    views: list[Node] = []
    state = False
    made: set[Tensor] = set()
    for node in nodes:
        if node.op == "constant":
            run.append(node)
            continue
        if ops.aliases(node) and not is_alias(ops, node) and made.isdisjoint(node.inputs):
            (views if state else run).append(node)
            continue
        fits = _fits(node, ops, forced)
        if fits is not state:
            yield views, False
            yield run, state
            run, views, state = [], [], fits
            made.clear()
        run.append(node)
        if state:
            made.update(node.outputs)
    yield views, False
    yield run, state


def _without_second_names(
    body: Graph, run: list[Node], ops: OpSet
) -> tuple[list[Node], list[Node]]:
    """Divide a run into the nodes of a cluster, and aliases that follow the cluster.

    An alias of another result, such as a reshape, would be copied in the cluster, since XLA gives
    each result a buffer of its own.
    """
    root = roots(ops, body)
    members = set(run)
    readers = consumers(body)

    def leaves(tensor: Tensor) -> bool:
        return tensor in body.outputs or any(r not in members for r, _ in readers.get(tensor, ()))

    named: dict[Tensor, list[Tensor]] = {}
    for node in run:
        for tensor in node.outputs:
            if leaves(tensor):
                named.setdefault(root.get(tensor, tensor), []).append(tensor)
    after: list[Node] = []
    for node in reversed(run):
        if not is_alias(ops, node) or len(named.get(root[node.output], ())) < 2:
            continue
        read = (reader for reader, _ in readers.get(node.output, ()))
        if all(reader not in members or reader in after for reader in read):
            after.insert(0, node)
    return [node for node in run if node not in after], after


def cluster(body: Graph, run: list[Node]) -> Node | None:
    """Return the cluster of a run of nodes; None if it has no result with any bytes."""
    made = merge(body, run) if run else None
    return made if made is not None and any(tensor.nbytes for tensor in made.outputs) else None


def merge(body: Graph, run: list[Node]) -> Node:
    """Return a node "xla_cluster" that computes `run`; its results are those read outside of it."""
    inside = {tensor for node in run for tensor in node.outputs}
    constants = {node.output: node for node in body.nodes if node.op == "constant"}
    readers = consumers(body)
    members = set(run)
    results = [
        tensor
        for node in run
        if node.op != "constant"
        for tensor in node.outputs
        if tensor in body.outputs or any(r not in members for r, _ in readers.get(tensor, ()))
    ]
    mirror: dict[Tensor, Tensor] = {}
    inputs: list[Tensor] = []
    nodes: list[Node] = []

    def stand_in(tensor: Tensor) -> Tensor:
        if tensor not in mirror:
            mirror[tensor] = tensor.fresh_copy()
            if tensor in constants:
                nodes.append(constants[tensor].replace(outputs=(mirror[tensor],)))
            else:
                assert tensor not in inside
                inputs.append(tensor)
        return mirror[tensor]

    for node in run:
        if node.op == "constant":
            continue
        operands = tuple(stand_in(tensor) for tensor in node.inputs)
        made = tuple(t.fresh_copy() for t in node.outputs)
        mirror.update(zip(node.outputs, made, strict=True))
        nodes.append(node.replace(inputs=operands, outputs=made))
    graph = Graph(
        tuple(mirror[tensor] for tensor in inputs),
        tuple(nodes),
        tuple(mirror[tensor] for tensor in results),
    )
    largest = max(run, key=lambda node: max((t.nbytes for t in node.outputs), default=0))
    return Node(
        "xla_cluster",
        tuple(inputs),
        tuple(results),
        {"cluster": graph},
        name=f"compiled_{largest.name}",
        source=largest.source,
    )


def _pays(cluster: Node, run: list[Node], ops: OpSet, runs: float) -> bool:
    (_, graph), *_ = cluster.subgraphs
    if not all(tensor.is_static for node in run for tensor in (*node.inputs, *node.outputs)):
        return False
    rates = ops.rates()
    before = sum(node_seconds(ops, node, rates.cached_byte) for node in run)
    saved = before - compiled_seconds(ops, graph)
    return SETTINGS.calls * runs * saved > compile_seconds(graph, rates)


def without_unused(nodes: list[Node], outputs: tuple[Tensor, ...]) -> tuple[Node, ...]:
    """Drop the constants that only clusters read, since each cluster has its own copy."""
    read = {tensor for node in nodes for tensor in node.inputs} | set(outputs)
    return tuple(node for node in nodes if node.op != "constant" or node.output in read)


def uncompiled(graph: Graph, ops: OpSet) -> dict[str, int]:
    """Count the ops in bodies of innermost loops that XLA has no kernel for, by name."""
    found: dict[str, int] = {}
    for node in graph.nodes:
        innermost = isinstance(node, Loop) and not any(isinstance(n, Loop) for n in node.body.nodes)
        for _, sub in node.subgraphs:
            if innermost:
                for inner in sub.nodes:
                    if inner.op not in ("constant", "xla_cluster") and not ops.compiles(inner):
                        found[inner.op] = found.get(inner.op, 0) + 1
            elif node.op != "xla_cluster":
                for op, count in uncompiled(sub, ops).items():
                    found[op] = found.get(op, 0) + count
    return found
