"""What is known of a call before its program is captured: results of heads, and sizes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from tf_exla.ir.graph import Array, Shape


class Key(NamedTuple):
    """Identifies a result of a node that a head has run.

    `name`: the node's name. `position`: the index of the result. `least`, `most`: bounds of
    integers, if known. `element`: the dtype of a list's elements, or "" if the result is no list.
    """

    name: str
    position: int
    dtype: str
    least: int | None = None
    most: int | None = None
    element: str = ""


def constant_value(variable: str) -> str:
    """Return the key of the value that a variable, by its handle's name, has in the whole call."""
    return f"value of {variable}"


@dataclass(frozen=True)
class Given:
    """What the heads before a program have computed.

    The program has further inputs after its constants: the results `keys` of nodes that ran, then
    those of its own outputs that are computed already.

    `nodes`: the names of the nodes that ran. `outputs`: the positions of the outputs that are
    computed already. `shapes`: the shapes of results of sources, by node name or `constant_value`.
    `values`: integers that determine sizes, by tensor name, or by position if they are inputs.
    `lists`: the bytes of lists among the inputs, by position or key. `saves`: whether the program
    returns what its gradient needs. It does not after a loop that ran step by step, whose results
    have no gradient.
    """

    nodes: frozenset[str] = frozenset()
    keys: tuple[Key, ...] = ()
    outputs: tuple[int, ...] = ()
    shapes: Mapping[str, tuple[Shape | None, ...]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    values: Mapping[str | int, Array] = field(default_factory=lambda: MappingProxyType({}))
    lists: Mapping[Any, int] = field(default_factory=lambda: MappingProxyType({}))
    saves: bool = True

    @property
    def sizes(self) -> Hashable:
        """All that the rest is specialised to, as a key."""
        values = ((name, value.shape, value.tobytes()) for name, value in self.values.items())
        lists = tuple(self.lists.items())
        return tuple(sorted(self.shapes.items())), tuple(sorted(values, key=str)), lists

    @property
    def has_negative_values(self) -> bool:
        return any(int(value.min(initial=0)) < 0 for value in self.values.values())

    def within(self, prefix: str) -> Given:
        """Return the same shapes and values for a program that contains this one's nodes.

        `prefix`: what precedes their names in that program.
        """
        shapes = {f"{prefix}{name}": shapes for name, shapes in self.shapes.items()}
        values = {
            key if isinstance(key, int) else f"{prefix}{key}": value
            for key, value in self.values.items()
        }
        return Given(shapes=shapes, values=values)


NOTHING = Given()
