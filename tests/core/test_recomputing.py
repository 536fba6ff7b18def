"""What clusters hand to later ones, and what these compute again."""

from __future__ import annotations

import numpy as np

from core.toy import Builder, ToyOps, run
from tf_exla.ir.check import check_graph
from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.late.recomputing import recompute
from tf_exla.model.fusion import in_registers

OPS = ToyOps()


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


def gradient_like() -> tuple[Builder, Graph]:
    """A kernel, a solve that is not compiled, and what reads both."""
    b = Builder()
    x, scale = b.input(6, 6), b.input()
    root = b.op("exp", x)  # many flops: it is handed over
    kernel = b.op("multiply", scale, root)  # one flop: it is not
    whole = b.op("add", kernel, root)
    solved = b.op("Inverse", whole)
    body = b.graph(b.op("multiply", solved, kernel), b.op("subtract", solved, root))
    names = [node.name for node in body.nodes]
    return b, clustered(body, tuple(names[:3]), tuple(names[4:]))


def test_what_takes_a_flop_is_computed_again() -> None:
    _, body = gradient_like()
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
    _, body = gradient_like()
    values = np.random.default_rng(0).normal(size=(6, 6)), np.array(2.0)
    want = run(inlined(body), *values)
    for got, expected in zip(run(inlined(recompute(body, OPS)), *values), want, strict=True):
        np.testing.assert_array_equal(got, expected)


def test_what_others_read_or_takes_many_flops_is_handed_over() -> None:
    b = Builder()
    x = b.input(6, 6)
    double = b.op("add", x, x)
    root = b.op("exp", double)
    solved = b.op("Inverse", root)
    body = b.graph(b.op("multiply", b.op("multiply", solved, double), root), double)
    names = [node.name for node in body.nodes]
    made = clustered(body, tuple(names[:2]), tuple(names[3:]))
    assert recompute(made, OPS) is made


def test_a_cluster_without_results_goes() -> None:
    b = Builder()
    x = b.input(6, 6)
    double = b.op("add", x, x)
    other = b.op("Inverse", x)
    body = b.graph(b.op("multiply", b.op("multiply", other, double), x))
    names = [node.name for node in body.nodes]
    made = recompute(clustered(body, (names[0],), tuple(names[2:])), OPS)
    assert len(clusters(made)) == 1
    value = np.random.default_rng(0).normal(size=(6, 6))
    np.testing.assert_array_equal(run(inlined(made), value)[0], run(inlined(body), value)[0])


def test_what_several_loops_make_for_themselves() -> None:
    b = Builder()
    x = b.input(6, 6)
    double, root = b.op("add", x, x), b.op("exp", x)
    ends = b.op("add", double, root), b.op("subtract", double, root)
    kept = in_registers(OPS, b.graph(*ends))
    assert double in kept
    assert root not in kept  # many flops, and two loops
    total = b.op("sum", double, axis=0)
    assert double not in in_registers(OPS, b.graph(*ends, total))


def test_one_loop_makes_whatever_it_reads() -> None:
    b = Builder()
    x = b.input(6, 6)
    root = b.op("exp", x)
    assert in_registers(OPS, b.graph(b.op("add", root, x))) == {root}


def test_what_is_dear_is_not_made_again_by_way_of_what_is_simple() -> None:
    b = Builder()
    x = b.input(6, 6)
    root = b.op("exp", x)
    double = b.op("add", root, root)
    ends = b.op("add", double, x), b.op("subtract", double, x)
    assert in_registers(OPS, b.graph(*ends)) == {double}
