"""What the passes ask a front end about its ops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from tf_exla.ir.axis_rule import AxisRule
from tf_exla.ir.bounds import Most
from tf_exla.ir.graph import Graph, Node, Shape, Tensor
from tf_exla.ir.lists import ListEffect
from tf_exla.ir.rates import Rates
from tf_exla.ir.refusal import Refusal

Work = Literal["pointwise", "product", "serial"]
"""What a node's flops are: of pointwise kernels, of products on all cores, of work on one core."""

Compiles = Literal["well", "poorly", ""]
"""Whether XLA compiles a node: to code that is as fast at least, to slower code, not at all."""


class OpSet(Protocol):
    """The ops of one framework, as seen by the passes."""

    def rule(self, node: Node, lists: bool = False) -> AxisRule | Refusal:
        """Return the node's axis rule, or why there is none.

        `lists`: also of what reads or makes a list, whose axes are those of each of its tensors.
        """

    def resized(
        self, node: Node, inputs: Sequence[Tensor], shapes: Sequence[Shape]
    ) -> tuple[Node, ...]:
        """Make the node again for a chunk: on `inputs`, with results of `shapes`.

        The last node of the returned ones is the op itself; those before it are the constants
        that it needs (a new shape operand). The node's `outputs` are new tensors.
        """

    def scratch(self, node: Node, compiled: bool = False) -> int:
        """Return an upper bound of the bytes that the kernel allocates beside its outputs.

        `compiled`: what XLA's code calls for it.
        """

    def aliases(self, node: Node) -> bool:
        """Return whether the first output always shares the buffer of the first input."""

    def may_alias(self, node: Node) -> bool:
        """Return whether outputs may share a part of the first input's buffer, or be copies."""

    def forwards(self, node: Node) -> tuple[int, ...]:
        """Return the inputs whose buffer the first output certainly reuses when they die there."""

    def flops(self, node: Node) -> int:
        """Return the floating-point operations of the node, roughly."""

    def work(self, node: Node) -> Work:
        """Return the kind of the node's operations, which decides how long they take."""

    def rates(self) -> Rates:
        """Return how long the device takes, by which plans are compared."""

    def rounds_factors(self, dtype: str) -> bool:
        """Return whether products round their factors to fewer digits than sums.

        What is added exactly must then not become a product.
        """

    def repeats(self, node: Node) -> bool:
        """Return whether the kernel makes the same numbers of the same operands each time."""

    def chooses(self, node: Node) -> bool:
        """Return whether results are some of an operand's numbers, though no combiner says so."""

    def compiles(self, node: Node) -> Compiles:
        """Return how well XLA compiles the node on this device."""

    def picks_rows(self) -> bool:
        """Return whether to pick some rows, their number not known before, costs little."""

    def fuses_in_place(self) -> bool:
        """Return whether XLA's fused loops overwrite an operand that nobody else reads."""

    def fused(self, graph: Graph) -> frozenset[Tensor]:
        """Return the results of a graph that have no buffer: what reads them computes them.

        Of a framework that runs node by node, none.
        """

    def overwrites_variables(self) -> bool:
        """Return whether a While keeps its variables in the buffers of their first values."""

    def resizable(self, node: Node) -> bool:
        """Return whether `resized` can make the node for other shapes."""

    def joint(self, node: Node) -> bool:
        """Return whether all results together are not larger than the first operand."""

    def bounds(self, node: Node, operands: Sequence[Most]) -> Sequence[Most]:
        """Return upper bounds of the results' sizes and integers, from those of the operands."""

    def not_smaller(self, node: Node) -> bool:
        """Return whether no operand has more elements than the result, unless that is empty."""

    def keeps(self, node: Node) -> ListEffect | None:
        """Return what a node does to the list in its result; None where that cannot be told."""

    def iterations(self, node: Node, bounds: Mapping[Tensor, int]) -> int | None:
        """Return an upper bound of a While's iterations; None where it is not known.

        `bounds`: upper bounds of numbers that the While reads.
        """

    def counted(self, node: Node, times: int) -> Mapping[Tensor, int]:
        """Return upper bounds of what a While that runs so often has counted."""

    def make(
        self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, object], name: str
    ) -> Node | None:
        """Make a node for a rewrite, its result's shape inferred; None where it has no such op.

        `op` is a name of the vocabulary. Operands are TensorFlow's: axes and shapes are constants.
        """
