"""Sizes of the results of user loops, memoized as long as a loop has the same operands.

A search computes the sizes of hundreds of graphs that differ in one region. All of them contain the
same loops of the program, whose sizes take long to compute.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from tf_exla.ir.graph import Node, Tensor


@dataclass
class KnownLoops:
    """A memo of what several dictionaries (`states`) store for the results of nodes."""

    states: tuple[MutableMapping[Tensor, Any], ...]
    _known: WeakKeyDictionary[Node, tuple[object, list[list[object]]]] = field(
        default_factory=WeakKeyDictionary
    )

    def recall(self, node: Node, given: object) -> bool:
        """Restore the entries of a node's results in `states`.

        `given`: all that they depend on. Return False if it differs from what `keep` was called
        with.
        """
        known = self._known.get(node)
        if known is None or known[0] != given:
            return False
        for state, values in zip(self.states, known[1], strict=True):
            for tensor, value in zip(node.outputs, values, strict=True):
                if value is not None:
                    state[tensor] = value
                else:
                    state.pop(tensor, None)
        return True

    def keep(self, node: Node, given: object) -> None:
        """Store the entries of a node's results."""
        values = [[state.get(tensor) for tensor in node.outputs] for state in self.states]
        self._known[node] = given, values
