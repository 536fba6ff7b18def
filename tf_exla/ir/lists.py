"""Bytes behind lists of tensors, in which loops keep results of each iteration.

The gradient of a While reads the results of its iterations in reverse order. TensorFlow keeps these
tensors in lists, and also those that a loop writes to a `TensorArray`. A list is a handle; this
module computes what it holds. `model/sizes.py` follows the lists of a program.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tf_exla.ir.bounds import Most, highest
from tf_exla.ir.graph import Node, Tensor, item_bytes

UNKNOWN_ITERATIONS = 1000
"""Iterations counted for a loop whose number is unknown; `unbounded` finds large ones."""
ITEM_BYTES = 320
"""Bytes that a list keeps for each tensor in addition to its elements: its buffer, its entry, and
what malloc adds. Measured: up to 290 for 50,000 to 200,000 tensors of 16 to 1,200 bytes."""


@dataclass(frozen=True, slots=True)
class Held:
    """The bytes that a list holds: `total`, of which its node added `growth`.

    `derived`: the list stems from one that the graph was given. `added`: the bytes added to that
    list. `most`: the number of tensors it may hold. `reserved`: some of its places may be empty.
    `item`: bytes of the largest tensor. `length`: an upper bound of the number of tensors, `top` of
    their integers; None if unknown. Gradients of loops read both from lists.
    """

    growth: int = 0
    total: int = 0
    added: int = 0
    derived: bool = False
    most: int | None = None
    reserved: bool = False
    item: int = 0
    length: int | None = None
    top: int | None = None


EMPTY = Held()
UNKNOWN = Held(reserved=True)
"""Behind a handle that is no list, such as an optional: nothing bounds what is read from it."""


@dataclass(frozen=True, slots=True)
class ListEffect:
    """The effect of a node on the list in its result.

    `keeps`: operands that the list keeps alive. `rows`: it has one tensor for each row of the last
    of them. `pieces`: a tensor has several rows. `anew`: its tensors are new, as large as those of
    the operands. `size`: the operand that gives the number of tensors it may hold, -1 for any.
    `reserves`: all places exist at once. `resized`: the number of tensors may have changed to make
    a place for `index`, an operand. `appends`: tensors are appended. `takes`: the node's result is
    a tensor of the list. `counts`: the node's result is the number of tensors.
    """

    keeps: tuple[int, ...] = ()
    rows: bool = False
    pieces: bool = False
    anew: bool = False
    size: int | None = None
    reserves: bool = False
    resized: bool = False
    index: int | None = None
    appends: bool = False
    takes: bool = False
    counts: bool = False


def is_list(tensor: Tensor) -> bool:
    return tensor.dtype == "variant"


def made(
    node: Node,
    effect: ListEffect,
    operands: Sequence[tuple[Most, Held]],
    nbytes: Sequence[int],
) -> Held:
    """Return what the list made by a node holds; `nbytes`: bytes of the operands."""
    lists = [
        held for tensor, (_, held) in zip(node.inputs, operands, strict=True) if is_list(tensor)
    ]
    if effect.anew:
        return _sum(lists)
    growth, item, tops = _added(node, effect, operands, nbytes)
    first = replace(EMPTY, length=0, top=0)
    if node.inputs and is_list(node.inputs[0]) and 0 not in effect.keeps:
        first = operands[0][1]
    length = None if effect.appends or effect.pieces else first.length
    if effect.rows and not effect.appends:
        dims = operands[effect.keeps[-1]][0].dims
        length = dims[0] if dims else None
    most, reserved = first.most, first.reserved or effect.reserves
    if effect.size is not None:
        most = operands[effect.size][0].top
        length = most if effect.reserves else 0
    if effect.resized:
        length = None
        top = None if effect.index is None else operands[effect.index][0].top
        most = None if top is None or most is None else max(most, top + 1)
        reserved = True
    return Held(
        growth=growth,
        total=first.total + growth,
        added=first.added + growth,
        derived=first.derived,
        most=most,
        reserved=reserved,
        item=max(first.item, item),
        length=length,
        top=highest([first.top, *tops]),
    )


def _sum(lists: Sequence[Held]) -> Held:
    """Return what the sum of lists holds; all lists have the same number of tensors."""
    total = max((one.total for one in lists), default=0)
    lengths = [one.length for one in lists if one.length is not None]
    most = [one.most for one in lists if one.most is not None]
    # More than two lists are added one by one: each sum is alive together with the previous sum.
    return Held(
        growth=2 * total if len(lists) > 2 else total,
        total=total,
        added=max((one.added for one in lists), default=0),
        derived=any(one.derived for one in lists),
        most=min(most, default=None),
        reserved=any(one.reserved for one in lists),
        item=max((one.item for one in lists), default=0),
        length=min(lengths, default=None),
    )


def _added(
    node: Node,
    effect: ListEffect,
    operands: Sequence[tuple[Most, Held]],
    nbytes: Sequence[int],
) -> tuple[int, int, list[int | None]]:
    """Return a list's growth, the bytes of its largest new item, and bounds of new integers."""
    growth = item = 0
    tops: list[int | None] = []
    for position in effect.keeps:
        growth += nbytes[position] + operands[position][1].total + ITEM_BYTES
        row = _row_bytes(node.inputs[position], operands[position][0])
        if row is None or effect.pieces or not effect.rows:
            row = nbytes[position]
        item = max(item, row)
        tops.append(_top(node.inputs[position], *operands[position]))
    if effect.rows and effect.keeps:
        dims = operands[effect.keeps[-1]][0].dims
        growth += (max((dims[0] or 1) - 1, 0) if dims else 0) * ITEM_BYTES
    return growth, item, tops


