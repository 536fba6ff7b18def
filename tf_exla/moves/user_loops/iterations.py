"""Iterations written out: a While of few iterations, as the nodes of all its iterations.

The items of lists become single tensors, which can be split along any axis. They may also be
partial sums over chunks, while a list that a loop over chunks carries cannot have such items. Loops
over a few latent processes or ensemble members, and their gradients, are of this kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tf_exla.ir.builder import make_node
from tf_exla.ir.clean import clean
from tf_exla.ir.control_flow import body_of, cond_of, is_while
from tf_exla.ir.graph import Array, Graph, Loop, Node, Tensor, const
from tf_exla.ir.lists import is_list
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.refusal import Refusal
from tf_exla.ir.static_integers import static_integer
from tf_exla.model.settings import SETTINGS

Items = Sequence[Tensor | None]
"""The tensors of a list; None: a place to which nothing was written yet."""


def write_iterations(graph: Graph, ops: OpSet) -> Graph:
    """Replace Whiles of few iterations by the nodes of all iterations.

    Return the same graph if there are none. Whiles in branches stay as they are, and so do those
    that make a list that is read in an unknown way.
    """
    if not any(map(is_while, graph.nodes)):
        return graph
    kept: set[Node] = set()
    while True:
        writer = _Writer(ops, kept)
        try:
            made = writer.written(graph)
        except _Stays as stays:
            kept.add(stays.node)
            continue
        except Refusal:
            return graph
        return clean(made, ops) if writer.count else graph


class _Stays(Exception):
    """A While stays: the lists that it makes are read in an unknown way."""

    def __init__(self, node: Node) -> None:
        super().__init__(node.name)
        self.node = node


class _Writer:
    """Writes the new graph. `kept`: Whiles that stay as they are.

    `instead`: replacements of tensors of the old graph. `lists`: the items of lists. `loop_of`: the
    Whiles of lists that iterations made; these lists do not exist in the new graph.
    """

    def __init__(self, ops: OpSet, kept: set[Node]) -> None:
        self.ops = ops
        self.kept = kept
        self.count = 0
        self.nodes: list[Node] = []
        self.instead: dict[Tensor, Tensor] = {}
        self.lists: dict[Tensor, Items] = {}
        self.loop_of: dict[Tensor, Node] = {}
        self.name = ""
        self.source = ""

    def written(self, graph: Graph) -> Graph:
        for old in graph.nodes:
            node = old.substitute(self.instead)
            self.name, self.source = node.name or node.op, node.source
            if is_while(old) and old not in self.kept:
                after = self._iterated(node, old)
                if after is not None:
                    self.instead.update(zip(old.outputs, after, strict=True))
                    self.count += 1
                    continue
            self._list(node, node.outputs)
            if any(tensor in self.loop_of for tensor in node.inputs):
                self._read(node)
                continue
            self.nodes.append(node)
        outputs = tuple(self.instead.get(tensor, tensor) for tensor in graph.outputs)
        for tensor in outputs:
            self._check_real(tensor)
        return graph.replace(nodes=tuple(self.nodes), outputs=outputs)

    def _read(self, node: Node) -> None:
        """Replace a node outside of loops that reads a loop's list, or makes another list of it."""
        loop = next(self.loop_of[tensor] for tensor in node.inputs if tensor in self.loop_of)
        made = self._item_of(node)
        for tensor, one in zip(node.outputs, made, strict=True):
            if one is not None:
                self.instead[tensor] = one
            elif tensor in self.lists:
                self.loop_of[tensor] = loop
            else:
                raise _Stays(loop)
        if node.stateful:
            raise _Stays(loop)

    def _check_real(self, tensor: Tensor) -> None:
        if tensor in self.loop_of:
            raise _Stays(self.loop_of[tensor])

    # Iterations.

    def _iterated(self, node: Node, loop: Node) -> list[Tensor] | None:
        """Write out a While; return its final variables, None if it stays as it is.

        `loop`: the outermost While around it, or this While itself.
        """
        body, cond = body_of(node), cond_of(node)
        if node.stateful or any(_is_special(one) for one in (*body.nodes, *cond.nodes)):
            return None
        variables: list[Tensor] = list(node.inputs)
        if any(is_list(tensor) and tensor not in self.lists for tensor in variables):
            return None
        written = len(self.nodes)
        for _ in range(SETTINGS.written_iterations + 1):
            goes_on = static_value(cond, variables)
            if goes_on is None or len(self.nodes) - written > SETTINGS.written_nodes:
                break
            if not goes_on:
                return variables
            try:
                variables = self._iteration(loop, body, variables)
            except Refusal:
                break
        del self.nodes[written:]
        return None

    def _iteration(self, loop: Node, body: Graph, variables: Sequence[Tensor]) -> list[Tensor]:
        """Write one iteration; return the variables after it."""
        instead = dict(zip(body.inputs, variables, strict=True))
        for old in body.nodes:
            node = old.substitute(instead)
            if is_while(node):
                after = self._iterated(node, loop)
                if after is None:
                    raise Refusal("a While inside of it stays")
                instead.update(zip(old.outputs, after, strict=True))
            elif any(map(is_list, (*node.inputs, *node.outputs))):
                fresh = tuple(tensor.fresh_copy() for tensor in node.outputs)
                node = replace(node, outputs=fresh)
                self._list(node, fresh)
                made = self._item_of(node)
                pairs = zip(fresh, made, strict=True)
                if any(one is None and tensor not in self.lists for tensor, one in pairs):
                    raise Refusal(f"{node.op} of a list")
                self.loop_of.update((t, loop) for t in fresh if is_list(t))
                results = zip(old.outputs, fresh, made, strict=True)
                instead.update((was, one or list_) for was, list_, one in results)
            else:
                outputs = self._again(old, node)
                instead.update(zip(old.outputs, outputs, strict=True))
        return [instead.get(tensor, tensor) for tensor in body.outputs]

    def _again(self, old: Node, node: Node) -> Sequence[Tensor]:
        """Write a copy of a node, or a constant if its value is known; return its results."""
        value = _evaluated(node)
        if value is not None:
            return [self._const(value, node.output.dtype)]
        outputs = tuple(tensor.fresh_copy() for tensor in old.outputs)
        self.nodes.append(replace(node, outputs=outputs))
        return outputs

    # Lists.

    def _list(self, node: Node, outputs: Sequence[Tensor]) -> None:
        """Record the tensors in the list that a node makes, if they are known."""
        how = _MAKERS.get(node.op)
        if how is None or not outputs or not is_list(outputs[0]):
            return
        if any(is_list(tensor) and tensor not in self.lists for tensor in node.inputs):
            return
        try:
            items = how(self, node)
        except Refusal:
            return
        if items is not None:
            self.lists[outputs[0]] = items

    def _item_of(self, node: Node) -> list[Tensor | None]:
        """Return the tensors that replace the results of a node; None for each that stays.

        Only results of reads of lists are replaced.
        """
        if node.op not in ("list_get", "list_pop", "list_stack"):
            return [None] * len(node.outputs)
        items, result = self.lists[node.inputs[0]], node.outputs[-1]
        if node.op == "list_stack":
            return [self._stacked(items, result)]
        at = -1 if node.op == "list_pop" else static_integer(node.inputs[1])
        if at is None or not -len(items) <= at < len(items):
            raise Refusal("a place in a list that is not known")
        item = items[at] or self._zeros(result)
        return [item] if node.op == "list_get" else [None, item]

    def _stacked(self, items: Items, result: Tensor) -> Tensor:
        if not items or not result.is_static or any(one and is_list(one) for one in items):
            raise Refusal("a list of unknown sizes")
        shape = self._const(np.asarray((1, *result.dims[1:]), np.int32))
        zeros = Tensor(result.dims[1:], result.dtype, result.name)
        parts = [self.op("reshape", one or self._zeros(zeros), shape) for one in items]
        if len(parts) == 1:
            return parts[0]
        return self.op("concat", *parts, self._const(np.asarray(0, np.int32)))

    def rows(self, tensor: Tensor) -> Items:
        """Return the rows of a tensor."""
        if not tensor.is_static or not tensor.dims or tensor.dims[0] > SETTINGS.written_iterations:
            raise Refusal("more rows than iterations that are written out")
        shape = self._const(np.asarray(tensor.dims[1:], np.int32))
        size = self._const(np.asarray((1, *tensor.dims[1:]), np.int32))
        made = []
        for row in range(tensor.dims[0]):
            begin = self._const(np.asarray((row, *(0 for _ in tensor.dims[1:])), np.int32))
            made.append(self.op("reshape", self.op("slice", tensor, begin, size), shape))
        return made

    def added(self, lists: Sequence[Items]) -> Items:
        """Return the sums of the tensors at each place."""
        if len({len(items) for items in lists}) != 1:
            raise Refusal("lists of different lengths")
        made: list[Tensor | None] = []
        for place in zip(*lists, strict=True):
            terms = [one for one in place if one is not None]
            total = terms[0] if terms else None
            for term in terms[1:]:
                assert total is not None
                total = self.op("add", total, term)
            made.append(total)
        return made

    # Nodes.

    def op(self, op: str, *inputs: Tensor) -> Tensor:
        if not all(tensor.is_static for tensor in inputs):
            raise Refusal("an unknown size")
        node = make_node(self.ops, op, inputs, {}, f"{self.name}/{op}")
        self.nodes.append(replace(node, source=self.source))
        return node.output

    def _zeros(self, like: Tensor) -> Tensor:
        if not like.is_static or is_list(like):
            raise Refusal("a list of unknown sizes")
        zero = self._const(np.zeros([], "float32"), like.dtype)
        return self.op("full", self._const(np.asarray(like.dims, np.int32)), zero)

    def _const(self, value: Array, dtype: str | None = None) -> Tensor:
        dtype = dtype or value.dtype.name
        node = const(value if dtype == "bfloat16" else value.astype(dtype), self.name, dtype)
        self.nodes.append(node)
        return node.output


