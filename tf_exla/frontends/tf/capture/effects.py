"""Find the nodes that must run exactly once and in order, and drop dead pure nodes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from tf_exla.frontends.tf.capture.gathered_rows import GATHERS, of_read
from tf_exla.ir.control_flow import CHOICES, is_while, passed_on
from tf_exla.ir.graph import Graph, Node, Shape, Tensor
from tf_exla.ir.traverse import walk, without_dead

READS = frozenset(
    {"read_variable", "ResourceGather", "ResourceGatherNd", "VariableShape", "VarIsInitializedOp"}
)
UPDATES = {"AssignAddVariableOp": "add", "AssignSubVariableOp": "subtract"}
# Stateful by their OpDef only so that TensorFlow neither folds nor merges them.
_PURE = frozenset({"Empty"})
# Python code may assign variables that it refers to.
_PYTHON = frozenset({"EagerPyFunc", "PyFunc"})


def settle(graph: Graph) -> Graph:
    """Return `graph` with final `stateful` flags and without dead pure nodes.

    A read of a variable that no node of the program writes is pure. Rows are gathered from the
    value of a variable if the program also reads all of it. Different inputs are different
    variables: TensorFlow retraces a function if two arguments become the same variable.
    """
    return without_dead(lift_reads(_settled(graph, _Writes(graph))))


class _Writes:
    """The variables that a program writes, by the tensor that first holds their handle."""

    def __init__(self, graph: Graph) -> None:
        self.roots: dict[Tensor, Tensor] = {tensor: tensor for tensor in graph.inputs}
        self.written: set[Tensor] = set()
        self.values: dict[Tensor, Tensor] = {}  # a tensor like the value of a variable read whole
        self.everything = False
        self._scan(graph)

    def value_like(self, node: Node) -> Tensor | None:
        """Return a tensor like the variable whose rows a node reads, if it is also read whole."""
        root = self.roots.get(node.inputs[0])
        return None if root is None else self.values.get(root)

    def pure_read(self, node: Node) -> bool:
        root = self.roots.get(node.inputs[0])
        if root is None:
            return not self.written and not self.everything
        return not self.everything and root not in self.written

    def _scan(self, graph: Graph) -> None:
        for node in graph.nodes:
            changed = _changed(node)
            for inner, outer in sub_inputs(node):
                if outer in self.roots and outer not in changed:
                    self.roots[inner] = self.roots[outer]
            for _, sub in node.subgraphs:
                self._scan(sub)
            if node.op == "read_variable" or node.op in UPDATES:
                value = node.output if node.op == "read_variable" else node.inputs[1]
                if node.inputs[0] in self.roots and value.is_static:
                    self.values[self.roots[node.inputs[0]]] = value
            if node.op in ("identity", "while"):
                for outer, made in zip(node.inputs, node.outputs, strict=True):
                    if outer in self.roots and made.dtype == "resource" and outer not in changed:
                        self.roots[made] = self.roots[outer]
            elif node.op in _PYTHON:
                self.everything = True
            elif node.op not in READS and not node.subgraphs:
                for tensor in node.inputs:
                    if tensor.dtype == "resource":
                        self._write(tensor)

    def _write(self, handle: Tensor) -> None:
        if handle in self.roots:
            self.written.add(self.roots[handle])
        else:
            self.everything = True


def _changed(node: Node) -> frozenset[Tensor]:
    """Return the operands of a While that an iteration may replace, such as swapped handles."""
    if not is_while(node):
        return frozenset()
    kept = passed_on(node)
    return frozenset(tensor for k, tensor in enumerate(node.inputs) if k not in kept)


def sub_inputs(node: Node) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield (input of a sub-graph, corresponding operand of the node)."""
    operands = node.inputs[1:] if node.op in CHOICES else node.inputs
    for _, sub in node.subgraphs:
        yield from zip(sub.inputs, operands, strict=True)


def _settled(graph: Graph, writes: _Writes) -> Graph:
    nodes = []
    for node in graph.nodes:
        subs = {key: _settled(sub, writes) for key, sub in node.subgraphs}
        stateful = node.stateful
        if subs:
            stateful = any(sub.is_stateful for sub in subs.values())
        elif node.op in _PURE or (node.op in READS and writes.pure_read(node)):
            stateful = False
        attrs: Mapping[str, Any] = {**node.attrs, **subs} if subs else node.attrs
        if subs or stateful != node.stateful:
            node = dataclasses.replace(node, attrs=attrs, stateful=stateful)
        value = writes.value_like(node) if node.op in GATHERS else None
        nodes += [node] if value is None else of_read(node, value)
    return without_dead(graph.replace(nodes=tuple(nodes)))


