"""Rewrites: an identity, the ops that it matches, and a function that proposes replacements."""

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
    """Tensors that replace the outputs of several nodes at once; no such node reads another one."""

    replacements: Mapping[Node, Tensor]


Proposals = Iterator[Tensor | Together | Refusal]
"""Tensors that may replace the node's only output, the best first, and refusals."""

Propose = Callable[["RewriteContext", Node], Proposals]


@dataclass(frozen=True)
class Rewrite:
    """A named rewrite. `propose.__doc__` is the identity.

    `family`: the name by which it is switched on and off. `ops`: the ops of the nodes at which it
    makes proposals. `normal`: it is applied whether or not it saves time, since it replaces
    equivalent expressions by one normal form. `copies`: its largest tensor may be as large as the
    largest tensor that it reads, not only as those it replaces. `needs_memory`: it needs more
    memory than the nodes it replaces, so a limit may be too small for it. `ties_axes`: its result
    cannot be computed from chunks of an axis, although the nodes it replaces may be.
    """

    family: str
    propose: Propose
    ops: frozenset[str]
    normal: bool = False
    copies: bool = False
    needs_memory: bool = False
    ties_axes: bool = False

    @property
    def name(self) -> str:
        return self.propose.__name__.strip("_").replace("_", "-")

    @property
    def identity(self) -> str:
        """The first line of the docstring."""
        return (self.propose.__doc__ or "").strip().splitlines()[0].rstrip(".")


@dataclass(frozen=True, slots=True)
class Application:
    """One replacement, with the flops and the bytes moved.

    `flops_before`, `bytes_before`: of the removed nodes. `flops`, `bytes`: of the added ones.
    """

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
    """A pattern that matched at `node` and was not replaced."""

    family: str
    rewrite: str
    node: str
    reason: str


@dataclass(frozen=True)
class Rewritten:
    """The rewritten graph, the rewrites that were applied, and the refusals with their reasons."""

    graph: Graph
    applications: tuple[Application, ...]
    refusals: tuple[RefusedRewrite, ...]


@dataclass(frozen=True)
class GraphRewrite:
    """A rewrite of many nodes at once, without a single root; applied after the others.

    `apply` returns the same graph if nothing applies; its docstring begins with the identity.
    """

    family: str
    apply: Callable[[Graph, OpSet], Rewritten]

    @property
    def identity(self) -> str:
        """The first line of the docstring."""
        return (self.apply.__doc__ or "").strip().splitlines()[0].rstrip(".")
