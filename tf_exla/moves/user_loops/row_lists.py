"""A While that reads rows from a list of copies reads them from the tensor instead.

`tf.map_fn`, `tf.scan` and `TensorArray.unstack` copy the rows of a tensor to a list. An iteration
reads one row. Most often the tensor is an argument and stays alive, so the copies are needless.
"""

from __future__ import annotations

from tf_exla.ir.aliases import roots
from tf_exla.ir.builder import Builder
from tf_exla.ir.control_flow import Variable, body_of, cond_of, is_while, passed_on, with_variables
from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.traverse import producers, reads, with_subgraphs, without_dead
from tf_exla.moves.user_loops.row_index import read_of


def without_row_lists(graph: Graph, ops: OpSet, least: int) -> Graph:
    """Read rows of tensors of more than `least` bytes in place of lists, also in sub-graphs."""
    changed = graph.with_nodes(
        [
            with_subgraphs(node, lambda sub: without_row_lists(sub, ops, least))
            for node in graph.nodes
        ]
    )
    made, root = producers(graph), roots(ops, graph)
    for maker in graph.nodes:
        if maker.op != "list_from_tensor":
            continue
        rows, listed = maker.inputs[0], maker.output
        if not rows.is_static or rows.nbytes <= least or listed in graph.outputs:
            continue
        source = made.get(root.get(rows, rows))
        if source is not None and source.op == "read_variable" and source.stateful:
            continue  # an assigned variable would keep its old value alive while that is read
        changed = _reading(changed, listed, rows, ops) or changed
    return changed if changed is graph else without_dead(changed)


def _reading(graph: Graph, listed: Tensor, rows: Tensor, ops: OpSet) -> Graph | None:
    """Return a graph that reads `rows` instead of the list; None if the list has other uses."""
    wanted, made = frozenset(reads(graph)), producers(graph)
    nodes: list[Node] = []
    for node in graph.nodes:
        if listed not in node.inputs:
            nodes.append(node)
            continue
        found = _row(node, listed, rows, ops) if read_of(node, listed, made) else None
        if found is None and is_while(node):
            found = _loop(node, listed, rows, ops, wanted)
        if found is None:
            return None
        nodes += found
    return graph.replace(nodes=tuple(nodes))


def _row(node: Node, listed: Tensor, rows: Tensor, ops: OpSet) -> list[Node]:
    """Return nodes that read one row as a `list_get` does."""
    w = Builder(node, ops)
    w.op("take", rows, node.inputs[1], w.const(0))
    return w.ended(node.output)


def _loop(
    node: Node, listed: Tensor, rows: Tensor, ops: OpSet, wanted: frozenset[Tensor]
) -> list[Node] | None:
    """Return a While whose body reads `rows`; None if it uses the list other than to read items."""
    k, cond, body = node.inputs.index(listed), cond_of(node), body_of(node)
    if node.inputs.count(listed) > 1 or k not in passed_on(node) or node.outputs[k] in wanted:
        return None
    if cond.inputs[k] in reads(cond) or body.outputs.count(body.inputs[k]) > 1:
        return None
    inner = rows.fresh_copy()
    changed = _reading(body, body.inputs[k], inner, ops)
    if changed is None:
        return None
    return [with_variables(node, [Variable(rows, inner, inner)], (k,), changed)]