def lift_reads(graph: Graph) -> Graph:
    """Move reads of variables out of loops and branches.

    A variable that nothing writes has one value during the call. It is read once, outside of loops,
    so that the gradient can use the value that the forward pass read. A variable that the program
    writes elsewhere has one value during a While whose only effects are reads. It is read right
    before that While.
    """
    nodes: list[Node] = []
    renamed: dict[Tensor, Tensor] = {}
    known: _Known = {}
    for node in graph.nodes:
        node = node.substitute(renamed)
        if node.op == "read_variable":
            value = _read(node, nodes, known)
            if value is not node.output:
                renamed[node.output] = value
            continue
        if node.subgraphs:
            node = _lift_from(node, nodes, renamed, known)
        nodes.append(node)
    return graph.with_nodes(nodes, renamed)


_Known = dict[tuple[Tensor, str, Shape | None], Tensor]
"""Results of pure reads, by handle, dtype and shape.

Equal reads share one result, so that what is found out about its sizes applies to all of them.
"""


def _read(read: Node, nodes: list[Node], known: _Known) -> Tensor:
    """Append a read, unless it is pure and was appended before; return the value."""
    if read.stateful:
        nodes.append(read)
        return read.output
    key = read.inputs[0], read.output.dtype, read.output.axes
    if key not in known:
        nodes.append(read)
        known[key] = read.output
    return known[key]


def _lift_from(
    node: Node, before: list[Node], renamed: dict[Tensor, Tensor], known: _Known
) -> Node:
    subs = {key: lift_reads(sub) for key, sub in node.subgraphs}
    offset = len(node.inputs) - len(next(iter(subs.values())).inputs)
    written = not is_while(node) or not all(map(_only_reads_variables, subs.values()))
    inputs, outputs, changed = list(node.inputs), list(node.outputs), _changed(node)
    for position, handle in enumerate(node.inputs[offset:]):
        if handle.dtype != "resource" or handle in changed:
            continue
        inner = [sub.inputs[position] for sub in subs.values()]
        reads = [
            _only_reads(sub, tensor, written)
            for sub, tensor in zip(subs.values(), inner, strict=True)
        ]
        if None in reads or not any(reads):
            continue
        like = next(read for found in reads for read in found or ())
        # Stateful reads are not merged. Each needs a name of its own, since the nodes that a head
        # has run are identified by name.
        reader = f"{node.name}/" if like.stateful else ""
        value = _copy(like.output, f"{reader}{handle.name}/value")
        read = dataclasses.replace(like, inputs=(handle,), outputs=(value,), name=value.name)
        value = _read(read, before, known)
        inputs[offset + position] = value
        for key, tensor in zip(list(subs), inner, strict=True):
            subs[key] = _with_value(subs[key], tensor, _copy(value, f"{tensor.name}/value"))
        if "body" in subs:
            renamed[outputs[position]] = handle
            outputs[position] = _copy(value, f"{value.name}/after")
    return dataclasses.replace(
        node,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        attrs={**node.attrs, **subs},
        stateful=any(sub.is_stateful for sub in subs.values()),
    )


def _only_reads_variables(graph: Graph) -> bool:
    """Return whether all effects of a graph are reads of variables."""
    # The effects of a node with sub-graphs are those of their nodes.
    leaves = (node for node in walk(graph) if not node.subgraphs)
    return all(node.op == "read_variable" for node in leaves if node.stateful)


def _only_reads(graph: Graph, handle: Tensor, written: bool) -> list[Node] | None:
    """Return the reads of a handle, or None if it has other uses.

    It may also be a result of the graph, at the position that it has among the inputs. `written`:
    whether the variable may change between two stateful reads.
    """
    users = [node for node in graph.nodes if handle in node.inputs]
    if any(node.op != "read_variable" or (node.stateful and written) for node in users):
        return None
    passed = [k for k, tensor in enumerate(graph.outputs) if tensor is handle]
    return users if all(graph.inputs.index(handle) == k for k in passed) else None


def _with_value(graph: Graph, handle: Tensor, value: Tensor) -> Graph:
    """Return `graph` with the input `handle` replaced by the variable's value."""
    renamed = {handle: value}
    nodes = []
    for node in graph.nodes:
        if handle in node.inputs:
            renamed[node.output] = value
            continue
        nodes.append(node.substitute(renamed))
    inputs = tuple(renamed.get(tensor, tensor) for tensor in graph.inputs)
    return graph.with_nodes(nodes, renamed).replace(inputs=inputs)


def _copy(tensor: Tensor, name: str) -> Tensor:
    return Tensor(tensor.shape, tensor.dtype, name)