def _top(tensor: Tensor, most: Most, held: Held) -> int | None:
    if is_list(tensor):
        return held.top
    return most.top if "int" in tensor.dtype else 0


def _row_bytes(tensor: Tensor, most: Most) -> int | None:
    """Return an upper bound of the bytes of one row of a tensor."""
    if not most.dims or None in most.dims:
        return None
    return math.prod(one or 0 for one in most.dims[1:]) * item_bytes(tensor.dtype)


def read(effect: ListEffect | None, held: Held, tensor: Tensor) -> Most:
    """Return bounds of a tensor that a node reads from a list."""
    if effect is not None and effect.counts:
        return Most((), 1, None if held.length is None else (held.length,))
    return taken(held, tensor) if effect is not None and effect.takes else stacked(held, tensor)


def taken(held: Held, tensor: Tensor) -> Most:
    """Return bounds of a tensor taken from a list."""
    value = None if held.top is None or "int" not in tensor.dtype else (held.top,)
    if held.reserved and not held.item:
        return Most(value=value)  # zeros, whose size another list determines
    return Most(None, held.item // max(1, item_bytes(tensor.dtype)), value)


def stacked(held: Held, tensor: Tensor) -> Most:
    """Return bounds of a tensor stacked from the tensors in a list.

    TensorFlow fills places of the list that were not written with zeros.
    """
    width = max(1, item_bytes(tensor.dtype))
    size = held.total // width
    if not held.reserved:
        return Most(None, size)
    rest = tensor.shape[1:] if tensor.shape else (None,)
    item = held.item // width
    if None not in rest:
        item = math.prod(one for one in rest if one is not None)
    elif not item:
        return Most()  # zeros, whose size another list determines
    count = held.most if held.length is None else held.length
    return Most() if count is None else Most(None, max(size, count * item))


def after_loop(old: Held, kept: Held, iterations: int | None) -> Held:
    """Return what a list holds after a While; a list that each iteration makes anew counts twice.

    `old`: what it held before the loop. `kept`: what it holds after one iteration.
    """
    times = [one for one in (iterations, kept.most) if one is not None]
    growth = kept.added * min(times, default=UNKNOWN_ITERATIONS)
    base = old.total if not kept.total else max(old.total, kept.total - kept.added)
    if not kept.derived:
        growth += 2 * kept.total
    return Held(
        growth=growth + max(0, base - old.total),
        total=base + growth,
        added=old.added + growth,
        derived=old.derived,
        most=kept.most if kept is not EMPTY else old.most,
        reserved=old.reserved or kept.reserved,
        item=max(old.item, kept.item),
        length=old.length if kept is EMPTY else kept.length,
        top=old.top if kept is EMPTY else kept.top,
    )


def either(branches: Sequence[Held], before: int) -> Held:
    """Return what a list from one of several branches holds; `before`: bytes of their operands."""
    total = max(one.total for one in branches)
    return Held(
        growth=total,
        total=before + total,
        added=max(one.added for one in branches),
        derived=any(one.derived for one in branches),
        reserved=any(one.reserved for one in branches),
        item=max(one.item for one in branches),
        length=highest([one.length for one in branches]),
        top=highest([one.top for one in branches]),
    )
