"""Evaluation of graphs on NumPy arrays: whole programs, split programs, and their control flow.

This defines what a graph means; it is not fast. With it, tests compare a graph before and after a
pass without a framework.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tf_exla.frontends.numpy.kernels import KERNELS, array_dtype
from tf_exla.frontends.numpy.loops import Chunks
from tf_exla.ir.contraction import OP as CONTRACTION
from tf_exla.ir.contraction import contraction_of
from tf_exla.ir.graph import Array, Graph, Loop, Node, Tensor
from tf_exla.ir.lists import is_list
from tf_exla.late.running_top_k import RUNNING

Kernel = Callable[[Node, Sequence[Array]], Sequence[Array]]


def evaluate(
    graph: Graph, *inputs: Array, kernels: Mapping[str, Kernel] | None = None
) -> list[Array]:
    """Return the outputs of a graph.

    `inputs`: an array for each input of the graph. `kernels`: functions for ops outside of the
    vocabulary, by name; they return the node's results. Raises NotImplementedError for an op
    without a kernel, ValueError if a result's shape is not that of its tensor.
    """
    return _Evaluation({} if kernels is None else kernels).run(graph, inputs)


class _Evaluation:
    def __init__(self, kernels: Mapping[str, Kernel]) -> None:
        self.kernels = kernels
        self.start = 0  # the first index of the enclosing loop's chunk

    def run(self, graph: Graph, inputs: Sequence[Array]) -> list[Array]:
        known: dict[Tensor, Array] = dict(zip(graph.inputs, inputs, strict=True))
        for node in graph.nodes:
            results = self._node(node, [known[tensor] for tensor in node.inputs])
            for tensor, result in zip(node.outputs, results, strict=True):
                _check(node, tensor, result)
                known[tensor] = result
        return [known[tensor] for tensor in graph.outputs]

    def _node(self, node: Node, operands: list[Array]) -> Sequence[Array]:
        if isinstance(node, Loop):
            return self._loop(node, operands)
        match node.op:
            case "while":
                return self._while(node, operands)
            case "cond":
                branch = "then_branch" if operands[0] else "else_branch"
                return self.run(dict(node.subgraphs)[branch], operands[1:])
            case "switch":
                at, last = int(operands[0]), len(node.subgraphs) - 1
                return self.run(node.subgraphs[at if 0 <= at <= last else last][1], operands[1:])
            case "xla_cluster":
                ((_, inner),) = node.subgraphs
                return self.run(inner, operands)
            case _ if node.op == CONTRACTION:
                contraction = contraction_of(node)
                assert contraction is not None
                return self.run(contraction.template, operands)
            case _ if node.op == RUNNING:
                return self._running_top_k(node, operands)
        if node.op in self.kernels:
            return self.kernels[node.op](node, operands)
        if node.op not in KERNELS:
            raise NotImplementedError(f"no NumPy kernel of {node.op}: {node}")
        with np.errstate(all="ignore"):
            made = KERNELS[node.op](node, *operands)
        return [
            one if is_list(tensor) else np.asarray(one, array_dtype(tensor))
            for one, tensor in zip(_as_list(made), node.outputs, strict=True)
        ]

    def _while(self, node: Node, variables: list[Array]) -> list[Array]:
        graphs = dict(node.subgraphs)
        while bool(self.run(graphs["cond"], variables)[0]):
            variables = self.run(graphs["body"], variables)
        return variables

    def _loop(self, loop: Loop, operands: list[Array]) -> list[Array]:
        outer = self.start
        chunks = Chunks(loop, operands)
        for start in chunks.starts(outer):
            self.start = start
            chunks.add(start, self.run(chunks.body(start), chunks.inputs(start)))
        self.start = outer
        return chunks.results()

    def _running_top_k(self, node: Node, operands: list[Array]) -> list[Array]:
        x, values, places = operands
        offset = self.start * int(str(node.attrs["block"]))
        joined = np.concatenate([values, x], -1) if self.start else x
        positions = np.broadcast_to(np.arange(x.shape[-1]) + offset, x.shape)
        before = np.concatenate([places, positions], -1) if self.start else positions
        order = np.argsort(-joined, axis=-1, kind="stable")[..., : values.shape[-1]]
        return [
            np.take_along_axis(joined, order, -1),
            np.take_along_axis(before, order, -1).astype(places.dtype),
        ]


def _as_list(made: Any) -> Sequence[Any]:
    return made if isinstance(made, list) else [made]


def _check(node: Node, tensor: Tensor, result: Array) -> None:
    if is_list(tensor) or tensor.shape is None:
        return
    same = len(result.shape) == len(tensor.shape) and all(
        size in (None, found) for size, found in zip(tensor.shape, result.shape, strict=True)
    )
    if not same:
        raise ValueError(f"{node} gave the shape {result.shape}")
