"""Stateful random ops as stateless ones, whose state is a variable.

The kernel of `RandomUniform` and the like encrypts a counter (Philox, Salmon et al. 2011). It
starts at the op's two seeds and advances by 256 counters for each number that is drawn
(core/util/guarded_philox_random.h). `RngReadAndSkip` does the same with a variable. So the
stateless op with this state draws the same bits. Unlike the stateful op, it can draw chunks of rows
separately, and draw the same numbers again.

All plans of one concrete function share the states. If each plan had its own kernels, they would
begin at the seeds for each new size.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.ops.resource_variable_ops import ResourceVariable

from tf_exla.frontends.tf.op_set import OPS
from tf_exla.ir.builder import Builder
from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.ir.traverse import walk_node

COUNTED = {
    "RandomStandardNormal": "stateless_normal",
    "RandomUniform": "stateless_uniform",
    "RandomUniformInt": "stateless_uniform_int",
    "TruncatedNormal": "stateless_truncated_normal",
}
"""Random ops whose kernels draw from a counter, and the ops that draw at a given counter."""
_PHILOX = 1


class RandomStates:
    """The states of the random ops of one concrete function, by the names of their nodes."""

    def __init__(self) -> None:
        self._variables: dict[str, tuple[ResourceVariable, tuple[int, int]]] = {}
        self._seeded = _seeding()

    def handle(self, node: Node) -> tf.Tensor:
        """Return the handle of the variable for a node's state: a counter, then the key."""
        if node.name not in self._variables:
            attrs: Mapping[str, Any] = node.attrs
            seeds = attrs["seed"], attrs["seed2"]
            # Not tf.Variable: a distribution strategy would make one for each of its replicas.
            with tf.init_scope():
                self._variables[node.name] = ResourceVariable(_start(seeds), trainable=False), seeds
        return self._variables[node.name][0].handle

    def renew(self) -> None:
        """Start again if `tf.random.set_seed` was called, as TensorFlow's kernels do."""
        if self._seeded is not _seeding():
            self._seeded = _seeding()
            self.restart()

    def restart(self) -> None:
        """Start again, as new kernels do."""
        for variable, seeds in self._variables.values():
            variable.assign(_start(seeds))


def _seeding() -> Any:
    """Return an object that each call of `tf.random.set_seed` replaces."""
    return getattr(context.context(), "_rng", None)


def _start(seeds: tuple[int, int]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the first state: two words of the counter, the key. Without seeds it is random."""
    if seeds == (0, 0):
        seeds = _entropy(), _entropy()
    return np.array([0, seeds[1], seeds[0]], np.int64)


def _entropy() -> int:
    return random.SystemRandom().getrandbits(63)


def keeps_state(node: Node) -> bool:
    """Return whether a node, or one in its sub-graphs, is a seeded random op.

    Its kernel keeps the state of the random numbers.
    """
    drawn = (one.attrs for one in walk_node(node) if one.stateful)
    return any(attrs.get("seed") or attrs.get("seed2") for attrs in drawn)


def counted(graph: Graph, handle: Callable[[Node], tf.Tensor]) -> tuple[Graph, list[tf.Tensor]]:
    """Replace random ops of a graph, not of its sub-graphs, by stateless ones.

    Returns the graph and the values of its new inputs, handles of the states.
    """
    nodes: list[Node] = []
    inputs: list[Tensor] = []
    values: list[tf.Tensor] = []
    for node in graph.nodes:
        if node.op in COUNTED and node.output.is_static:
            state = Tensor((), "resource", f"{node.name}/state")
            inputs.append(state)
            values.append(handle(node))
            nodes += _at_counter(node, state)
        else:
            nodes.append(node)
    if not inputs:
        return graph, []
    return graph.replace(inputs=(*graph.inputs, *inputs), nodes=tuple(nodes)), values


def _at_counter(node: Node, handle: Tensor) -> list[Node]:
    w = Builder(node, OPS)
    operands = (handle, w.const(_PHILOX), w.const(node.output.size, "uint64"))
    state = Tensor((3,), "int64", f"{node.name}/counter")
    # The state changes as that of the kernel did: once in a call, in order.
    w.nodes.append(Node("RngReadAndSkip", operands, (state,), {}, True, state.name, node.source))
    words = Tensor((3,), "uint64", f"{node.name}/words")
    w.nodes.append(Node("Bitcast", (state,), (words,), {"type": "uint64"}, name=words.name))
    counter, key = (_part(w, words, begin, end) for begin, end in ((0, 2), (2, 3)))
    shape, *bounds = node.inputs
    made = Node(
        COUNTED[node.op],
        (shape, key, counter, w.const(_PHILOX), *bounds),
        node.outputs,
        {key: value for key, value in node.attrs.items() if key not in ("seed", "seed2")},
        name=node.name,
        source=node.source,
    )
    return [*w.nodes, made]


def _part(w: Builder, words: Tensor, begin: int, end: int) -> Tensor:
    return w.op("slice", words, w.const([begin]), w.const([end - begin]))
