"""The interface by which passes query a front end about its ops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from tf_exla.ir.axis_rule import AxisRule
from tf_exla.ir.bounds import Most
from tf_exla.ir.graph import Graph, Node, Shape, Tensor
from tf_exla.ir.lists import ListEffect
from tf_exla.ir.rates import Rates
from tf_exla.ir.refusal import Refusal
from tf_exla.ir.windows import Windows

Work = Literal["pointwise", "product", "serial"]
"""The kind of a node's flops: pointwise kernels, products on all cores, or work on one core."""

Compiles = Literal["well", "poorly", ""]
"""How XLA compiles a node: to code as fast as the framework's or faster, to slower code, or not."""


class OpSet(Protocol):
    """The ops of one framework, as seen by the passes."""

    def rule(self, node: Node, lists: bool = False) -> AxisRule | Refusal:
        """Return the node's axis rule, or a refusal with the reason why there is none.

        `lists`: nodes that read or make a list have a rule as well, for the axes of its items.
        """

    def resized(
        self, node: Node, inputs: Sequence[Tensor], shapes: Sequence[Shape]
    ) -> tuple[Node, ...]:
        """Rebuild the node for a chunk: on `inputs`, with results of `shapes`.

        The last returned node is the op itself. The nodes before it are the constants that it
        needs (a new shape operand). The node's `outputs` are new tensors.
        """

    def windows(self, node: Node) -> Windows | None:
        """Return the windows of images that the node reads.

        None if it reads none, or if they cannot be described by `Windows`.
        """

    def scratch(self, node: Node, compiled: bool = False) -> int:
        """Return an upper bound of the kernel's scratch bytes, in addition to its outputs.

        `compiled`: for the kernel that XLA's code calls.
        """

    def aliases(self, node: Node) -> bool:
        """Return whether the first output always shares the buffer of the first input."""

    def may_alias(self, node: Node) -> bool:
        """Return whether outputs may either share part of the first input's buffer or be copies."""

    def forwards(self, node: Node) -> tuple[int, ...]:
        """Return positions of the inputs whose buffer the first output may take over.

        At the last use of such an input, the kernel is certain to reuse its buffer.
        """

    def stores(self, node: Node) -> int | None:
        """Return the position of the input that a variable or list keeps; None if none does."""

    def flops(self, node: Node) -> int:
        """Return the floating-point operations of the node, roughly."""

    def compiled_flops(self, node: Node) -> int:
        """Return the operations that take as long as XLA's code of the node on one core."""

    def lookups(self, node: Node) -> int:
        """Return the number of rows that the node looks up by their index, roughly."""

    def work(self, node: Node) -> Work:
        """Return the kind of the node's operations, which decides how long they take."""

    def rates(self) -> Rates:
        """Return the rates of the device, by which plans are compared."""

    def rounds_factors(self, dtype: str) -> bool:
        """Return whether products of this dtype round their factors, as with TF32.

        If so, a rewrite must not replace an exact sum by a product.
        """

    def repeats(self, node: Node) -> bool:
        """Return whether the kernel computes the same numbers from the same operands each time."""

    def runs_again(self) -> bool:
        """Return whether the framework runs two equal nodes twice, each at its place in the plan.

        XLA does not: it merges nodes that compute the same.
        """

    def chooses(self, node: Node) -> bool:
        """Return whether results are chosen from the elements of an operand.

        Only for ops whose axis rule does not show it by a combiner, such as a maximum.
        """

    def compiles(self, node: Node) -> Compiles:
        """Return how well XLA compiles the node on this device."""

    def picks_rows(self) -> bool:
        """Return whether it is cheap to select a number of rows that is known only at run time."""

    def fuses_in_place(self) -> bool:
        """Return whether XLA's fused loops overwrite an operand that has no other use."""

    def fused(self, graph: Graph) -> frozenset[Tensor]:
        """Return the results of a graph that have no buffer, because their consumers compute them.

        There are none in a framework that runs node by node.
        """

    def overwrites_variables(self) -> bool:
        """Return whether a While keeps its variables in the buffers of their first values."""

    def resizable(self, node: Node) -> bool:
        """Return whether `resized` can make the node for other shapes."""

    def parts(self, node: Node) -> int:
        """Return how many nodes the executor runs for a node that has no sub-graph."""

    def writes(self, node: Node) -> bool:
        """Return whether the result is the first operand with the second written into it."""

    def joint(self, node: Node) -> bool:
        """Return whether all results together are at most as large as the first operand."""

    def bounds(self, node: Node, operands: Sequence[Most]) -> Sequence[Most]:
        """Return upper bounds of the results' sizes and integers, from those of the operands."""

    def not_smaller(self, node: Node) -> bool:
        """Return whether no operand has more elements than the result; an empty result may."""

    def keeps(self, node: Node) -> ListEffect | None:
        """Return the effect of a node on the list in its result; None if it is unknown."""

    def iterations(self, node: Node, bounds: Mapping[Tensor, int]) -> int | None:
        """Return an upper bound of a While's iterations; None if it is unknown.

        `bounds`: upper bounds of numbers that the While reads.
        """

    def counted(self, node: Node, times: int) -> Mapping[Tensor, tuple[int, int]]:
        """Return the range of the While's results that count its iterations.

        For each, the least and the largest value that it may have in `times` iterations.
        """

    def make(
        self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, object], name: str
    ) -> Node | None:
        """Make a node for a rewrite and infer its result's shape; None if there is no such op.

        `op` is a name of the vocabulary. Operands are those of TensorFlow's op: axes and shapes are
        constant tensors.
        """
