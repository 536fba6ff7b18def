"""The choice among the forms of a program: the first within the budget, or a faster one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from itertools import dropwhile, islice

from tf_exla.ir.graph import Graph
from tf_exla.ir.traverse import count_nodes
from tf_exla.model.cost import graph_seconds
from tf_exla.model.options import Options
from tf_exla.model.projection import Projector
from tf_exla.model.settings import SETTINGS
from tf_exla.pipeline.finishing import finish
from tf_exla.pipeline.forms import Form, Forms
from tf_exla.pipeline.in_cache import split_in_cache
from tf_exla.pipeline.peak_parts import computed_at_peak
from tf_exla.rewrite.families import IN_CACHE
from tf_exla.split.loops.chunks import fit_loops
from tf_exla.split.search import Splitting, split

Checked = Callable[[str, Graph], Graph]
"""A function of a pass's name and result: it returns the result, or raises if that is invalid."""


@dataclass(frozen=True)
class Found:
    """A split program, the search that split it, and the form that was split.

    `others`: forms that were tried before and not taken. `lost`: if this form was not taken, the
    reason, for the report.
    """

    graph: Graph
    splitting: Splitting
    form: Form
    others: tuple[Found, ...] = ()
    lost: str = "its smallest split is not within the limit"

    def instead_of(self, slower: Found) -> Found:
        """Return this program, with the slower one among the `others` that were not taken."""
        return replace(self, others=(*slower.others, replace(slower, lost="it is slower")))


@dataclass(frozen=True)
class Finished:
    """A split program, and its final `graph` after the late passes.

    `for_cache`: the search that split it further for the cache; None if that does not pay.
    """

    found: Found
    graph: Graph
    for_cache: Splitting | None


def finished(forms: Forms, found: Found, checked: Checked) -> Finished:
    """Apply the late passes to a split program, and split it for the cache if that pays."""
    projector, budget, options = forms.projector, forms.budget, forms.options
    whole = checked("split", found.graph)
    final = checked("finish", finish(projector, whole, budget, options))
    for_cache = None
    if options.cached and options.uses(IN_CACHE) and not found.form.whole:
        for_cache = split_in_cache(projector, whole, final, budget, options)
    if for_cache is not None:
        final = checked("in-cache", for_cache.graph)
    return Finished(found, final, for_cache)


def best_of(forms: Forms, checked: Checked) -> Finished:
    """Return the fastest plan, finished, or that of a form without tied axes if that is faster."""
    projector, budget, options = forms.projector, forms.budget, forms.options

    def seconds(one: Finished) -> float:
        if projector.working_set(one.graph) > budget:
            return math.inf
        return graph_seconds(projector.ops, one.graph, promises=False)

    best = finished(forms, _fastest(forms), checked)
    for form in forms.untied():
        made = _split(projector, form, budget, options)
        found = Found(made.graph, made, form).instead_of(best.found)
        other = finished(forms, found, checked)
        if seconds(other) < SETTINGS.margin * seconds(best):
            best = other
    return best


def _fastest(forms: Forms) -> Found:
    """Return the first plan that is not slow, or a faster one with blocks or segments.

    The first plan may split convolutions of one image along channels, and then reads the image many
    times. It may split a user's loop along an axis of its tensors, and then runs it many times. So
    blocks of rows and segments of iterations are tried as well.
    """
    projector, budget, options = forms.projector, forms.budget, forms.options
    ops = projector.ops
    found = _faster_than_whole(forms)
    if found is None and (again := _rematerialized(forms)) is not None:
        found = _faster(forms, again, forms, SETTINGS.margin_whole)
    elif found is None:
        found = _not_slow(forms, first_within(projector, forms, budget, options))
    seconds = SETTINGS.margin * graph_seconds(ops, found.graph)
    if projector.working_set(found.graph) > budget or seconds < graph_seconds(ops, forms.cleaned):
        return found
    with projector.effort.for_speed():
        for group in (forms.in_blocks(), forms.in_segments()):
            for form in group:
                if form.name == found.form.name:
                    break
                made = _within(forms, form, seconds) or _enlarged(forms, form)
                if made is None:
                    continue
                if graph_seconds(ops, made.graph) < seconds:
                    found = made.instead_of(found)
                    seconds = SETTINGS.margin * graph_seconds(ops, found.graph)
                break
    return found


def _faster_than_whole(forms: Forms) -> Found | None:
    """Return the first form, split, if that is faster than the unsplit program; else None.

    Then rematerialization, which only adds work to the unsplit program, need not be tried.
    """
    first = next(iter(forms))
    if (
        forms.budget <= 0
        or first.spare
        or first.whole
        or forms.projector.working_set(first.graph) <= forms.budget
    ):
        return None
    ops = forms.projector.ops
    most = SETTINGS.margin_whole * graph_seconds(ops, forms.cleaned)
    made = _within(forms, first, most)
    return made if made is not None and graph_seconds(ops, made.graph) < most else None


