"""Arrays in which a scan keeps rows for its gradient, as lists of tensors, and back.

JAX stacks what a scan keeps for its gradient in an array: each iteration writes a row, and the
gradient's iterations read the rows in reverse order. That is a list to which the scan pushes and
from which its gradient pops. Moves that know lists, such as `segments.py`, see it as one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tf_exla.ir.builder import Builder
from tf_exla.ir.control_flow import Variable, body_of, cond_of, is_while, with_variables
from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.static_integers import static_integer
from tf_exla.ir.tensor import is_number
from tf_exla.ir.traverse import consumers, producers, reads, with_subgraphs, without_dead
from tf_exla.moves.user_loops.kept_lists import KeptList, kept_lists, only_reader
from tf_exla.moves.user_loops.row_index import read_of
from tf_exla.split.regions.origins import is_test
from tf_exla.vocabulary.trip_counts import exact_iterations, step_of


class _Rows(NamedTuple):
    """An array that `forward` fills at its variable `at` and `backward` reads at its `end`."""

    forward: Node
    at: int
    backward: Node
    end: int
    write: Node
    read: Node


def with_lists(graph: Graph, ops: OpSet) -> tuple[Graph, Node | None]:
    """Return the graph with lists in place of arrays of rows, and a node that writes a row.

    Return the same graph and None if there are no such arrays.
    """
    write = None
    while (rows := next(_rows(graph, ops), None)) is not None:
        write = rows.write
        graph = _listed(graph, rows, ops)
    return graph, write


def with_arrays(graph: Graph, write: Node, ops: OpSet) -> Graph:
    """Return the graph with arrays in place of all lists; `write`: a node that writes a row."""
    nodes = [with_subgraphs(node, lambda sub: with_arrays(sub, write, ops)) for node in graph.nodes]
    graph = graph.with_nodes(nodes)
    while (stacked := next(_stacked(graph, write, ops), None)) is not None:
        graph = stacked.replaced(graph)
    return graph


def _rows(graph: Graph, ops: OpSet) -> Iterator[_Rows]:
    """Yield the arrays whose rows a While writes and another one reads, in reverse order."""
    uses = consumers(graph)
    for forward in filter(is_while, graph.nodes):
        for at, tensor in enumerate(forward.outputs):
            readers = uses.get(tensor, [])
            if len(readers) != 1 or tensor in graph.outputs or not is_while(readers[0][0]):
                continue
            backward, end = readers[0]
            if is_test(backward):  # it may compare rows of two segments
                continue
            write, read = _written(forward, at, ops), _read(backward, end)
            last = backward.outputs[end]
            if write is None or read is None or last in uses or last in graph.outputs:
                continue
            if _reversed(forward, write, backward, read, tensor.dims[0]):
                yield _Rows(forward, at, backward, end, write, read)


def _written(forward: Node, at: int, ops: OpSet) -> Node | None:
    """Return the node by which each iteration writes a row to the variable at `at`, else None."""
    write, before = only_reader(forward, at), body_of(forward).inputs[at]
    if write is None or not ops.writes(write) or write.inputs[0] is not before:
        return None
    if before in write.inputs[1:] or not before.is_static or not before.dims:
        return None
    if not is_number(before.dtype):  # a new array begins with zeros
        return None
    # The row is whole along all other axes, so that it starts at zero there, whatever is asked for.
    return write if write.inputs[1].axes == (1, *before.dims[1:]) else None


def _read(backward: Node, end: int) -> Node | None:
    """Return the node that reads a row of the variable at `end`, which no iteration changes."""
    body = body_of(backward)
    before, made = body.inputs[end], producers(body)
    readers = [node for node in body.nodes if before in node.inputs]
    if body.outputs[end] is not before or body.outputs.count(before) > 1 or len(readers) != 1:
        return None
    cond = cond_of(backward)
    if cond.inputs[end] in reads(cond):
        return None
    read = read_of(readers[0], before, made)
    return read.node if read is not None and read.axis == 0 and not read.wraps else None


def _reversed(forward: Node, write: Node, backward: Node, read: Node, size: int) -> bool:
    """Return whether rows are written from one end to the other, and read the other way."""
    if not exact_iterations(forward) == exact_iterations(backward) == size:
        return False
    there, back = _progress(forward, write.inputs[2]), _progress(backward, read.inputs[1])
    if there is None or back is None:
        return False
    ends = (0, 1), (size - 1, -1)
    return there in ends and back in ends and there != back


def _progress(node: Node, tensor: Tensor) -> tuple[int, int] | None:
    """Return the first value of a number in a While's body, and its change per iteration."""
    body = body_of(node)
    made = producers(body)
    if (known := static_integer(tensor)) is not None:
        return known, 0
    if tensor.dtype not in ("int32", "int64"):  # a short counter may wrap around
        return None
    if tensor in body.inputs:
        k = body.inputs.index(tensor)
        first, step = static_integer(node.inputs[k]), step_of(body, made, k)
        return None if first is None or step is None else (first, step)
    maker = made.get(tensor)
    if maker is None or maker.op not in ("add", "astype", "identity", "subtract"):
        return None
    left, *right = (_progress(node, one) for one in maker.inputs)
    if left is None or not right or right[0] is None:
        return left if not right else None
    sign = -1 if maker.op == "subtract" else 1
    return left[0] + sign * right[0][0], left[1] + sign * right[0][1]


