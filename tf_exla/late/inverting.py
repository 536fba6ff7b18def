"""Inverting: triangular solves of many columns become products with one inverse.

XLA calls cuBLAS for a solve with the columns in order, for which that runs at 5 TFLOPS on an H100.
A product runs at 47. The inverse is computed outside of all loops that do not change the matrix.
With inverses inside of the loops, a step of SGPR (200,000 x 500) in 2 GB took 42 instead of 66 ms.

The error is bounded as that of the solve, a multiple of |L⁻¹| |L| |X|, if Z L - 1 is small for the
computed inverse Z (Higham, Accuracy and Stability of Numerical Algorithms, 2002, chapter 14). So
L⁻¹ B is (L⁻ᵀ)ᵀ B with L⁻ᵀ from a solve, and L⁻ᵀ B is (L⁻¹)ᵀ B: for these, Z L - 1 is small. For
factors of kernel matrices with a condition of 24 to 2e5, the errors differed by a factor of 1.2.

It comes after all rewrites, which could reorder the products. (L⁻¹ B) (L⁻¹ B)ᵀ must not become
L⁻¹ (B Bᵀ) L⁻ᵀ.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tf_exla.ir.builder import Builder
from tf_exla.ir.graph import Graph, Loop, Node, Tensor
from tf_exla.ir.op_set import OpSet

COLUMNS = 16
"""The least columns for each row, of all solves with a matrix together. The inverse of 500 rows
takes 0.35 ms, as long as the solve of 7,000 columns."""


class _Inverse(NamedTuple):
    """A transposed inverse: of which matrix of the program, and the attributes of the solve."""

    matrix: Tensor
    lower: bool
    adjoint: bool


def invert(graph: Graph, ops: OpSet) -> Graph:
    """Replace the solves of float64 with one matrix and many columns."""
    found = _Solves(graph)
    wanted = {key for key, count in found.columns.items() if count >= COLUMNS * key.matrix.dims[-1]}
    return _Inverting(found, wanted, ops).graph(graph, {}) if wanted else graph


class _Solves:
    """The solves of a program: `columns` by inverse, `origin`: inputs of bodies, as outside."""

    def __init__(self, graph: Graph) -> None:
        self.columns: dict[_Inverse, float] = {}
        self.origin: dict[Tensor, Tensor] = {}
        self._visit(graph, 1.0)

    def _visit(self, graph: Graph, times: float) -> None:
        for node in graph.nodes:
            if isinstance(node, Loop) and node.bitwise_group is None:
                for body, runs in ((node.body, node.mean_trip_count), (node.remainder, 1.0)):
                    if body is not None:
                        self._enter(node, body, times * runs)
            elif (key := self.key(node)) is not None:
                self.columns[key] = self.columns.get(key, 0.0) + times * node.output.dims[-1]

    def _enter(self, loop: Loop, body: Graph, times: float) -> None:
        for outside, inside, slot in zip(loop.inputs, body.inputs, loop.slots, strict=False):
            if slot is None:
                self.origin[inside] = self.origin.get(outside, outside)
        self._visit(body, times)

    def key(self, node: Node) -> _Inverse | None:
        """Return the inverse that a solve needs; None for other nodes."""
        if node.op != "solve_triangular" or node.output.dtype != "float64":
            return None
        matrix, right = node.inputs
        if not (matrix.is_static and right.is_static) or len(right.dims) != 2 or not right.size:
            return None
        if len(matrix.dims) != 2:
            return None
        flags = node.attrs
        lower, adjoint = bool(flags.get("lower", True)), bool(flags.get("adjoint", False))
        return _Inverse(self.origin.get(matrix, matrix), lower, adjoint)


class _Inverting:
    """One replacement of the solves that need one of the `wanted` inverses."""

    def __init__(self, solves: _Solves, wanted: set[_Inverse], ops: OpSet) -> None:
        self.solves = solves
        self.wanted = wanted
        self.ops = ops

    def graph(self, graph: Graph, known: Mapping[_Inverse, Tensor]) -> Graph:
        """Return a graph that computes the inverses it needs, except for `known` ones."""
        here, nodes = dict(known), list[Node]()
        for node in graph.nodes:
            keys = {key: None for key in self._keys(node) if key in self.wanted}
            made: dict[_Inverse, Tensor] = {}
            for key in keys:
                if key not in here:
                    matrix = self._local(node, key.matrix)
                    if matrix is None:  # computed inside of the loop
                        continue
                    here[key] = self._inverse(node, matrix, key, nodes)
                made[key] = here[key]
            if isinstance(node, Loop) and keys:
                nodes.append(self._loop(node, made))
            elif made:
                nodes.extend(self._product(node, *made.values()))
            else:
                nodes.append(node)
        return graph.with_nodes(nodes)

    def _keys(self, node: Node) -> list[_Inverse]:
        if not isinstance(node, Loop):
            key = self.solves.key(node)
            return [] if key is None else [key]
        if node.bitwise_group is not None:
            return []
        return [key for _, body in node.subgraphs for one in body.nodes for key in self._keys(one)]

    def _local(self, node: Node, matrix: Tensor) -> Tensor | None:
        """Return the operand of a node that is the matrix of the program."""
        return next((t for t in node.inputs if self.solves.origin.get(t, t) is matrix), None)

    def _inverse(self, node: Node, matrix: Tensor, key: _Inverse, nodes: list[Node]) -> Tensor:
        w = Builder(node, self.ops)
        ones = w.op("full", w.const([matrix.dims[-1]]), w.const(1, matrix.dtype))
        whole = w.const(-1)
        unit = w.op("matrix_diag", ones, w.const(0), whole, whole, w.const(0, matrix.dtype))
        flags = {"lower": key.lower, "adjoint": not key.adjoint}
        made = w.op("solve_triangular", matrix, unit, **flags)
        nodes.extend(w.nodes)
        return made

    def _product(self, node: Node, inverse: Tensor) -> list[Node]:
        w = Builder(node, self.ops)
        w.op("matmul", inverse, node.inputs[1], transpose_a=True, transpose_b=False)
        return [w.nodes[-1].replace(outputs=node.outputs)]

    def _loop(self, loop: Loop, made: Mapping[_Inverse, Tensor]) -> Loop:
        """Return a loop that reads the inverses `made` outside, and computes its own ones."""
        count = len(loop.inputs)

        def changed(body: Graph) -> Graph:
            inside = {key: one.fresh_copy() for key, one in made.items()}
            inputs = (*body.inputs[:count], *inside.values(), *body.inputs[count:])
            return self.graph(body, inside).replace(inputs=inputs)

        return loop.replace(
            inputs=(*loop.inputs, *made.values()),
            slots=(*loop.slots, *[None] * len(made)),
            body=changed(loop.body),
            remainder=None if loop.remainder is None else changed(loop.remainder),
        )
