"""Control flow that an eager call runs step by step: interfaces, functions, memory in use."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Protocol

import tensorflow as tf

from tf_exla.frontends.tf.held import held_bytes
from tf_exla.ir.graph import Graph, Node, Tensor


@dataclass(frozen=True)
class Step:
    """A call of one of the functions of control flow.

    `position`: the index of the function. `alive`: all tensors that the control flow holds during
    the call, whether they are inputs or not. `fixed`: positions of inputs that are the same in each
    step.
    """

    position: int
    inputs: list[tf.Tensor]
    alive: Sequence[tf.Tensor]
    fixed: Collection[int] = ()


Call = Callable[[Step], list[tf.Tensor]]


@dataclass(frozen=True)
class Beside:
    """What is in memory as long as control flow runs.

    `bytes`: the bytes of all of it. `operands`: those operands of the control flow that are part of
    it, with their bytes.
    """

    bytes: int
    operands: tuple[tuple[tf.Tensor, int], ...] = ()

    def outside(self, step: Step) -> int:
        """Return the bytes that are in use during a step in addition to its inputs.

        An input that is also one of `operands` is subtracted only if it is fixed: others are the
        operand itself in the first step only.
        """
        own = {id(tensor): size for tensor, size in self.operands}
        inputs = {id(tensor) for tensor in step.inputs}
        fixed = {id(step.inputs[k]) for k in step.fixed}
        apart = {id(one): one for one in step.alive if id(one) not in inputs | own.keys()}
        shared = sum(own.get(one, 0) for one in fixed)
        return self.bytes + sum(map(held_bytes, apart.values())) - shared


@dataclass(frozen=True)
class Function:
    """A function of control flow, with the attributes of a concrete function that capture uses.

    `captured`: the values of its last inputs. `name`: its name in TensorFlow's library. `keep`: an
    object that must live as long. `function_type` is made from the graph, since TensorFlow's type
    of a function from a SavedModel lists no outputs.
    """

    graph: Any
    captured: tuple[tf.Tensor, ...] = ()
    name: str = ""
    keep: object = None

    @property
    def function_type(self) -> Any:
        return SimpleNamespace(flat_outputs=tuple(self.graph.outputs))


class Stepped(Protocol):
    """Control flow that an eager call runs step by step: a node, or a loop over datasets.

    `node`: the node whose results it computes. `operands`: the tensors that its functions read.
    `named`: whether its functions are named by attributes, and so exist before the operands.
    `restarts`: whether random ops begin anew in each run.
    """

    @property
    def node(self) -> Node: ...

    @property
    def operands(self) -> tuple[Tensor, ...]: ...

    @property
    def named(self) -> bool: ...

    @property
    def restarts(self) -> bool: ...

    def functions(self, named: Mapping[str, Any], operands: Sequence[Any]) -> list[Function]:
        """Return its functions; `named`: functions that attributes of nodes refer to, by name."""

    def run(
        self, call: Call, functions: Sequence[Function], operands: list[tf.Tensor]
    ) -> list[tf.Tensor]:
        """Return the results of the node. `operands` are dropped as soon as possible."""

    def whole(self, functions: Sequence[Function]) -> Graph | None:
        """Return a graph of the control flow with other functions, or None if there cannot be one.

        Its inputs are the operands, then what the functions captured.
        """
