"""Streaming: one pass where a stage needs of an earlier one a maximum, or a scale, to be complete.

    sum over k of exp(x_k - s) y_k / l

needs s and l only when the sum is done, where the largest x so far, m, takes the place of s:

    a <- a exp(m before - m) + sum over a chunk of exp(x_k - m) y_k,

and at the end a exp(m - s) / l. So a softmax and the products with it, three passes over their axis
(largest, sum, products), are one: Milakov & Gimelshein (2018), "Online normalizer calculation for
softmax"; Dao et al. (2022), "FlashAttention".

A later loop merges with an earlier one where each of its results is a sum over chunks, linear in
exp(x - s) of an x whose maximum the earlier loop completes, or in nothing that is not complete
there; and where completed tensors are otherwise only factors that do not carry the axis. Linear
ops pass a factor on by their axis rules. Where s is not finite, the last factor makes of the sums
what the program makes of them: exp(0 - s) is no number, or infinite, or zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tf_exla.ir.builder import Builder
from tf_exla.ir.graph import Loop, LoopResult, Node, Tensor
from tf_exla.ir.refusal import Refusal
from tf_exla.split.def_use import DefUse
from tf_exla.split.factors import Axes, Factor, Scaled, Shift, cast, finite, spread
from tf_exla.split.online_state import OnlineReduction, Shared
from tf_exla.split.rebuild_loop import makers, postponed


@dataclass(frozen=True)
class Streams:
    """Merged loops, and the nodes that finish their sums, each with the loop it once came from."""

    loops: tuple[Loop, ...]
    after: tuple[Node, ...]


def stream(index: DefUse, loops: Sequence[Loop], short: Sequence[Node] = ()) -> Streams | None:
    """Merge loops of one region, the first stage first; None where no two of them merge.

    `short`: the nodes that make their wide sums short again.
    """
    left = list(loops)
    after: list[Node] = list(short)
    sums = {node.output: node.inputs[0] for node in short}
    first = 0
    while first < len(left):
        stages = (loop for loop in loops if loop.stage >= left[first].stage)
        outputs = {tensor for loop in stages for tensor in loop.outputs}
        ends = [node.output for node in short if node.inputs[0] in outputs]
        completed = _downstream(index, [*outputs, *ends])
        inside = Shared()
        second = first + 1
        while second < len(left):
            if not any(result.combine == "add" for result in left[second].results):
                second += 1  # nothing there streams
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


def _merged(
    index: DefUse,
    streamed: OnlineReduction,
    sums: Mapping[int, Scaled],
    following: list[Loop],
    precise: dict[Tensor, Tensor],
) -> tuple[Loop, list[Loop], list[Node]] | None:
    """Do without the later loop: return the earlier one, those that follow, and nodes after both.

    What does not stream may be made by a loop that follows. `precise`: sums of short floats before
    they are made short again.
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


def _downstream(index: DefUse, sources: Sequence[Tensor]) -> frozenset[Tensor]:
    """Return `sources`, and what nodes make of them that are not in a loop."""
    found = set(sources)
    loops = {index.producer[tensor] for tensor in found if tensor in index.producer}
    work = list(found)
    while work:
        for node, _ in index.readers.get(work.pop(), ()):
            if node not in loops:
                work += (tensor for tensor in node.outputs if tensor not in found)
                found.update(node.outputs)
    return frozenset(found)


def _with_sums(
    s: OnlineReduction, sums: Mapping[int, Scaled], precise: dict[Tensor, Tensor]
) -> tuple[Loop, list[Node]]:
    """Return the loop with some results of the later one, and the nodes after it."""
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
    """Multiply a sum by its factors, after the loop; the product is `whole`."""
    dtype = total.dtype
    for factor, axes in factors:
        if isinstance(factor, Factor):
            scale = cast(w, precise.get(factor.tensor, factor.tensor), dtype)
            total = w.op(factor.op, total, spread(w, scale, axes))
            continue
        largest = cast(w, finite(w, loop.outputs[factor.largest]), dtype)
        shift = cast(w, factor.shift, dtype)
        gap = w.op("subtract", spread(w, largest, factor.layout), shift)
        total = w.op("multiply", total, spread(w, w.op("exp", gap), axes))
    if dtype != whole.dtype:
        precise[whole] = total
        total = cast(w, total, whole.dtype)
    last = w.nodes[-1]
    w.nodes[-1] = last.replace(outputs=(whole,))
