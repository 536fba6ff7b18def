"""Control flow that is run step by step: what it is, what its functions are, what exists beside."""

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
    """A call of the function at `position`.

    `fixed`: positions of inputs that are the same in each step. `alive`: tensors that exist
    meanwhile, inputs or not.
    """

    position: int
    inputs: list[tf.Tensor]
    alive: Sequence[tf.Tensor]
    fixed: Collection[int] = ()


Call = Callable[[Step], list[tf.Tensor]]


@dataclass(frozen=True)
class Beside:
    """What exists as long as control flow runs.

    `bytes`: of everything. `operands`: those of the control flow among it, with their bytes.
    """

    bytes: int
    operands: tuple[tuple[tf.Tensor, int], ...] = ()

    def outside(self, step: Step) -> int:
        """Return the bytes beside the inputs of a step.

        Inputs that change do not share the memory of the first step's for long.
        """
        own = {id(tensor): size for tensor, size in self.operands}
        inputs = {id(tensor) for tensor in step.inputs}
        fixed = {id(step.inputs[k]) for k in step.fixed}
        apart = {id(one): one for one in step.alive if id(one) not in inputs | own.keys()}
        shared = sum(own.get(one, 0) for one in fixed)
        return self.bytes + sum(map(held_bytes, apart.values())) - shared


@dataclass(frozen=True)
class Function:
    """A function of control flow, as a concrete function.

    `captured`: its last inputs. `name`: in TensorFlow's library. `keep`: what must live as long.
    TensorFlow's own type of a function that comes from a SavedModel has no outputs.
    """

    graph: Any
    captured: tuple[tf.Tensor, ...] = ()
    name: str = ""
    keep: object = None

    @property
    def function_type(self) -> Any:
        return SimpleNamespace(flat_outputs=tuple(self.graph.outputs))


class Stepped(Protocol):
    """A node, with those that belong to it, that a call runs step by step.

    `operands`: what its functions read. `named`: whether its functions have names, and exist before
    the operands. `restarts`: whether random ops begin anew in each run.
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
        """Return its functions; `named`: those that attributes of nodes name."""

    def run(
        self, call: Call, functions: Sequence[Function], operands: list[tf.Tensor]
    ) -> list[tf.Tensor]:
        """Return the results of the node; drop the operands as soon as they are not needed."""

    def whole(self, functions: Sequence[Function]) -> Graph | None:
        """Return it with other functions, as a program of its operands, then what they captured.

        None if that is not possible.
        """
