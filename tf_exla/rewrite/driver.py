"""The driver: it applies rewrites to a graph and its sub-graphs until nothing changes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from tf_exla.byte_size import format_bytes
from tf_exla.ir.clean import clean
from tf_exla.ir.graph import Graph, Loop, Node, Tensor
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.refusal import Refusal
from tf_exla.model.settings import SETTINGS
from tf_exla.rewrite.context import RewriteContext, largest
from tf_exla.rewrite.rewrite import (
    Application,
    GraphRewrite,
    RefusedRewrite,
    Rewrite,
    Rewritten,
    Together,
)
from tf_exla.rewrite.worklist import Worklist


def rewrite_graph(
    graph: Graph,
    ops: OpSet,
    rewrites: Sequence[Rewrite | GraphRewrite],
    budget: int | None = None,
) -> Rewritten:
    """Rewrite a graph and its sub-graphs, except for bodies of a `Loop`.

    The result has the same graph object if nothing applies. `budget`: bytes that results should not
    exceed if a rewrite can choose.
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
        self.refusals: list[RefusedRewrite] = []
        self.keys: dict[Node, Hashable | None] = {}

    def graph(self, graph: Graph) -> Graph:
        graph = self._subgraphs(graph)
        left = SETTINGS.replaced * len(graph.nodes) + 16
        while True:  # until nothing changes, or `left` is used up
            before = graph
            site = RewriteContext(graph, self.ops, self.keys, self.budget)
            agenda = Worklist(site)
            while left and (node := agenda.next()) is not None:
                new = self._at(site, node)
                if new is not None:
                    left -= 1
                    agenda.add(new)
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
                node = node.replace(attrs={**node.attrs, **new})
            nodes.append(node)
        return graph.with_nodes(nodes)

    def _at(self, site: RewriteContext, node: Node) -> list[Node] | None:
        """Apply the first accepted rewrite of a node; return the new nodes, or None."""
        if node.stateful or isinstance(node, Loop) or len(node.outputs) != 1:
            return None
        for rewrite in self.by_op.get(node.op, ()):
            site.begin(node)
            try:
                for proposal in rewrite.propose(site, node):
                    verdict = (
                        proposal
                        if isinstance(proposal, Refusal)
                        else self._judge(site, node, rewrite, proposal)
                    )
                    if isinstance(verdict, list):
                        return verdict
                    self._refuse(rewrite, node, verdict.reason)
                    site.begin(node)
            except Refusal as error:
                self._refuse(rewrite, node, str(error))
        return None

    def _refuse(self, rewrite: Rewrite, node: Node, reason: str) -> None:
        self.refusals.append(RefusedRewrite(rewrite.family, rewrite.name, node.name, reason))

    def _judge(
        self, site: RewriteContext, node: Node, rewrite: Rewrite, proposal: Tensor | Together
    ) -> list[Node] | Refusal:
        together = proposal if isinstance(proposal, Together) else Together({node: proposal})
        for each, new in together.replacements.items():
            old = each.outputs[0]
            if (new.shape, new.dtype) != (old.shape, old.dtype):
                return Refusal(f"{new} would stand for {old}")
        if _reads_replaced(site, together):
            return Refusal("its replacement would be computed from it")
        gone = site.removed(together.replacements)
        if not rewrite.normal:
            before, after = site.seconds(gone), site.seconds(site.made)
            if after > before * (1 - SETTINGS.rewrite_gain):
                return Refusal(
                    f"it saves no time: what it could remove takes {before:.3g} s, what it would "
                    f"add {after:.3g} s; other readers keep shared results"
                )
            if largest(site.made) > max(largest(gone), _read(site) if rewrite.copies else 0):
                return Refusal(
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
        return site.replace(together.replacements, gone)


def _reads_replaced(site: RewriteContext, together: Together) -> bool:
    """Return whether a proposal reads or contains a tensor that it replaces.

    A rewrite proposes the root itself if it cannot decompose a pattern for lack of static sizes.
    """
    replaced = {each.outputs[0] for each in together.replacements}
    read = {tensor for node in site.made for tensor in node.inputs}
    return not replaced.isdisjoint(read.union(together.replacements.values()))


def _read(site: RewriteContext) -> int:
    """Return the bytes of the largest tensor of the graph that a proposal reads."""
    return max(
        (
            t.nbytes
            for node in site.made
            for t in node.inputs
            if t in site.producer or t in site.inputs
        ),
        default=0,
    )
