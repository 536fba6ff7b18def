"""Random tensors by rows: at an offset, the counter gives the rows from there on.

Stateless random ops encrypt a counter (Philox, Salmon et al. 2011): block b of a tensor's numbers
comes from `counter + b`. So a few rows have the same bits alone as among all rows. `random_rows` is
our own op: an operand holds the numbers of its rows, and a chunk has its part of them.
"""

from __future__ import annotations

from tf_exla.ir.builder import Builder
from tf_exla.ir.graph import Graph, Node
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.traverse import with_subgraphs

PHILOX = (1, 3)
"""TensorFlow's algorithms that are Philox: the one of this name, and the automatic choice."""
SPLIT = frozenset(
    {
        "stateless_normal",
        "stateless_uniform_full_int",
        "stateless_uniform_int",
        "stateless_uniform",
        "stateless_truncated_normal",
    }
)


def random_rows(graph: Graph, ops: OpSet, least: int) -> Graph:
    """Draw random tensors of more than `least` bytes by rows, also in sub-graphs."""
    nodes: list[Node] = []
    for old in graph.nodes:
        node = with_subgraphs(old, lambda sub: random_rows(sub, ops, least))
        nodes.extend(_by_rows(node, ops) if _is_large(node, least) else [node])
    made = tuple(nodes)
    same = all(a is b for a, b in zip(made, graph.nodes, strict=False))
    return graph if same and len(made) == len(graph.nodes) else graph.replace(nodes=made)


def _is_large(node: Node, least: int) -> bool:
    if node.op not in SPLIT or not all(t.is_static for t in (*node.inputs, *node.outputs)):
        return False
    algorithm, dims = node.inputs[3].value, node.output.dims
    if node.output.nbytes <= least or len(dims) < 2 or algorithm is None:
        return False
    return int(algorithm) in PHILOX and node.output.size > dims[0] > 1


def _by_rows(node: Node, ops: OpSet) -> list[Node]:
    w = Builder(node, ops)
    bounds = [w.const(value, "int64") for value in (0, node.output.dims[0], 1)]
    rows = w.op("arange", *bounds)
    shape, *rest = node.inputs
    attrs = {**node.attrs, "random": node.op}
    operands = (rows, shape, *rest)
    made = Node("random_rows", operands, node.outputs, attrs, name=node.name, source=node.source)
    return [*w.nodes, made]
