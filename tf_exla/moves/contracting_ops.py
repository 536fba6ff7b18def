"""An op set that adds contractions to the ops of a front end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from weakref import WeakKeyDictionary

from tf_exla.ir import contraction
from tf_exla.ir.axis_rule import AxisRule
from tf_exla.ir.bounds import Most
from tf_exla.ir.contraction import contraction_of
from tf_exla.ir.control_flow import is_while
from tf_exla.ir.graph import Graph, Node, Shape, Tensor
from tf_exla.ir.lists import ListEffect
from tf_exla.ir.op_set import Compiles, OpSet, Work
from tf_exla.ir.rates import Rates
from tf_exla.ir.refusal import Refusal
from tf_exla.ir.windows import Windows
from tf_exla.model.projection import Projector
from tf_exla.moves.blocking import written_out
from tf_exla.split.regions.while_axes import resized_while


class ContractingOps:
    """The ops of a front end, and contractions.

    Contractions never reach the front end: `blocking.py` replaces them. All other ops are passed on
    to `ops`.
    """

    def __init__(self, ops: OpSet) -> None:
        self.ops = ops
        self._rates = ops.rates()
        self._rules: WeakKeyDictionary[Node, AxisRule] = WeakKeyDictionary()
        self._written: WeakKeyDictionary[Node, tuple[int, int]] = WeakKeyDictionary()

    def rule(self, node: Node, lists: bool = False) -> AxisRule | Refusal:
        one = contraction_of(node)
        if one is None:
            return self.ops.rule(node, lists)
        if node not in self._rules:
            self._rules[node] = contraction.axes_of(self.ops, one)
        return self._rules[node]

    def resized(
        self, node: Node, inputs: Sequence[Tensor], shapes: Sequence[Shape]
    ) -> tuple[Node, ...]:
        if is_while(node):
            return (resized_while(self, node, inputs, shapes),)
        if contraction_of(node) is None:
            return self.ops.resized(node, inputs, shapes)
        return (contraction.resized(self.ops, node, inputs, shapes),)

    def windows(self, node: Node) -> Windows | None:
        return self.ops.windows(node)

    def scratch(self, node: Node, compiled: bool = False) -> int:
        """Bound a node's scratch memory in bytes; a contraction has that of the loop it becomes."""
        if node.op != contraction.OP:
            return self.ops.scratch(node, compiled)
        return self._written_out(node)[0]

    def parts(self, node: Node) -> int:
        return self._written_out(node)[1] if node.op == contraction.OP else self.ops.parts(node)

    def _written_out(self, node: Node) -> tuple[int, int]:
        """Return the bytes of scratch memory and the number of nodes of a contraction's loop."""
        if node not in self._written:
            one = contraction_of(node)
            assert one is not None
            graph = Graph(node.inputs, tuple(written_out(node, one, self.ops)), node.outputs)
            projector = Projector(self.ops)
            scratch = projector.project(graph).working_set - node.output.nbytes
            self._written[node] = scratch, projector.count(graph)[0]
        return self._written[node]

    def aliases(self, node: Node) -> bool:
        return self.ops.aliases(node)

    def may_alias(self, node: Node) -> bool:
        return self.ops.may_alias(node)

    def forwards(self, node: Node) -> tuple[int, ...]:
        return self.ops.forwards(node)

    def stores(self, node: Node) -> int | None:
        return self.ops.stores(node)

    def flops(self, node: Node) -> int:
        one = contraction_of(node)
        return self.ops.flops(node) if one is None else contraction.flops(self.ops, one)

    def compiled_flops(self, node: Node) -> int:
        one = contraction_of(node)
        return self.ops.compiled_flops(node) if one is None else 2 * self.flops(node)

    def lookups(self, node: Node) -> int:
        return self.ops.lookups(node)

    def work(self, node: Node) -> Work:
        return self.ops.work(node)

    def rates(self) -> Rates:
        return self._rates

    def rounds_factors(self, dtype: str) -> bool:
        return self.ops.rounds_factors(dtype)

    def repeats(self, node: Node) -> bool:
        return self.ops.repeats(node)

    def chooses(self, node: Node) -> bool:
        return self.ops.chooses(node)

    def compiles(self, node: Node) -> Compiles:
        return self.ops.compiles(node)

    def runs_again(self) -> bool:
        return self.ops.runs_again()

    def picks_rows(self) -> bool:
        return self.ops.picks_rows()

    def fuses_in_place(self) -> bool:
        return self.ops.fuses_in_place()

    def fused(self, graph: Graph) -> frozenset[Tensor]:
        return self.ops.fused(graph)

    def overwrites_variables(self) -> bool:
        return self.ops.overwrites_variables()

    def resizable(self, node: Node) -> bool:
        return is_while(node) or contraction_of(node) is not None or self.ops.resizable(node)

    def writes(self, node: Node) -> bool:
        return self.ops.writes(node)

    def joint(self, node: Node) -> bool:
        return self.ops.joint(node)

    def bounds(self, node: Node, operands: Sequence[Most]) -> Sequence[Most]:
        return self.ops.bounds(node, operands)

    def not_smaller(self, node: Node) -> bool:
        return self.ops.not_smaller(node)

    def keeps(self, node: Node) -> ListEffect | None:
        return self.ops.keeps(node)

    def iterations(self, node: Node, bounds: Mapping[Tensor, int]) -> int | None:
        return self.ops.iterations(node, bounds)

    def counted(self, node: Node, times: int) -> Mapping[Tensor, tuple[int, int]]:
        return self.ops.counted(node, times)

    def make(
        self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, object], name: str
    ) -> Node | None:
        return self.ops.make(op, inputs, attrs, name)
