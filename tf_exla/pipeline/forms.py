"""Forms of a program: some can be split where others cannot, but cost more work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import chain

from tf_exla.ir.clean import clean
from tf_exla.ir.graph import Graph, Node
from tf_exla.ir.traverse import count_nodes
from tf_exla.model.effort import Effort
from tf_exla.model.lifetimes import CHAIN_BYTES
from tf_exla.model.options import Options
from tf_exla.model.projection import Projector
from tf_exla.model.settings import SETTINGS
from tf_exla.moves.images.blocks import in_blocks, one_block
from tf_exla.moves.images.growth import find_images
from tf_exla.moves.lowering import lower
from tf_exla.moves.moving import move
from tf_exla.moves.own_copies import operands_apart, transpose_apart
from tf_exla.moves.rematerialization import can_hold, rematerialize
from tf_exla.moves.unmerging import unmerge
from tf_exla.moves.user_loops.choosing import choose_again
from tf_exla.moves.user_loops.iterations import write_iterations
from tf_exla.moves.user_loops.row_reads import read_rows
from tf_exla.moves.user_loops.segments import in_segments
from tf_exla.moves.user_loops.sinking import sink
from tf_exla.moves.user_loops.small_lists import keep_less
from tf_exla.rewrite import Application, GraphRewrite, Rewrite, Rewritten, rewrite_graph
from tf_exla.split.kernels import KernelsInParts, split_kernels
from tf_exla.split.regions.origins import clash, tests_order
from tf_exla.split.search import search_context


@dataclass(frozen=True)
class Form:
    """A form of the program, its name for reports, and the rewrites that made it.

    `spare`: it is skipped if a form before it can be split into fewer bytes than it needs unsplit.
    `whole`: it is not split, since numbers of two copies are compared, and chunks of them would
    differ in the last bits. `sinks`: as in `split`.
    """

    name: str
    graph: Graph
    applications: tuple[Application, ...] = ()
    spare: bool = False
    whole: bool = False
    sinks: int = 0


def least_bytes(projector: Projector, graph: Graph) -> int:
    """Return the bytes above which a tensor is worth additional passes."""
    return max(projector.working_set(graph) // SETTINGS.worth_passes, SETTINGS.worth_bytes)


@dataclass(frozen=True)
class Forms:
    """The forms of one program, each once, the cheapest to run first.

    `original`: the program before all passes. `cleaned`: after clean-up. `rewritten`: `cleaned`,
    rewritten by `rules`. `budget`: the bytes that a call may request.

    The list of forms is in DESIGN.md. Rewritten forms come first, but some rewrites need memory,
    and others tie two axes together (G + transposed G). Sinking and lowering take more work, but
    enable rewrites: sunk producers and their readers are in one body then, and a lowered softmax
    has a divisor. So rewrites are applied again after them. Merging equal results may need more
    memory. So if a program is above the budget only with equal results merged, its first form is
    the one without that, or the program as it was traced.
    """

    projector: Projector
    original: Graph
    cleaned: Graph
    rewritten: Rewritten
    rules: Sequence[Rewrite | GraphRewrite]
    budget: int
    options: Options

    def __iter__(self) -> Iterator[Form]:
        seen: set[tuple[Graph, int]] = set()
        for form in self._all():
            if (form.graph, form.sinks) not in seen:
                seen.add((form.graph, form.sinks))
                yield form

    def _all(self) -> Iterator[Form]:
        over = self.projector.working_set(self.cleaned) > self.budget
        apart = self._apart() if over else None
        if apart is not None and self.projector.working_set(apart.graph) <= self.budget:
            yield apart
        elif over and self.projector.working_set(self.original) <= self.budget:
            yield Form("as traced", self.original, spare=True, whole=True)
        yield Form("rewritten", self.rewritten.graph, self.rewritten.applications)
        slim = self._slim()
        yield slim
        yield Form("as captured", self.cleaned)
        yield from self._moved(slim, self.budget, self.cleaned)
        yield from self.in_blocks()
        least = least_bytes(self.projector, self.cleaned)
        if read_rows(self.cleaned, self.projector, least, 0, 0) is not self.cleaned:
            for form in self._moved(slim, 0, self.cleaned):  # room 0: one row at a time
                yield replace(form, name=f"{form.name}, row by row")
        yield from self._loops_changed(slim)
        yield from self._sinking(slim)
        if apart is not None:
            yield apart
        again = self.rematerialized
        if again is not None and not again.whole:
            yield again

    @cached_property
    def rematerialized(self) -> Form | None:
        """The rematerialized form within the budget, or nearest to it; None if there is none."""
        if not self.projector.ops.runs_again():
            return None
        slim, captured = self._slim(), Form("as captured", self.cleaned)
        starts = [slim] if slim.graph is self.cleaned else [slim, captured]
        forms = []
        for form in chain(map(self._computed_again, starts), self._kernels_in_parts(starts)):
            if form is not None and not self._over(form):
                return form
            forms.append(form)
        return min(filter(None, forms), key=self._over, default=None)

    def _over(self, form: Form) -> int:
        """Return the bytes by which a form, unsplit, exceeds the budget."""
        return max(self.projector.working_set(form.graph) - self.budget, 0)

    @cached_property
    def unsplit(self) -> Form | None:
        """The rematerialized form, if each node alone is within the budget; else None."""
        holds = can_hold(self.cleaned, self.in_parts, self.budget)
        return self.rematerialized if holds else None

    @cached_property
    def in_parts(self) -> KernelsInParts:
        """A projector that assumes that kernels with much scratch memory run on parts."""
        return KernelsInParts(self.projector.ops, Effort(report=self.projector.effort.report))

    def _computed_again(self, start: Form) -> Form | None:
        """Return the rematerialized form of `start`; None if nothing is computed again."""
        graph = rematerialize(start.graph, self.projector, self.budget)
        if graph is start.graph:
            return None
        # If numbers of copies are compared, the copies must stay whole to have equal bits.
        whole = self._compares(graph)
        return replace(start, name="rematerialized", graph=graph, whole=whole)

    def _kernels_in_parts(self, starts: Sequence[Form]) -> Iterator[Form]:
        """Yield the rematerialized form with kernels in parts, if any kernel has parts.

        It is derived from the start that needs the least if all kernels are in parts.
        """
        starts = [one for one in starts if any(map(self.in_parts.reduces, one.graph.nodes))]
        if not starts:
            return
        made = {one: rematerialize(one.graph, self.in_parts, self.budget) for one in starts}
        start = min(starts, key=lambda one: self.in_parts.working_set(made[one]))
        graph, budget = made[start], self.budget
        if self.in_parts.working_set(graph) > budget:
            budget = 0  # a graph above the budget does not depend on it
        parted = self._parted(graph, budget)
        if budget and parted is not None and self.projector.working_set(parted) > budget:
            # A plan above the budget may give the smallest limit that is reported. It must be
            # found again for that limit, so it must not depend on the budget.
            parted = self._parted(rematerialize(start.graph, self.in_parts, 0), 0)
        if parted is not None and parted is not start.graph:
            yield replace(start, name="rematerialized, kernels in parts", graph=parted)

    def _parted(self, graph: Graph, budget: int) -> Graph | None:
        """Return a graph with some kernels in parts.

        None if it compares numbers of two copies, which might then differ in the last bits.
        """
        if self._compares(graph):
            return None
        return split_kernels(search_context(self.projector, budget, self.options), graph)

    def _compares(self, graph: Graph) -> bool:
        """Return whether a program compares numbers that it computes twice."""
        return tests_order(graph) and clash(graph, self.projector.ops) is not None

    def _apart(self) -> Form | None:
        """Return the form in which large equal results are not merged; None if there are none."""
        ops = self.projector.ops
        graph = clean(self.original, ops, CHAIN_BYTES)
        if clean(graph, ops) is graph:
            return None
        return Form("equal results apart", graph, spare=True, whole=self._compares(graph))

    def _loops_changed(self, slim: Form) -> Iterator[Form]:
        """Yield the forms with iterations written out, with small lists, and in segments.

        Each is also yielded with the moves applied to it. A loop that is written out runs up to
        twice as fast, but many nodes take long to plan, so then it comes last.
        """
        ops = self.projector.ops
        written = write_iterations(slim.graph, ops)

        def at_once() -> Iterator[Form]:
            yield self._again("iterations written out", written, slim)

        def less_kept() -> Iterator[Form]:
            yield self._again("small lists", keep_less(slim.graph, ops), slim)
            yield from self.in_segments()

        groups = [at_once(), less_kept()]
        if count_nodes(written) > count_nodes(slim.graph) + SETTINGS.written_first:
            groups.reverse()
        for form in chain(*groups):
            if form.graph is slim.graph:
                continue
            yield form
            for moved in self._moved(form, self.budget, None):
                yield replace(moved, name=f"{moved.name}, {form.name}")

    def in_segments(self) -> Iterator[Form]:
        """Yield the form in which gradients run their loops again in segments, if there is one."""
        slim = self._slim()
        graph = in_segments(slim.graph, self.projector.ops)
        if graph is not slim.graph:
            yield self._again("loops in segments", graph, slim)

    def untied(self) -> Iterator[Form]:
        """Yield the form without the rewrites that tie axes together, if any was applied."""
        ties = [one for one in self.rules if isinstance(one, Rewrite) and one.ties_axes]
        names = {one.name for one in ties}
        if any(one.rewrite in names for one in self.rewritten.applications):
            rules = [one for one in self.rules if one not in ties]
            made = rewrite_graph(self.cleaned, self.projector.ops, rules, self.budget)
            yield Form("rewritten, axes apart", made.graph, made.applications)

    def _slim(self) -> Form:
        """Return the form without the rewrites that need memory."""
        tight = self._tight()
        needs_memory = {rule.family for rule in self.rules if rule not in tight}
        made = self.rewritten
        if any(one.family in needs_memory for one in made.applications):
            made = rewrite_graph(self.cleaned, self.projector.ops, tight, self.budget)
        return Form("rewritten in little memory", made.graph, made.applications)

    def _tight(self) -> list[Rewrite | GraphRewrite]:
        return [one for one in self.rules if not (isinstance(one, Rewrite) and one.needs_memory)]

    def _moved(self, slim: Form, room: int, plain: Graph | None) -> Iterator[Form]:
        """Yield the forms that moves derive from `slim`, and from `plain`, which is not rewritten.

        `room`: bytes for the rows of a tensor that a user's loop computes at once; 0: one row.
        `plain`: None if there is no such form. Then `slim` has other loops than the program, and
        smaller tensors may be worth a move.
        """
        ops = self.projector.ops
        least = least_bytes(self.projector, slim.graph if plain is None else plain)

        @cache
        def lowered() -> Form:
            graph = lower(self._sunk(slim.graph, room), ops, least)
            return self._again("lowered", graph, slim)

        yield self._again("sunk into loops", self._sunk(slim.graph, room), slim)
        yield lowered()
        if plain is not None:
            yield Form("lowered, not rewritten", lower(self._sunk(plain, room), ops, least))
        unmerged = unmerge(lowered().graph, ops, least)
        if unmerged is not lowered().graph:
            yield self._again("lowered, merged axes apart", unmerged, slim)
        moved = move(lowered().graph, ops, least)
        if moved is not lowered().graph:
            yield self._again("lowered, by index", moved, slim)
        apart = transpose_apart(lowered().graph, ops, least)
        if apart is not lowered().graph:
            yield replace(lowered(), name="lowered, transposed apart", graph=apart)

    def in_blocks(self) -> Iterator[Form]:
        """Yield the forms with images in blocks of rows, the largest blocks first.

        Each op that is computed in blocks widens their overlap. So ops on small images are at first
        left out, and run on whole images.
        """
        ops, least = self.projector.ops, least_bytes(self.projector, self.cleaned)
        if not any(ops.windows(node) for node in self.cleaned.nodes):
            return
        slim = self._slim()
        graph = lower(self._sunk(slim.graph, self.budget), ops, least)
        room = self.budget - sum(tensor.nbytes for tensor in graph.outputs)
        seen: set[frozenset[Node]] = set()
        for small in (least, 0):
            images = find_images(graph, ops, small)
            nodes = frozenset(node for one in images for node in one.steps)
            if not images:
                return
            if nodes in seen:
                continue
            seen.add(nodes)
            main = max(images, key=lambda one: max(tensor.nbytes for tensor in one.carried))
            for cut in main.cuts:
                if cut is main.cuts[-1] or self.projector.working_set(one_block(cut)) <= room:
                    blocks = in_blocks(graph, ops, (one.cut_to(cut.share()) for one in images))
                    yield self._again(f"lowered, in blocks of {cut.rows} rows", blocks, slim)

    def _sinking(self, slim: Form) -> Iterator[Form]:
        """Yield the forms whose loops compute operands that they would read whole."""
        ops, least = self.projector.ops, least_bytes(self.projector, self.cleaned)
        lowered = self._again("lowered", lower(self._sunk(slim.graph, 0), ops, least), slim)
        for name, graph in (
            ("operands in loops", lowered.graph),
            ("own operands in loops", operands_apart(lowered.graph, ops, least)),
        ):
            yield replace(lowered, name=f"lowered, {name}", graph=graph, sinks=least)

    def _again(self, name: str, graph: Graph, slim: Form) -> Form:
        """Return the form of `graph`, derived from `slim`, with the rewrites applied again."""
        if graph is slim.graph:
            return replace(slim, name=name)
        made = rewrite_graph(graph, self.projector.ops, self._tight())
        return Form(name, made.graph, (*slim.applications, *made.applications))

    def _sunk(self, graph: Graph, room: int) -> Graph:
        projector, least = self.projector, least_bytes(self.projector, self.cleaned)
        room -= projector.overhead(graph)
        chunk = self.options.largest_chunk
        graph = choose_again(graph, projector.ops, least)
        rows = read_rows(graph, projector, least, room, chunk)
        return read_rows(sink(rows, projector.ops, least), projector, least, room, chunk)
