"""Ops in a program that XLA compiles as one module: what it fuses, aliases and allocates."""

from __future__ import annotations

from collections.abc import Mapping

from tf_exla.ir.axis_rule import AxisRule
from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.ir.notes import note, noted
from tf_exla.ir.traits import IDENTITIES, RESHAPES
from tf_exla.model.xla_gpu import PRODUCTS, Bound
from tf_exla.model.xla_module import TREE, fused
from tf_exla.vocabulary.op_set import VocabularyOps


class ModuleOps(VocabularyOps):
    """An op set whose programs XLA compiles as one module each.

    `longest_fused`: the longest axis that a reduction in a fused loop may have. `scratch_of`: for
    each op with scratch memory, a function that bounds its bytes.
    """

    longest_fused = TREE
    scratch_of: Mapping[str, Bound]

    def aliases(self, node: Node) -> bool:
        """Return whether the first output always shares the buffer of the first input."""
        return node.op in RESHAPES or node.op in IDENTITIES

    def may_alias(self, node: Node) -> bool:
        """Return False: no output is a view of a part of an input, since XLA copies it."""
        return False

    def forwards(self, node: Node) -> tuple[int, ...]:
        """Return no positions: no output is certain to reuse the buffer of an input."""
        return ()

    def runs_again(self) -> bool:
        """Return False: a copy of a node does not run again, since XLA merges equal nodes."""
        return False

    def overwrites_variables(self) -> bool:
        """Return True: a While keeps its variables in the buffers of their initial values."""
        return True

    def scratch(self, node: Node, compiled: bool = False) -> int:
        """Return an upper bound of the bytes of scratch memory that the kernel allocates."""
        if not node.inputs or not all(one.is_static for one in (*node.inputs, *node.outputs)):
            return 0
        if node.op in PRODUCTS:
            rule = self.rule(node)
            return self.of_product(node, rule) if isinstance(rule, AxisRule) else 0
        bound = self.scratch_of.get(node.op)
        return 0 if bound is None else bound(node)

    def of_product(self, node: Node, rule: AxisRule) -> int:
        """Return the bytes that a product needs in addition to its result: here none."""
        return 0

    def held(self, graph: Graph) -> frozenset[Tensor]:
        """Return the tensors that are kept in buffers although XLA could fuse them: here none."""
        return frozenset()

    def fused(self, graph: Graph) -> frozenset[Tensor]:
        """Return the tensors of a graph without a buffer: their consumers compute them."""
        known: frozenset[Tensor] | None = noted(graph, "fused", self)
        if known is None:
            known = fused(self, graph, self.longest_fused) - self.held(graph)
            note(graph, "fused", self, known)
        return known
