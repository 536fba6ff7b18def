"""Op sets for tests: the vocabulary's ops with kernels as frameworks have them."""

from __future__ import annotations

from tf_exla.ir.graph import Node
from tf_exla.ir.op_set import Compiles
from tf_exla.vocabulary.op_set import VocabularyOps


class InPlaceOps(VocabularyOps):
    """Exponentials are written over their operand, reshapes are views, and XLA compiles all."""

    def aliases(self, node: Node) -> bool:
        return node.op in ("expand_dims", "reshape", "squeeze")

    def forwards(self, node: Node) -> tuple[int, ...]:
        return (0,) if node.op == "exp" else ()

    def compiles(self, node: Node) -> Compiles:
        return "well" if self.resizable(node) else ""

    def picks_rows(self) -> bool:
        return True

    def fuses_in_place(self) -> bool:
        return True
