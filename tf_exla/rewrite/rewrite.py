"""What a rewrite is: an identity, the nodes it looks at, and a function that proposes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.refusal import Refusal

if TYPE_CHECKING:
    from tf_exla.rewrite.context import RewriteContext


@dataclass(frozen=True, slots=True)
class Together:
    """Tensors that stand for the outputs of several nodes at once, of which none reads another."""

    replacements: Mapping[Node, Tensor]


Proposals = Iterator[Tensor | Together | Refusal]
"""Tensors that may stand for the node's only output, the best first, and refusals."""

Propose = Callable[["RewriteContext", Node], Proposals]


@dataclass(frozen=True)
class Rewrite:
    """A named rewrite. `propose.__doc__` is the identity.

    `family`: the name by which it is switched on and off. `ops`: the ops a pattern may end in.
    `normal`: applied whether or not it saves time: it gives one form to what has several.
    `copies`: its largest tensor may be as large as what it reads.
    `needs_memory`: it holds more than what it replaces; a limit may be too small for it.
    """

    family: str
    propose: Propose
    ops: frozenset[str]
    normal: bool = False
    copies: bool = False
    needs_memory: bool = False

    @property
    def name(self) -> str:
        return self.propose.__name__.strip("_").replace("_", "-")

    @property
    def identity(self) -> str:
        """The first line of the docstring."""
        return (self.propose.__doc__ or "").strip().splitlines()[0].rstrip(".")


@dataclass(frozen=True, slots=True)
class Application:
    """One replacement. Flops and bytes moved: of the nodes that went, and of those that came."""

    family: str
    rewrite: str
    identity: str
    node: str
    source: str
    flops_before: int
    flops: int
    bytes_before: int
    bytes: int


@dataclass(frozen=True, slots=True)
class RefusedRewrite:
    """A pattern that was found at `node` and not replaced."""

    family: str
    rewrite: str
    node: str
    reason: str


@dataclass(frozen=True)
class Rewritten:
    """The graph with what was applied to it, and what was not, for a reason."""

    graph: Graph
    applications: tuple[Application, ...]
    refusals: tuple[RefusedRewrite, ...]


@dataclass(frozen=True)
class GraphRewrite:
    """A rewrite of many nodes at once, for which `Rewrite` has no root; applied after the others.

    `apply` returns the same graph where nothing applies; its docstring begins with the identity.
    """

    family: str
    apply: Callable[[Graph, OpSet], Rewritten]

    @property
    def identity(self) -> str:
        """The first line of the docstring."""
        return (self.apply.__doc__ or "").strip().splitlines()[0].rstrip(".")
