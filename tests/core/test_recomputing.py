"""What clusters hand to later ones, and what these compute again."""

from __future__ import annotations

import numpy as np

from core.kernels import InPlaceOps
from tf_exla.frontends.numpy import evaluate
from tf_exla.frontends.numpy.trace import Tracer
from tf_exla.ir.check import check_graph
from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.late.recomputing import recompute
from tf_exla.model.fusion import in_registers

OPS = InPlaceOps()


def cluster(body: Graph, *ops: str) -> Node:
    """Make one node of those nodes of a body whose names are given."""
    nodes = tuple(node for node in body.nodes if node.name in ops)
    made = [tensor for node in nodes for tensor in node.outputs]
    others = [node for node in body.nodes if node not in nodes]
    read = {tensor for node in others for tensor in node.inputs} | set(body.outputs)
    inputs = [t for node in nodes for t in node.inputs if t not in made]
    outer = tuple(dict.fromkeys(inputs))
    results = tuple(tensor for tensor in made if tensor in read)
    mirror = {t: Tensor(t.shape, t.dtype, t.name) for t in (*outer, *made)}
    inside = tuple(
        Node(
            node.op,
            tuple(mirror[t] for t in node.inputs),
            tuple(mirror[t] for t in node.outputs),
            node.attrs,
            name=node.name,
        )
        for node in nodes
    )
    ends = tuple(mirror[t] for t in results)
    graph = Graph(tuple(mirror[t] for t in outer), inside, ends)
    return Node("xla_cluster", outer, results, {"cluster": graph}, name=f"cluster_{ops[0]}")


def clustered(body: Graph, *groups: tuple[str, ...]) -> Graph:
    """Put groups of nodes into clusters, each in the place of its last node."""
    made = {names[-1]: cluster(body, *names) for names in groups}
    gone = {name for names in groups for name in names}
    nodes = [
        made.get(node.name, node)
        for node in body.nodes
        if node.name in made or node.name not in gone
    ]
    return body.replace(nodes=tuple(nodes))


def inlined(graph: Graph) -> Graph:
    """Replace clusters by what is in them."""
    nodes: list[Node] = []
    swapped: dict[Tensor, Tensor] = {}
    for node in graph.nodes:
        inputs = tuple(swapped.get(t, t) for t in node.inputs)
        if node.op != "xla_cluster":
            nodes.append(Node(node.op, inputs, node.outputs, node.attrs, name=node.name))
            continue
        ((_, inner),) = node.subgraphs
        swapped.update(zip(inner.inputs, inputs, strict=True))
        for one in inner.nodes:
            read = tuple(swapped.get(t, t) for t in one.inputs)
            nodes.append(Node(one.op, read, one.outputs, one.attrs, name=one.name))
        swapped.update(zip(node.outputs, inner.outputs, strict=True))
    return graph.replace(
        nodes=tuple(nodes), outputs=tuple(swapped.get(t, t) for t in graph.outputs)
    )


def clusters(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if node.op == "xla_cluster"]


def gradient_like() -> Graph:
    """A kernel, a decomposition that is not compiled, and what reads both."""
    xp = Tracer()
    x, scale = xp.input((6, 6)), xp.input(())
    root = xp.exp(x)  # many flops: it is handed over
    kernel = scale * root  # one flop: it is not
    lower = xp.linalg.cholesky(kernel + root)
    body = xp.graph(lower * kernel, lower - root)
    names = [node.name for node in body.nodes]
    return clustered(body, tuple(names[:3]), tuple(names[4:]))


def test_what_takes_a_flop_is_computed_again() -> None:
    body = gradient_like()
    before, after = clusters(body)
    assert len(before.outputs) == 3
    made = recompute(body, OPS)
    check_graph(inlined(made))
    first, second = clusters(made)
    assert [t.name for t in first.outputs] == [
        t.name for t in before.outputs if t.name[:3] != "mul"
    ]
    ((_, inner),) = second.subgraphs
    assert [node.op for node in inner.nodes] == ["multiply", "multiply", "subtract"]
    assert len(second.inputs) == len(after.inputs)  # the scale instead of the kernel


def test_the_numbers_stay() -> None:
    body = gradient_like()
    values = 9 * np.eye(6), np.array(2.0)  # positive definite, exponentials of it, too
    want = evaluate(inlined(body), *values)
    for got, expected in zip(evaluate(inlined(recompute(body, OPS)), *values), want, strict=True):
        np.testing.assert_array_equal(got, expected)


def test_what_others_read_or_takes_many_flops_is_handed_over() -> None:
    xp = Tracer()
    x = xp.input((6, 6))
    double = x + x
    root = xp.exp(double)
    body = xp.graph(xp.linalg.cholesky(root) * double * root, double)
    names = [node.name for node in body.nodes]
    made = clustered(body, tuple(names[:2]), tuple(names[3:]))
    assert recompute(made, OPS) is made


def test_a_cluster_without_results_goes() -> None:
    xp = Tracer()
    x = xp.input((6, 6))
    double = x + x
    body = xp.graph(xp.linalg.cholesky(x) * double * x)
    names = [node.name for node in body.nodes]
    made = recompute(clustered(body, (names[0],), tuple(names[2:])), OPS)
    assert len(clusters(made)) == 1
    value = np.eye(6) + 0.1
    np.testing.assert_array_equal(
        evaluate(inlined(made), value)[0], evaluate(inlined(body), value)[0]
    )


def test_what_several_loops_make_for_themselves() -> None:
    xp = Tracer()
    x = xp.input((6, 6))
    double, root = x + x, xp.exp(x)
    ends = double + root, double - root
    kept = in_registers(OPS, xp.graph(*ends))
    assert double.tensor in kept
    assert root.tensor not in kept  # many flops, and two loops
    total = xp.sum(double, axis=0)
    assert double.tensor not in in_registers(OPS, xp.graph(*ends, total))


def test_one_loop_makes_whatever_it_reads() -> None:
    xp = Tracer()
    x = xp.input((6, 6))
    root = xp.exp(x)
    assert in_registers(OPS, xp.graph(root + x)) == {root.tensor}


def test_what_is_dear_is_not_made_again_by_way_of_what_is_simple() -> None:
    xp = Tracer()
    x = xp.input((6, 6))
    root = xp.exp(x)
    double = root + root
    assert in_registers(OPS, xp.graph(double + x, double - x)) == {double.tensor}