def _is_special(node: Node) -> bool:
    """Return whether a While with this node stays: for side effects, sub-graphs, or an origin."""
    if node.stateful or isinstance(node, Loop) or (node.subgraphs and not is_while(node)):
        return True
    return any(tensor.origin is not None for tensor in node.outputs)


def _reserved(writer: _Writer, node: Node) -> Items | None:
    count = static_integer(node.inputs[1])
    return None if count is None or count > SETTINGS.written_iterations else [None] * count


def _set(writer: _Writer, node: Node) -> Items | None:
    items, at = list(writer.lists[node.inputs[0]]), static_integer(node.inputs[1])
    if at is None or not 0 <= at < len(items):
        return None
    items[at] = node.inputs[2]
    return items


_MAKERS: Mapping[str, Callable[[_Writer, Node], Items | None]] = {
    "add_n": lambda writer, node: writer.added([writer.lists[one] for one in node.inputs]),
    "list_empty": lambda writer, node: [],
    "list_from_tensor": lambda writer, node: writer.rows(node.inputs[0]),
    "list_pop": lambda writer, node: writer.lists[node.inputs[0]][:-1],
    "list_push": lambda writer, node: [*writer.lists[node.inputs[0]], node.inputs[1]],
    "list_reserve": _reserved,
    "list_set": _set,
    "zeros_like": lambda writer, node: [None] * len(writer.lists[node.inputs[0]]),
}
"""For ops whose first result is a list: functions that return its items, or None if unknown."""


