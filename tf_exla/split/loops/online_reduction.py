"""Online reduction: merge a stage with an earlier stage that completes a maximum or a scale for it.

A later stage that computes

    sum over k of exp(x_k - s) y_k / l


needs s and l only after the sum if the running maximum m of x replaces s:

    a <- a exp(m before - m) + sum over a chunk of exp(x_k - m) y_k,

and at the end a exp(m - s) / l. So a softmax and the products with it take one pass over their axis
instead of three (maximum, sum, products): Milakov & Gimelshein (2018), "Online normalizer
calculation for softmax"; Dao et al. (2022), "FlashAttention".

A result of a later loop merges into an earlier loop if it is a sum over chunks of one of two kinds.
It is linear in exp(x - s), and the earlier loop completes the maximum of x. Or it reads no tensor
that is completed by a loop. In a sum of the first kind, other completed tensors may only be factors
that do not carry the axis. Linear ops propagate factors along their axis rules. Where s is not
finite, the last factor gives the sums the values that they have in the program: exp(0 - s) is NaN,
infinite or zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from tf_exla.ir.builder import Builder
from tf_exla.ir.graph import Loop, LoopResult, Node, SplitAxis, Tensor
from tf_exla.ir.notes import note, noted
from tf_exla.ir.refusal import Refusal
from tf_exla.split.loops.factors import Axes, Factor, Scaled, Shift, finite, spread
from tf_exla.split.loops.online_state import OnlineReduction, Shared
from tf_exla.split.loops.rebuild_loop import makers, postponed
from tf_exla.split.regions.def_use import DefUse


@dataclass(frozen=True)
class Streams:
    """Merged loops, and the nodes after them that finish their sums."""

    loops: tuple[Loop, ...]
    after: tuple[Node, ...]


def stream(index: DefUse, loops: Sequence[Loop], short: Sequence[Node] = ()) -> Streams | None:
    """Merge the loops of a region, given in order of stages; None if no two of them merge.

    `short`: the nodes that cast their wide sums back to short floats.
    """
    left = list(loops)
    after: list[Node] = list(short)
    sums = {node.output: node.inputs[0] for node in short}

    @cache
    def completed_from(stage: int) -> Completed:
        outputs = {tensor for loop in loops if loop.stage >= stage for tensor in loop.outputs}
        ends = [node.output for node in short if node.inputs[0] in outputs]
        return Completed(index, [*outputs, *ends])

    first = 0
    while first < len(left):
        completed = completed_from(left[first].stage)
        inside = Shared()
        second = first + 1
        while second < len(left):
            if not may_stream(left[first], left[second], completed):
                second += 1
                continue
            known = frozenset(t for t in left[second].inputs if t in completed)
            pair = left[first], left[second], known
            if pair in index.made.apart:
                second += 1
                continue
            streamed = OnlineReduction(index.ops, left[first], left[second], completed, inside)
            found = streamed.sums()
            if not found:
                index.made.apart.add(pair)
            merged = _merged(index, streamed, found, left[second + 1 :], sums)
            if merged is None:
                second += 1
                continue
            left[first], left[second:], nodes = merged
            after += nodes
        first += 1
    return Streams(tuple(left), tuple(after)) if len(left) < len(loops) else None


def may_stream(loop: Loop, later: Loop, completed: Completed) -> bool:
    """Return whether a sum of `later` may merge into `loop`: a cheap test that excludes most pairs.

    If `loop` computes no maximum, only sums that read no tensor of `completed` can merge.
    """
    sums = sums_read(later)
    if not sums or later.folds:
        return False
    if any(result.combine == "max" for result in loop.results):
        return True
    chunks = {
        (tensor, result.slot)
        for tensor, result in zip(loop.outputs, loop.results, strict=True)
        if result.slot is not None
    }
    unknown = {k for k, pair in completed.read_by(later) if pair not in chunks}
    return any(unknown.isdisjoint(read) for read in sums)


def sums_read(loop: Loop) -> list[frozenset[int]]:
    """Return the positions of the inputs that each sum over the loop's chunks depends on."""
    body = loop.template
    known: list[frozenset[int]] | None = noted(body, "sums", loop.results)
    if known is not None:
        return known
    read = {tensor: frozenset((k,)) for k, tensor in enumerate(body.inputs)}
    for node in body.nodes:
        found = frozenset[int]().union(*(read[tensor] for tensor in node.inputs))
        read.update(dict.fromkeys(node.outputs, found))
    pairs = zip(body.outputs, loop.results, strict=True)
    made = [read[tensor] for tensor, result in pairs if result.combine == "add"]
    note(body, "sums", loop.results, made)
    return made


