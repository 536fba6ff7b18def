"""What a forward pass saves for its gradient, and how the gradient uses it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tf_exla.frontends.tf.capture.effects import READS
from tf_exla.frontends.tf.capture.func_graphs import variable_type
from tf_exla.frontends.tf.capture.gathered_rows import GATHERS, of_value
from tf_exla.frontends.tf.gradients.replay import Key, is_handle, keeping, replay, stateful_inside
from tf_exla.frontends.tf.planning.settings import Program
from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.ir.traverse import walk, without_dead


class GradientError(RuntimeError):
    """A gradient would be wrong or cannot be computed; the message says which and why."""


# What the forward pass saves.

# Every call returns saved values of up to this many bytes, so that one plan serves all calls.
_LITTLE = 1 << 20


def take_little(saves: Sequence[Tensor], graph: Graph) -> bool:
    """Return whether `saves` are so small that every call may return them, needed or not."""
    static = all(tensor.is_static and not is_handle(tensor) for tensor in saves)
    # A saved value of a variable that the program assigns stays in memory beside the new one.
    old = any(node.op == "read_variable" and node.stateful for node in graph.nodes)
    return static and not old and sum(tensor.nbytes for tensor in saves) <= _LITTLE


def own_saves(program: Program) -> list[Tensor]:
    """Return the tensors that a call of `program` saves, and add them to its tables."""
    saves: list[Tensor] = []

    def save(tensor: Tensor) -> int:
        saves.append(tensor)
        return program.first_save + len(saves) - 1

    nodes: list[Node] = []
    whole: dict[int, Tensor] = {}  # values of variables, by the position of the handle
    inputs = {tensor: k for k, tensor in enumerate(program.graph.inputs)}
    for node in program.graph.nodes:
        if node.stateful and node.subgraphs:
            made, kept = keeping(node)
            nodes += made
            positions = {key: save(tensor) for key, tensor in kept.items()}
            for one in (node, *stateful_inside(node)):
                keys = ((one.name, k) for k in range(max(len(one.outputs), 1)))
                program.by_name[one.name] = [positions.get(key) for key in keys]
            continue
        nodes.append(node)
        if node.stateful:
            program.by_name[node.name] = [
                None if is_handle(tensor) else save(tensor) for tensor in node.outputs
            ]
        elif node.op in READS and node.op != "VariableShape" and node.inputs[0] in inputs:
            position = inputs[node.inputs[0]]
            if position not in program.by_handle and position < program.captured.inputs:
                whole[position] = _value(node, program, position, nodes)
                program.by_handle[position] = save(whole[position])
            if node.op in GATHERS and position in whole:
                nodes.remove(node)
                nodes += of_value(node, whole[position])
    program.graph = program.graph.replace(nodes=tuple(nodes))
    return saves


def _value(read: Node, program: Program, position: int, nodes: list[Node]) -> Tensor:
    """Return the whole value of the variable that a node reads; append a read if necessary."""
    if read.op == "read_variable":
        return read.output
    known = variable_type(program.concrete.graph.inputs[position])
    if known is None:
        raise GradientError(
            f"{program.settings.name}: the variable that {read.name} reads is unknown"
        )
    dtype, shape = known
    value = Tensor(shape, dtype, f"{read.name}/value")
    nodes.append(
        Node("read_variable", read.inputs[:1], (value,), {"dtype": dtype}, name=value.name)
    )
    return value


# What the gradient uses of the saved values.


def substitute(program: Program, inner: Program, prefix: str) -> None:
    """Replace the stateful nodes of the forward pass in a gradient by the values that it has saved.

    `program`: the gradient, whose graph is changed. `inner`: the program of the level below.
    `prefix`: what precedes the names of its nodes. Raises `GradientError` if a value is not
    available.
    """
    graph = program.graph
    given = [inner.given_at(k) for k in range(program.first_save)]
    renamed: dict[Tensor, Tensor] = {}
    handles = {tensor: k for k, tensor in enumerate(graph.inputs) if tensor.dtype == "resource"}
    program.by_handle.update(inner.by_handle)

    nodes: list[Node] = []
    for node in graph.nodes:
        node = node.substitute(renamed)
        if node.stateful and node.name.startswith(prefix):
            known: dict[Key, Tensor] = {}
            for one in (node, *stateful_inside(node)):
                positions = _positions(one, program, inner, prefix)
                known.update(((one.name, k), given[i]) for k, i in positions if i is not None)
            if node.subgraphs:
                nodes += replay(node, known)
                continue
            for k, tensor in enumerate(node.outputs):
                if (node.name, k) in known:
                    renamed[tensor] = known[node.name, k]
        elif (
            node.op in READS
            and not node.stateful
            and handles.get(node.inputs[0]) in inner.by_handle
        ):
            index = inner.by_handle[handles[node.inputs[0]]]
            nodes += _read_saved(node, given[index], renamed)
        else:
            nodes.append(node)
    made = graph.with_nodes(nodes, renamed).replace(inputs=(*graph.inputs, *given))
    made = without_dead(made)
    _check_defined(made, inner)
    program.graph = made


def _positions(
    node: Node, program: Program, inner: Program, prefix: str
) -> Iterator[tuple[int, int | None]]:
    """Yield (position of a stateful forward node's result, its index among saved values)."""
    known = inner.by_name.get(node.name.removeprefix(prefix))
    if known is None:
        raise GradientError(
            f"{inner.settings.name}: the stateful {node.op} {node.name!r} of the forward pass is "
            "not the same when its gradient is traced"
        )
    program.by_name[node.name] = known
    yield from enumerate(known)


def _read_saved(node: Node, value: Tensor, renamed: dict[Tensor, Tensor]) -> list[Node]:
    """Return nodes that compute the result of the read `node` from the variable's saved value.

    If the result is the whole value, there are none, and it is entered into `renamed`.
    """
    if node.op == "read_variable":
        renamed[node.output] = value
        return []
    return of_value(node, value) if node.op in GATHERS else [node]


def _check_defined(graph: Graph, inner: Program) -> None:
    """Check that the gradient needs no value that only rerunning an effect or a read would give."""
    lost = _undefined(graph)
    if lost is not None:
        raise GradientError(
            f"{inner.settings.name}: the gradient needs {lost}, a handle that a side effect gave, "
            "which cannot run twice"
        )
    inside = (
        inner_node for node in graph.nodes for _, sub in node.subgraphs for inner_node in walk(sub)
    )
    for node in inside:
        if node.op in READS and node.op != "VariableShape":
            raise GradientError(
                f"{inner.settings.name}: the gradient reads a variable inside of control flow "
                f"({node.name}), where its value at the forward pass is not known"
            )


def _undefined(graph: Graph) -> Tensor | None:
    """Return a tensor that a graph or a sub-graph uses but does not define, or None."""
    defined = set(graph.inputs)
    for node in graph.nodes:
        found = next((tensor for tensor in node.inputs if tensor not in defined), None)
        for _, sub in node.subgraphs:
            found = found or _undefined(sub)
        if found is not None:
            return found
        defined.update(node.outputs)
    return next((tensor for tensor in graph.outputs if tensor not in defined), None)
