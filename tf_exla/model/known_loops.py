"""What is known of a loop's results, as long as it is given the same.

A search follows the sizes of hundreds of graphs that differ in one region; the loops of the program
are in all of them.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from tf_exla.ir.graph import Node, Tensor


@dataclass
class KnownLoops:
    """Remembers what `states` say of the results of nodes."""

    states: tuple[MutableMapping[Tensor, Any], ...]
    _known: WeakKeyDictionary[Node, tuple[object, list[list[object]]]] = field(
        default_factory=WeakKeyDictionary
    )

    def recall(self, node: Node, given: object) -> bool:
        """Say of a node's results what was known when it was given the same; False: it was not."""
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
        """Remember what is known of a node's results."""
        values = [[state.get(tensor) for tensor in node.outputs] for state in self.states]
        self._known[node] = given, values