def _merged(
    index: DefUse,
    streamed: OnlineReduction,
    sums: Mapping[int, Scaled],
    following: list[Loop],
    precise: dict[Tensor, Tensor],
) -> tuple[Loop, list[Loop], list[Node]] | None:
    """Move the results of the later loop elsewhere: `sums` into the earlier loop, others after it.

    Return the earlier loop, the loops after the later one, and the nodes that finish the sums. One
    of the loops after it then also computes the results that are not in `sums`; None if none can.
    `precise`: for each sum in bfloat16 or float16, the float32 sum before the cast.
    """
    later = streamed.later
    rest = [k for k in range(len(later.outputs)) if k not in sums]
    if not sums:
        return None
    try:
        hosts = postponed(index, later, rest, following) if rest else following
        if hosts is None:
            return None
        loop, nodes = _with_sums(streamed, sums, precise)
    except Refusal:  # the op set cannot make a node that this needs
        return None
    streamed.share()
    return loop, hosts, nodes


class Completed:
    """The set of tensors that are known only after some loops.

    These are `results`, the outputs of the loops, and all tensors that depend on them. The loops
    are not in the graph of `index` yet: there, members of the region make their results. Only wide
    sums are made by nodes of the loops.
    """

    def __init__(self, index: DefUse, results: Iterable[Tensor]) -> None:
        self.index = index
        self.results = frozenset(results)
        self.read_by = cache(self._read_by)
        self.after = 0
        for tensor in self.results:
            for reader, _ in index.readers.get(tensor, ()):
                self.after |= index.descendants[reader] | (1 << index.position[reader])

    def __contains__(self, tensor: object) -> bool:
        if tensor in self.results:
            return True
        node = self.index.producer.get(tensor) if isinstance(tensor, Tensor) else None
        return node is not None and bool(self.after >> self.index.position[node] & 1)

    def _read_by(self, loop: Loop) -> list[tuple[int, tuple[Tensor, SplitAxis | None]]]:
        """Return the inputs of a loop that are in the set, each as (position, (input, slot))."""
        pairs = enumerate(zip(loop.inputs, loop.slots, strict=True))
        return [(k, pair) for k, pair in pairs if pair[0] in self]


def _with_sums(
    s: OnlineReduction, sums: Mapping[int, Scaled], precise: dict[Tensor, Tensor]
) -> tuple[Loop, list[Node]]:
    """Return the earlier loop with `sums` of the later loop added, and the nodes after it."""
    loop, later = s.loop, s.later
    w = Builder(later, s.ops)
    draft = s.draft
    for position, (now, _) in s.running.items():
        draft.inner[position] = now
        draft.results[position] = LoopResult("max", accumulates_in_body=True)
    for position, value in sums.items():
        whole, part = later.outputs[position], value.value
        shift = next((one for one in value.factors if isinstance(one[0], Shift)), None)
        total = whole
        if value.factors:
            total = Tensor(whole.shape, part.dtype, f"{whole.name}/sum")
            _finish(w, loop, whole, total, value.factors, precise)
        if shift is not None:
            assert isinstance(shift[0], Shift)
            before = Tensor(whole.shape, part.dtype, f"{whole.name}/before")
            draft.folds[len(draft.results)] = before
            faded = s.inner.op("multiply", before, s.fading(shift[0], shift[1], part.dtype))
            part = s.inner.op("add", faded, part)
        result = LoopResult("add", accumulates_in_body=shift is not None)
        draft.add(part, total, result)
    return draft.built({**s.new, **makers(s.inner.nodes), **draft.making}), w.nodes


def _finish(
    w: Builder,
    loop: Loop,
    whole: Tensor,
    total: Tensor,
    factors: Sequence[tuple[Factor | Shift, Axes]],
    precise: dict[Tensor, Tensor],
) -> None:
    """Apply its factors to a sum after the loop; the result is `whole`."""
    dtype = total.dtype
    for factor, axes in factors:
        if isinstance(factor, Factor):
            scale = w.cast(precise.get(factor.tensor, factor.tensor), dtype)
            total = w.op(factor.op, total, spread(w, scale, axes))
            continue
        largest = w.cast(finite(w, loop.outputs[factor.largest]), dtype)
        shift = w.cast(factor.shift, dtype)
        gap = w.op("subtract", spread(w, largest, factor.layout), shift)
        total = w.op("multiply", total, spread(w, w.op("exp", gap), axes))
    if dtype != whole.dtype:
        precise[whole] = total
        total = w.cast(total, whole.dtype)
    w.ended(whole)
