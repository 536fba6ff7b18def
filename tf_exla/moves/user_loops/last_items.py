"""The last tensor of a list is read from the variable that the last iteration leaves it in.

`tf.scan(step, rows)[-1]` stacks what each iteration carried, and reads only the last of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from tf_exla.ir.aliases import roots
from tf_exla.ir.control_flow import body_of, is_while
from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.ir.lists import is_list
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.static_integers import static_integer
from tf_exla.ir.traverse import producers, with_subgraphs, without_dead
from tf_exla.moves.user_loops.row_index import read_of
from tf_exla.vocabulary.trip_counts import exact_iterations, step_of


def with_last_items(graph: Graph, ops: OpSet) -> Graph:
    """Read last items from variables, also in sub-graphs; return the same graph if none is read."""
    nodes = [with_subgraphs(node, lambda sub: with_last_items(sub, ops)) for node in graph.nodes]
    changed = graph.with_nodes(nodes)
    made = producers(changed)
    renamed: dict[Tensor, Tensor] = {}
    for node in changed.nodes:
        if is_while(node) and any(map(is_list, node.outputs)):
            for listed, (last, item) in _last_items(node, ops).items():
                renamed.update(dict.fromkeys(_reads_of(changed, listed, last, item, made), item))
    if not renamed:
        return changed
    read = [node.substitute(renamed) for node in changed.nodes]
    return without_dead(changed.with_nodes(read, renamed))


def _last_items(node: Node, ops: OpSet) -> dict[Tensor, tuple[int, Tensor]]:
    """Return the lists of a While whose last item is one of its final variables.

    For each such list, return the index of its last item and that variable. Each iteration must
    write to the list the value that it also passes on to the next iteration.
    """
    count = exact_iterations(node)
    if not count:
        return {}
    body = body_of(node)
    made, root = producers(body), roots(ops, body)
    found = {}
    for k, (before, after) in enumerate(zip(body.inputs, body.outputs, strict=True)):
        write = made.get(after)
        if write is None or write.op != "list_set" or write.inputs[0] is not before:
            continue
        index, item = (root.get(tensor, tensor) for tensor in write.inputs[1:3])
        carried = [m for m, one in enumerate(body.outputs) if root.get(one, one) is item]
        if not carried or index not in body.inputs:
            continue
        j = body.inputs.index(index)
        first, step = static_integer(node.inputs[j]), step_of(body, made, j)
        if first is not None and step is not None:
            found[node.outputs[k]] = first + (count - 1) * step, node.outputs[carried[0]]
    return found


def _reads_of(
    graph: Graph, listed: Tensor, last: int, item: Tensor, made: Mapping[Tensor, Node]
) -> list[Tensor]:
    """Return the results of reads of the last item of a list; none if other items are read, too."""
    found: list[Tensor] = []
    pending = [listed]
    while pending:
        source = pending.pop()
        if source in graph.outputs:
            return []
        for node in graph.nodes:
            if source not in node.inputs:
                continue
            if node.op == "list_stack" and node.output.is_static:
                pending.append(node.output)
                continue
            read = read_of(node, source, made)
            if read is None or read.axis or node.output.axes != item.axes:
                return []
            at = read.at if isinstance(read.at, int) else static_integer(read.at)
            if at is None:
                return []
            size = (source.axes or (0,))[0]
            if (at + (size or 0) if at < 0 and read.wraps else at) != last:
                return []
            found.append(node.output)
    return found
