"""The results of `lower` for a function within a limit, like `jax.stages` for `jax.jit`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from tf_exla.frontends.jax.calls.static_leaves import shown
from tf_exla.frontends.jax.certify import Certificate, Certified


class Lowered:
    """A function for arguments of some types, not planned yet."""

    def __init__(self, compile_: Callable[[], Compiled]) -> None:
        self._compile = compile_

    def compile(self) -> Compiled:
        """Plan, compile and certify. Raises `MemoryLimitError` if no plan is within the limit."""
        return self._compile()


class Compiled:
    """A compiled function of arrays of the types that it was lowered for.

    `certificate`: its peak in bytes, `certificate.peak`, and the parts.
    """

    def __init__(
        self, certified: Certified, operands: Callable[..., list[Any]], structure: Any
    ) -> None:
        self._certified = certified
        self._operands = operands
        self._structure = structure

    @property
    def certificate(self) -> Certificate:
        return self._certified.certificate

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        made = self._certified.run(*self._operands(args, kwargs))
        return shown(jax.tree.unflatten(self._structure, made))

    def as_text(self) -> str:
        """Return XLA's program, after all of its passes."""
        return str(self._certified.compiled.as_text())

    def cost_analysis(self) -> Any:
        """Return XLA's estimate of flops and bytes moved."""
        return self._certified.compiled.cost_analysis()

    def memory_analysis(self) -> Any:
        """Return the bytes of XLA's buffers; `certificate` also counts bytes outside of them."""
        return self._certified.compiled.memory_analysis()
