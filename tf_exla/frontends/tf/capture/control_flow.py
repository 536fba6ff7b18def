"""Capture of structured control flow: While, If and Case, in their stateful and stateless kinds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

import tensorflow as tf
from tensorflow.python.framework import func_graph

from tf_exla.frontends.tf.capture.func_graphs import find_function
from tf_exla.frontends.tf.capture.list_shapes import ListShape, widen
from tf_exla.frontends.tf.capture.scope import Scope
from tf_exla.frontends.tf.source_line import source_line
from tf_exla.ir.graph import Graph, Node, Shape, Tensor


@dataclass(frozen=True)
class _Known:
    """What is known of an operand or a result of a sub-graph; None for what is unknown.

    `shape`: its own shape. `places`: the shapes of a list's tensors. `holds`: for a handle, the
    shape of the variable's value.
    """

    shape: Shape | None
    places: ListShape | None
    holds: Shape | None

    def join(self, other: _Known) -> _Known:
        """Return the shapes that hold for both."""
        places = self.places and other.places and self.places.join(other.places)
        holds = self.holds if self.holds == other.holds else None
        return _Known(widen(self.shape, other.shape), places, holds)


def capture_while(scope: Scope, op: tf.Operation, inputs: list[Tensor], name: str) -> list[Tensor]:
    """Capture a loop: attrs "cond" and "body", both on all loop variables.

    The shapes of the loop variables are those of the operands. Sizes that an iteration changes
    become unknown, until an iteration changes none.
    """
    cond = find_function(op, op.get_attr("cond").name)
    body = find_function(op, op.get_attr("body").name)
    results = body.outputs[: len(op.outputs)]
    # A loop-invariant variable whose initial value is known stays known in the loop.
    known = [
        tensor if outer is inner and tensor.value is not None else None
        for tensor, inner, outer in zip(inputs, body.inputs, results, strict=True)
    ]
    variables = _known(scope, inputs)
    while True:
        body_graph = _sub_graph(scope, body, results, variables, known, f"{name}/body/")
        wider = _joined(variables, _known(scope, body_graph.outputs))
        if wider == variables:
            break
        variables = wider
    cond_graph = _sub_graph(scope, cond, cond.outputs[:1], variables, known, f"{name}/cond/")
    attrs = {
        "cond": cond_graph,
        "body": body_graph,
        "parallel_iterations": op.get_attr("parallel_iterations"),
    }
    return _append(scope, op, Node("while", tuple(inputs), (), attrs, name=name), variables)


def capture_if(scope: Scope, op: tf.Operation, inputs: list[Tensor], name: str) -> list[Tensor]:
    """Capture a choice of "then_branch" or "else_branch"; inline it if the predicate is known."""
    branches = [op.get_attr("then_branch").name, op.get_attr("else_branch").name]
    value = inputs[0].value
    if value is not None:
        return scope.call(op, branches[0 if bool(value) else 1], inputs[1:], name)
    keys = ("then_branch", "else_branch")
    return _choice(scope, "cond", op, inputs, dict(zip(keys, branches, strict=True)), name)


def capture_case(scope: Scope, op: tf.Operation, inputs: list[Tensor], name: str) -> list[Tensor]:
    """Capture a choice among "branch_0", "branch_1", ...; the last if the index is out of range."""
    branches = [function.name for function in op.get_attr("branches")]
    value = inputs[0].value
    if value is not None:
        index = int(value)
        chosen = branches[index if 0 <= index < len(branches) else -1]
        return scope.call(op, chosen, inputs[1:], name)
    named = {f"branch_{k}": branch for k, branch in enumerate(branches)}
    return _choice(scope, "switch", op, inputs, named, name)


STRUCTURED: dict[str, Callable[[Scope, tf.Operation, list[Tensor], str], list[Tensor]]] = {
    "Case": capture_case,
    "If": capture_if,
    "StatelessCase": capture_case,
    "StatelessIf": capture_if,
    "StatelessWhile": capture_while,
    "While": capture_while,
}


def _choice(
    scope: Scope,
    kind: str,
    op: tf.Operation,
    inputs: list[Tensor],
    branches: dict[str, str],
    name: str,
) -> list[Tensor]:
    known = [tensor if tensor.value is not None else None for tensor in inputs[1:]]
    given = _known(scope, inputs[1:])
    graphs = {}
    for key, function in branches.items():
        graph = find_function(op, function)
        outputs = graph.outputs[: len(op.outputs)]
        graphs[key] = _sub_graph(scope, graph, outputs, given, known, f"{name}/{key}/")
    made = [_known(scope, sub.outputs) for sub in graphs.values()]
    node = Node(kind, tuple(inputs), (), graphs, name=name)
    return _append(scope, op, node, reduce(_joined, made))


def _sub_graph(
    scope: Scope,
    graph: func_graph.FuncGraph,
    outputs: Sequence[tf.Tensor],
    given: Sequence[_Known],
    known: Sequence[Tensor | None],
    prefix: str,
) -> Graph:
    inner = Scope(scope.walk)
    inputs = []
    for tensor, one in zip(graph.inputs, given, strict=True):
        items = one.places.items if one.places is not None else None
        label = prefix + tensor.name.removesuffix(":0")
        made = Tensor(one.shape, tensor.dtype.name, label, items=items)
        scope.walk.origins[made] = tensor
        _know(scope, made, one)
        inputs.append(made)
    values = [
        inner.constant(value.value, value.dtype, tensor.name + "/known")
        if value is not None and value.value is not None
        else tensor
        for tensor, value in zip(inputs, known, strict=True)
    ]
    results = inner.inline(graph, values, outputs, prefix)
    # A loop variable that is passed on unchanged stays the same tensor.
    passed = {id(made): tensor for made, tensor in zip(values, inputs, strict=True)}
    results = [passed.get(id(tensor), tensor) for tensor in results]
    return Graph(tuple(inputs), tuple(inner.nodes), tuple(results))


def _append(scope: Scope, op: tf.Operation, node: Node, made: Sequence[_Known]) -> list[Tensor]:
    """Append `node` with results for the outputs of `op`; return the results.

    `made`: what is known of the results.
    """
    shapes, places = [one.shape for one in made], [one.places for one in made]
    outputs = scope.outputs(op, scope.came(node.name, shapes), node.name, places)
    for tensor, one in zip(outputs, made, strict=True):
        _know(scope, tensor, one)
    source = source_line(op)
    scope.nodes.append(
        dataclasses.replace(node, outputs=tuple(outputs), stateful=True, source=source)
    )
    return outputs


def _know(scope: Scope, tensor: Tensor, one: _Known) -> None:
    if one.places is not None:
        scope.walk.lists[tensor] = one.places
    if one.holds is not None:
        scope.walk.values_of[tensor] = one.holds


def _known(scope: Scope, tensors: Sequence[Tensor]) -> list[_Known]:
    lists, values_of = scope.walk.lists, scope.walk.values_of
    return [_Known(one.shape, lists.get(one), values_of.get(one)) for one in tensors]


def _joined(left: Sequence[_Known], right: Sequence[_Known]) -> list[_Known]:
    return [one.join(two) for one, two in zip(left, right, strict=True)]