def _listed(graph: Graph, rows: _Rows, ops: OpSet) -> Graph:
    """Return the graph with a list in place of one array."""
    whole = rows.forward.outputs[rows.at]
    items = whole.dims[1:]

    def new() -> Tensor:
        return Tensor((), "variant", whole.name, items=items)

    outside = Builder(rows.forward, ops)
    sizes, most = outside.const(items), outside.const(whole.dims[0])
    empty = Node("list_empty", (sizes, most), (new(),), {}, name=whole.name)
    w = Builder(rows.write, ops)
    before, after = new(), new()
    item = w.shaped(rows.write.inputs[1], items)
    push = Node("list_push", (before, item), (after,), {}, name=whole.name)
    forward = _with(
        rows.forward, rows.at, rows.write, [*w.nodes, push], Variable(empty.output, before, after)
    )
    w = Builder(rows.read, ops)
    full, rest = new(), new()
    value = rows.read.output
    pop = Node("list_pop", (full, w.const(items)), (rest, value), {}, name=whole.name)
    filled = Variable(forward.outputs[-1], full, rest)
    backward = _with(rows.backward, rows.end, rows.read, [*w.nodes, pop], filled)
    instead = {rows.forward: [*outside.nodes, empty, forward], rows.backward: [backward]}
    return without_dead(_replaced(graph, instead))


def _with(node: Node, k: int, old: Node, new: Sequence[Node], added: Variable) -> Node:
    """Return a While with a node of its body replaced, and a variable instead of that at `k`."""
    made = with_variables(node, [added], (k,), _replaced(body_of(node), {old: new}))
    return made.replace(attrs={**made.attrs, "body": without_dead(body_of(made))})


@dataclass(frozen=True)
class _Stacked:
    """Lists that `forward` fills and `backward` empties, each as an array of `size` rows."""

    forward: Node
    backward: Node
    lists: tuple[KeptList, ...]
    size: int
    write: Node
    ops: OpSet

    def replaced(self, graph: Graph) -> Graph:
        """Return the graph with arrays in place of these lists."""
        outside = Builder(self.forward, self.ops)
        zero = outside.const(0)
        forward, arrays = self._forward(outside, zero)
        backward = self._backward(arrays)
        instead = {self.forward: [*outside.nodes, forward], self.backward: [backward]}
        return without_dead(_replaced(graph, instead))

    def _forward(self, outside: Builder, zero: Tensor) -> tuple[Node, Sequence[Tensor]]:
        """Return the loop that writes rows, and its arrays, followed by their number of rows."""
        body, count = body_of(self.forward), Tensor((), "int32", "rows")
        w = Builder(self.forward, self.ops)
        after = w.op("add", count, w.const(1))
        added, instead = list[Variable](), dict[Node, list[Node]]()
        for one in self.lists:
            item = one.item
            dims = (self.size, *item.dims)
            first = outside.op("broadcast_to", outside.zeros(item), outside.const(dims))
            inner = Tensor(dims, item.dtype, item.name)
            row = Builder(one.push, self.ops)
            update = row.shaped(item, (1, *item.dims))
            starts = [count, *(row.const(0) for _ in item.dims)]
            made = self.write.replace(
                inputs=(inner, update, *starts), outputs=(inner.fresh_copy(),)
            )
            instead[one.push] = [*row.nodes, made]
            added.append(Variable(first, inner, made.output))
        added.append(Variable(zero, count, after))
        dropped = [one.at for one in self.lists]
        node = with_variables(self.forward, added, dropped, _replaced(body, instead, w.nodes))
        return node, node.outputs[-len(added) :]

    def _backward(self, arrays: Sequence[Tensor]) -> Node:
        """Return the loop that reads rows of arrays, the last first."""
        *wholes, number = arrays
        body, count = body_of(self.backward), Tensor((), "int32", "rows")
        w = Builder(self.backward, self.ops)
        after = w.op("subtract", count, w.const(1))
        axis = w.const(0)
        added, instead = list[Variable](), dict[Node, list[Node]]()
        for one, whole in zip(self.lists, wholes, strict=True):
            inner, value = whole.fresh_copy(), one.pop.outputs[1]
            row = Builder(one.pop, self.ops)
            row.op("take", inner, after, axis, batch_dims=0)
            instead[one.pop] = row.ended(value)
            added.append(Variable(whole, inner, inner))
        added.append(Variable(number, count, after))
        dropped = [one.end for one in self.lists]
        body = _replaced(body, instead)
        body = body.replace(nodes=(*w.nodes, *body.nodes))
        return with_variables(self.backward, added, dropped, body)


def _replaced(
    graph: Graph, instead: Mapping[Node, Sequence[Node]], more: Sequence[Node] = ()
) -> Graph:
    """Return a graph with nodes replaced, and further nodes at its end."""
    nodes = [new for old in graph.nodes for new in instead.get(old, [old])]
    return graph.replace(nodes=(*nodes, *more))


def _stacked(graph: Graph, write: Node, ops: OpSet) -> Iterator[_Stacked]:
    """Yield the pairs of loops of which the first fills lists for the second."""
    made_by = producers(graph)
    for backward in filter(is_while, graph.nodes):
        for forward in dict.fromkeys(made_by[t] for t in backward.inputs if t in made_by):
            if not is_while(forward):
                continue
            lists = tuple(kept_lists(graph, forward, backward))
            if lists:
                size = ops.iterations(forward, {})
                assert size is not None, f"{forward} has an unknown number of iterations"
                yield _Stacked(forward, backward, lists, size, write, ops)
