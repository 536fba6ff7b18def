"""Applies rewrites to a graph and its sub-graphs until nothing changes."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Mapping, Sequence

from tf_exla.byte_size import format_bytes
from tf_exla.graph import Graph, Loop, Node, Tensor, topological
from tf_exla.op_set import OpSet
from tf_exla.passes.clean import clean
from tf_exla.passes.rewriting.rewrite import (
    Application,
    GraphRewrite,
    Refusal,
    Refused,
    Rewrite,
    Rewritten,
    Together,
)
from tf_exla.passes.rewriting.site import CannotMake, Site, largest

SWEEPS = 8
MOST_PER_NODE = 4
"""Replacements in one graph, for each of its nodes: what is finite by its costs is bounded too."""
GAIN = 1e-3
"""The part of the time of the removed nodes that a replacement must save."""


def rewrite_graph(
    graph: Graph,
    ops: OpSet,
    rewrites: Sequence[Rewrite | GraphRewrite],
    budget: int | None = None,
) -> Rewritten:
    """Rewrite a graph and its sub-graphs; the same graph where nothing applies.

    `budget`: bytes that no result should exceed, where there is a choice.
    """
    by_op: dict[str, list[Rewrite]] = {}
    for rewrite in rewrites:
        if isinstance(rewrite, Rewrite):
            for op in rewrite.ops:
                by_op.setdefault(op, []).append(rewrite)
    run = _Run(ops, by_op, budget)
    made = run.graph(graph)
    for rewrite in rewrites:
        if isinstance(rewrite, GraphRewrite):
            found = rewrite.apply(made, ops)
            run.refusals += found.refusals
            if found.graph is not made:
                run.applications += found.applications
                made = run.graph(found.graph)
    refusals = {(one.rewrite, one.node): one for one in run.refusals}
    return Rewritten(made, tuple(run.applications), tuple(refusals.values()))


class _Run:
    def __init__(self, ops: OpSet, by_op: dict[str, list[Rewrite]], budget: int | None) -> None:
        self.ops = ops
        self.budget = budget
        self.by_op = by_op
        self.applications: list[Application] = []
        self.refusals: list[Refusal] = []
        self.keys: dict[Node, Hashable | None] = {}

    def graph(self, graph: Graph) -> Graph:
        graph = self._subgraphs(graph)
        left = MOST_PER_NODE * len(graph.nodes) + 16
        for _ in range(SWEEPS):
            before = graph
            site = Site(graph, self.ops, self.keys, self.budget)
            done: set[Node] = set()
            while left and (node := _next(site.graph, done)) is not None:
                done.add(node)
                changed = self._at(site, node)
                if changed is not None:
                    left -= 1
                    site = Site(changed, self.ops, self.keys, self.budget)
            graph = site.graph
            if graph is before:
                break
            graph = clean(graph, self.ops)
        return graph

    def _subgraphs(self, graph: Graph) -> Graph:
        """Rewrite the bodies and branches of control flow."""
        nodes: list[Node] = []
        for node in graph.nodes:
            subs = {} if isinstance(node, Loop) else dict(node.subgraphs)
            new = {key: self.graph(sub) for key, sub in subs.items()}
            if any(new[key] is not sub for key, sub in subs.items()):
                node = dataclasses.replace(node, attrs={**node.attrs, **new})
            nodes.append(node)
        if all(new is old for new, old in zip(nodes, graph.nodes, strict=True)):
            return graph
        return graph.replace(nodes=tuple(nodes))

    def _at(self, site: Site, node: Node) -> Graph | None:
        """Try the rewrites of one node; return the graph with the first that applies."""
        if node.stateful or isinstance(node, Loop) or len(node.outputs) != 1:
            return None
        for rewrite in self.by_op.get(node.op, ()):
            site.begin(node)
            try:
                for proposal in rewrite.propose(site, node):
                    verdict = (
                        proposal
                        if isinstance(proposal, Refused)
                        else self._judge(site, node, rewrite, proposal)
                    )
                    if isinstance(verdict, Graph):
                        return verdict
                    self._refuse(rewrite, node, verdict.reason)
                    site.begin(node)
            except CannotMake as error:
                self._refuse(rewrite, node, str(error))
        return None

    def _refuse(self, rewrite: Rewrite, node: Node, reason: str) -> None:
        self.refusals.append(Refusal(rewrite.family, rewrite.name, node.name, reason))

    def _judge(
        self, site: Site, node: Node, rewrite: Rewrite, proposal: Tensor | Together
    ) -> Graph | Refused:
        together = proposal if isinstance(proposal, Together) else Together({node: proposal})
        for each, new in together.replacements.items():
            old = each.outputs[0]
            if (new.shape, new.dtype) != (old.shape, old.dtype):
                return Refused(f"{new} would stand for {old}")
        gone = site.removed(together.replacements)
        if not rewrite.normal:
            before, after = site.seconds(gone), site.seconds(site.made)
            if after > before * (1 - GAIN):
                return Refused(
                    f"it saves no time: what it could remove takes {before:.3g} s, what it would "
                    f"add {after:.3g} s; other readers keep shared results"
                )
            if largest(site.made) > max(largest(gone), _read(site) if rewrite.copies else 0):
                return Refused(
                    f"it would make a tensor of {format_bytes(largest(site.made))} where the "
                    f"largest had {format_bytes(largest(gone))}"
                )
        self.applications.append(
            Application(
                rewrite.family,
                rewrite.name,
                rewrite.identity,
                node.name,
                node.source,
                site.flops(gone),
                site.flops(site.made),
                site.bytes(gone),
                site.bytes(site.made),
            )
        )
        return _replace(site, node, together.replacements, gone)


def _read(site: Site) -> int:
    """Return the bytes of the largest tensor that a proposal reads."""
    return max(
        (
            t.nbytes
            for node in site.made
            for t in node.inputs
            if t in site.producer or t in site.graph.inputs
        ),
        default=0,
    )


def _next(graph: Graph, done: set[Node]) -> Node | None:
    """Return the last node not looked at yet: readers come before what they read."""
    return next((node for node in reversed(graph.nodes) if node not in done), None)


def _replace(
    site: Site, root: Node, replacements: Mapping[Node, Tensor], gone: list[Node]
) -> Graph:
    """Let tensors stand for the outputs of nodes; what was made comes where the root was."""
    stands = {node.outputs[0]: tensor for node, tensor in replacements.items()}
    dead = set(gone)
    nodes: list[Node] = []
    for node in site.graph.nodes:
        if node is root:
            nodes += [dataclasses.replace(new, source=root.source) for new in site.made]
        if node in dead:
            continue
        if any(tensor in stands for tensor in node.inputs):
            inputs = tuple(stands.get(tensor, tensor) for tensor in node.inputs)
            node = dataclasses.replace(node, inputs=inputs)
        nodes.append(node)
    outputs = tuple(stands.get(tensor, tensor) for tensor in site.graph.outputs)
    return site.graph.replace(nodes=_in_order(nodes), outputs=outputs)


def _in_order(nodes: list[Node]) -> tuple[Node, ...]:
    """Put nodes after what they read, where a replacement reads what came later."""
    made = {tensor: at for at, node in enumerate(nodes) for tensor in node.outputs}
    if all(made.get(tensor, -1) < at for at, node in enumerate(nodes) for tensor in node.inputs):
        return tuple(nodes)
    position = {node: float(at) for at, node in enumerate(nodes)}
    return topological(nodes, position.__getitem__)
