"""Causes of sizes without a bound: the first node on the path to a tensor that gives no bound."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from tf_exla.ir.graph import Node, Tensor
from tf_exla.ir.lists import is_list
from tf_exla.ir.open_sizes import is_of_unknown_size


@dataclass
class Causes:
    """The node that causes each tensor without a bound (`of`).

    A size that comes from an input of the program has no such node.
    """

    of: WeakKeyDictionary[Tensor, Node] = field(default_factory=WeakKeyDictionary)

    def put(self, tensor: Tensor, cause: Node | None) -> None:
        """Store the cause of a tensor, or forget it."""
        if cause is not None:
            self.of[tensor] = cause
        else:
            self.of.pop(tensor, None)

    def blame(self, tensor: Tensor, node: Node, bounded: Callable[[Tensor], bool]) -> None:
        """Store the cause of an unbounded result of `node`.

        It is the cause of an operand that has none itself; `bounded` tells whether it has. If all
        operands are bounded, the cause is `node`.
        """
        for one in node.inputs:
            if one in self.of and (is_list(one) or not is_of_unknown_size(one)):
                self.of[tensor] = self.of[one]
                return
            if is_of_unknown_size(one) and not bounded(one):
                self.put(tensor, self.of.get(one))
                return
        self.of[tensor] = node

    def first_of(self, tensors: Iterable[Tensor]) -> Node | None:
        """Return the cause of the first of several tensors that has one."""
        return next((self.of[one] for one in tensors if one in self.of), None)
