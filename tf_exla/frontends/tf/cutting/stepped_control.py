"""Loops and branches that an eager call runs step by step, since sizes inside of them are open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tf_exla.frontends.tf.capture.random_state import keeps_state
from tf_exla.frontends.tf.cutting.dataset_loops import REDUCTION, find_loop
from tf_exla.frontends.tf.cutting.steps import Call, Function, Step, Stepped
from tf_exla.frontends.tf.nodes.names import DATASET_LOOPS
from tf_exla.frontends.tf.restore import restore
from tf_exla.ir.bounds import HANDLES
from tf_exla.ir.clean import drop_dead, trim
from tf_exla.ir.control_flow import CHOICES, body_of, cond_of, is_while
from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.ir.traverse import walk_node, with_subgraphs


@dataclass(frozen=True)
class _Stepped:
    """A node with sub-graphs."""

    node: Node
    named = False
    restarts = False

    @property
    def operands(self) -> tuple[Tensor, ...]:
        return self.node.inputs

    def whole(self, functions: Sequence[Function]) -> None:
        """Return None: in a graph, the sizes would stay open."""


class SteppedWhile(_Stepped):
    """A `while`."""

    def functions(self, named: Mapping[str, Any], operands: Sequence[Any]) -> list[Function]:
        """Return the condition and the body."""
        graphs = cond_of(self.node), body_of(self.node)
        return [_function(graph, named, operands) for graph in graphs]

    def run(
        self, call: Call, functions: Sequence[Function], operands: list[tf.Tensor]
    ) -> list[tf.Tensor]:
        """Return the loop variables after the last iteration."""
        body = body_of(self.node)
        pairs = enumerate(zip(body.inputs, body.outputs, strict=True))
        fixed = [k for k, (inner, after) in pairs if inner is after]
        state = list(operands)
        operands.clear()
        while call(Step(0, state, state, fixed))[0]:
            state = call(Step(1, state, state, fixed))
        return state


class SteppedChoice(_Stepped):
    """A `cond` or `switch`."""

    def functions(self, named: Mapping[str, Any], operands: Sequence[Any]) -> list[Function]:
        """Return the branches: of a `cond` the one for True first."""
        return [_function(graph, named, operands[1:]) for _, graph in self.node.subgraphs]

    def run(
        self, call: Call, functions: Sequence[Function], operands: list[tf.Tensor]
    ) -> list[tf.Tensor]:
        """Return the results of the branch that operand 0 chooses."""
        chosen = int(operands[0])
        if self.node.op == "cond":
            chosen = 1 - chosen
        elif not 0 <= chosen < len(functions):
            chosen = len(functions) - 1
        inputs = operands[1:]
        operands.clear()
        return call(Step(chosen, inputs, inputs, range(len(inputs))))


def stepped_at(node: Node, made_by: Mapping[Tensor, Node]) -> Stepped | None:
    """Return the control flow of a node at which a program is cut, or None if it has none."""
    if node.op == REDUCTION:
        return find_loop(node, made_by)
    if is_while(node):
        return SteppedWhile(node)
    return SteppedChoice(node) if node.op in CHOICES else None


def has_open_sizes(node: Node) -> bool:
    """Return whether sizes inside of a loop or branch are open, and it can be run step by step.

    It cannot if it contains random ops with a seed: their kernels keep the state, and each program
    of a body has its own kernels.
    """
    if not is_while(node) and node.op not in CHOICES:
        return False
    if keeps_state(node):
        return False
    return any(
        inner.op in DATASET_LOOPS
        or not all(tensor.is_static or tensor.dtype in HANDLES for tensor in inner.outputs)
        for inner in walk_node(node)
        if inner is not node
    )


def without_results(node: Node, left_out: Set[Tensor]) -> Node:
    """Return a loop or branch without the results `left_out` and the nodes that only these need.

    An example are lists that a loop fills for its gradient, with an element in each step.
    """
    return with_subgraphs(trim(node, frozenset(node.outputs) - left_out), drop_dead)


def _function(graph: Graph, named: Mapping[str, Any], like: Sequence[Any]) -> Function:
    made = restore(graph, name="step", like=like, keep=tuple(named.values()))
    for function in named.values():
        made.graph._add_function_recursive(function)
    return Function(made.graph, made.anchors)
