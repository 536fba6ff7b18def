"""The settings of one optimized function, and the interface of its program for gradients."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import tensorflow as tf

from tf_exla.errors import MemoryLimitError
from tf_exla.frontends.tf.capture import Captured
from tf_exla.frontends.tf.devices.choice import DeviceSet
from tf_exla.frontends.tf.planning.fallback import Guard
from tf_exla.ir.graph import Graph, Tensor
from tf_exla.model.options import Options


@dataclass(frozen=True)
class Settings:
    """The settings of one optimized function; `limit` returns bytes when a plan is made.

    `devices`: those that loops are sharded over; None for one device. `unlimited`: whether the
    function runs without a plan. `outside`: bytes in use outside of the function while it runs, in
    addition to its inputs. `refused`: for a part behind a head, the error because of which the
    program is cut there.
    """

    name: str
    limit: Callable[[], int]
    options: Options = field(default_factory=Options)
    guard: Guard = field(default_factory=Guard)
    devices: DeviceSet | None = None
    unlimited: bool = False
    outside: int = 0
    refused: MemoryLimitError | None = None

    def without_limit(self) -> Settings:
        """Return settings for a function that cannot be planned, and so runs without a plan."""
        return replace(self, unlimited=True)

    def named(self, found: MemoryLimitError) -> MemoryLimitError:
        """Return the error to raise for a part that exceeds the limit.

        If the program was cut because it was refused, it runs uncut with the limit that its own
        error names. So that error is raised, unless the part needs less. If only the gradient of
        the program was refused, a part that needs less tells nothing about its own gradient. Then
        the gradient's error says that the smaller limit may work in parts.
        """
        whole = self.refused
        if whole is None or (is_gradient(found.function) and not is_gradient(whole.function)):
            return found
        named = copy.copy(whole)
        if found.smallest_limit >= whole.smallest_limit:
            return named
        if is_gradient(found.function) or not is_gradient(whole.function):
            return found
        named.may_work_in_parts(found.smallest_limit)
        return named


_GRADIENT = "gradient of "


def gradient_name(function: str) -> str:
    """Return the name of a function's gradient, of any order."""
    return function if is_gradient(function) else _GRADIENT + function


def is_gradient(function: str) -> bool:
    """Return whether a name is that of a gradient."""
    return function.startswith(_GRADIENT)


class Program(Protocol):
    """The interface of a captured function for its gradient: see `program.py`."""

    captured: Captured
    concrete: Any
    count: int
    graph: Graph
    settings: Settings
    by_name: dict[str, list[int | None]]
    by_handle: dict[int, int]

    @property
    def first_save(self) -> int: ...

    def given_at(self, index: int) -> Tensor: ...

    def gradient(self, mask: tuple[bool, ...]) -> Callable[..., list[tf.Tensor | None]]: ...

    def ready(self, inputs: Sequence[tf.Tensor]) -> object: ...

    def run(
        self, inputs: list[tf.Tensor], saved: Sequence[tf.Tensor], forward: bool = False
    ) -> list[Any]: ...