def _rematerialized(forms: Forms) -> Found | None:
    """Return the rematerialized program if it is within the budget without a split; else None."""
    projector, budget = forms.projector, forms.budget
    unsplit = forms.cleaned, forms.rewritten.graph
    if any(projector.working_set(one) <= budget for one in unsplit) or next(iter(forms)).spare:
        return None
    form = forms.unsplit
    if form is None or projector.working_set(form.graph) > budget:
        return None
    return Found(form.graph, Splitting(form.graph, ()), form)


def _not_slow(forms: Forms, found: Found) -> Found:
    """Return a plan, or that of a later form if the plan is slow and the later one is faster.

    A form that is within the budget only with tiny chunks may be slower than a later form that
    takes more work. It may also be slower than its own smallest plan with larger chunks
    (`_enlarged`).
    """
    ops = forms.projector.ops
    whole = graph_seconds(ops, forms.cleaned)
    if forms.projector.working_set(found.graph) > forms.budget:
        return found
    if SETTINGS.margin_whole * graph_seconds(ops, found.graph) > whole:
        again = () if forms.unsplit is None else (forms.unsplit,)
        found = _faster(forms, found, again, SETTINGS.margin)
    seconds = graph_seconds(ops, found.graph)
    if seconds < SETTINGS.slow * whole:
        return found
    forms_after = dropwhile(lambda form: form.name != found.form.name, forms)
    with forms.projector.effort.for_speed():
        larger = _enlarged(forms, found.form)
        if larger is not None and graph_seconds(ops, larger.graph) < SETTINGS.margin * seconds:
            found = larger
    return _faster(forms, found, islice(forms_after, 1, None), SETTINGS.margin)


def _faster(forms: Forms, found: Found, others: Iterable[Form], margin: float) -> Found:
    """Return the first of `others` that takes at most `margin` of the plan's time, or the plan.

    Forms are tried as long as `SETTINGS.calls` calls might regain the time of the search. If the
    plan has no loops, one form is tried in any case, since its loops may also keep tensors in the
    cache.
    """
    ops = forms.projector.ops
    seconds, whole = (graph_seconds(ops, one) for one in (found.graph, forms.cleaned))
    worth, tried = SETTINGS.calls * (seconds - whole), found.graph.has_loops
    with forms.projector.effort.for_speed():
        for form in others:
            if form.whole:
                continue
            worth -= ops.rates().search_node * count_nodes(form.graph)
            if worth < 0 and tried:
                break
            tried = True
            made = _within(forms, form, margin * seconds)
            if made is not None and graph_seconds(ops, made.graph) < margin * seconds:
                return made.instead_of(found)
    return found


def _enlarged(forms: Forms, form: Form) -> Found | None:
    """Return the smallest plan of a form with its chunks enlarged up to the budget.

    None if it exceeds the budget even with the smallest chunks.
    """
    projector, budget, options = forms.projector, forms.budget, forms.options
    made = _split(projector, form, 0, options)
    fitted = fit_loops(projector, made.graph, budget, options)
    return Found(fitted, made, form) if projector.working_set(fitted) <= budget else None


def _within(forms: Forms, form: Form, most_seconds: float = math.inf) -> Found | None:
    """Return a form, split, if that is within the budget, else None; `most_seconds`: as `split`."""
    projector, budget, options = forms.projector, forms.budget, forms.options
    made = _split(projector, form, budget, options, most_seconds)
    holds = projector.working_set(made.graph) <= budget
    return Found(made.graph, made, form) if holds else None


def _split(
    projector: Projector,
    form: Form,
    budget: int,
    options: Options,
    most_seconds: float = math.inf,
) -> Splitting:
    """Search for a split of a form, with the moves that the form allows."""
    return split(projector, form.graph, budget, options, form.sinks, most_seconds)


def first_within(
    projector: Projector, forms: Iterable[Form], budget: int, options: Options
) -> Found:
    """Return the first form whose split is within the budget, else the one with the smallest plan.

    The returned search was for the budget, or for a budget of zero if that failed. The latter finds
    the smallest plan of a form.
    """
    found: list[Found] = []
    for form in forms:
        if form.sinks and all(computed_at_peak(projector, one.graph) < form.sinks for one in found):
            continue
        needed = projector.working_set(form.graph) if form.spare or form.whole else 0
        if any(projector.working_set(one.graph) <= needed for one in found):
            continue
        if form.whole:
            unsplit = _split(projector, form, needed, options)
            found.append(Found(unsplit.graph, unsplit, form))
            if needed <= budget:
                return replace(found[-1], others=tuple(found[:-1]))
            continue
        attempt = partial(_split, projector, form, options=options)
        smallest = attempt(budget=0) if found or budget <= 0 else None
        # If even the smallest plan exceeds the budget, a search for the budget would fail.
        if smallest is None or projector.working_set(smallest.graph) <= budget:
            splitting = attempt(budget=budget)
            if projector.working_set(splitting.graph) <= budget:
                return Found(splitting.graph, splitting, form, tuple(found))
        smallest = smallest or attempt(budget=0)
        fitted = fit_loops(projector, smallest.graph, budget, options)
        if projector.working_set(fitted) <= budget:
            return Found(fitted, smallest, form, tuple(found))
        found.append(Found(smallest.graph, smallest, form))
    return min(found, key=lambda one: projector.working_set(one.graph))