# Numbers.


def static_value(graph: Graph, inputs: Sequence[Tensor]) -> bool | None:
    """Return the truth value that a graph computes from known numbers; None if it is unknown."""
    instead = dict(zip(graph.inputs, inputs, strict=True))
    for old in graph.nodes:
        node = old.substitute(instead)
        value = _evaluated(node)
        if value is not None:
            instead[old.output] = replace(node.output, value=value)
    found = instead.get(graph.outputs[0], graph.outputs[0]).value
    return None if found is None else bool(found)


def _evaluated(node: Node) -> Array | None:
    """Return the value of a single integer or truth value if its operands are known, else None."""
    how = _NUMBERS.get(node.op)
    if how is None or len(node.outputs) != 1 or node.output.shape != ():
        return None
    if not all(tensor.dtype.startswith(("int", "bool")) for tensor in (*node.inputs, node.output)):
        return None
    values = [tensor.value for tensor in node.inputs]
    if any(value is None for value in values):
        return None
    return np.asarray(how(*values)).astype(node.output.dtype)


_NUMBERS: Mapping[str, Callable[..., object]] = {
    "add": np.add,
    "astype": lambda value: value,
    "equal": np.equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "identity": lambda value: value,
    "less": np.less,
    "less_equal": np.less_equal,
    "logical_and": np.logical_and,
    "logical_not": np.logical_not,
    "logical_or": np.logical_or,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "multiply": np.multiply,
    "not_equal": np.not_equal,
    "subtract": np.subtract,
}
