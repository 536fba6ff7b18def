"""Bytes of lists of tensors, in which loops keep results of each iteration.

The gradient of a While reads the results of its iterations in reverse order. TensorFlow keeps these
tensors in lists, and also those that a loop writes to a `TensorArray`. The tensor of a list is only
a handle; this module computes the bytes behind it. `model/sizes.py` follows the lists of a program.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tf_exla.ir.bounds import Most, highest
from tf_exla.ir.graph import Node, Tensor, item_bytes

UNKNOWN_ITERATIONS = 1000
"""Iterations that are counted for a loop whose number of iterations is unknown.

If such a loop keeps many bytes in lists, `model/unbounded.py` reports it.
"""
ITEM_BYTES = 320
"""Bytes that a list keeps for each tensor in addition to its elements: its buffer, its entry, and
what malloc adds. Measured: up to 290 for 50,000 to 200,000 tensors of 16 to 1,200 bytes."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a list holds.

    `total`: its bytes, of which the node that made it added `growth`. `derived`: whether it was
    made from a list that is an input of the graph; `added`: the bytes that were added since.
    `most`: the number of tensors that it has room for. `reserved`: some of its items may not have
    been written. `item`: the bytes of the largest tensor. `length`: an upper bound of the number of
    tensors; `top`: one of the integers in them; None if unknown. Gradients of loops read lengths
    and integers from lists.
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
"""For a handle that is no list, such as an optional: nothing bounds what is read from it."""


@dataclass(frozen=True, slots=True)
class ListEffect:
    """The effect of a node on the list in its result.

    `keeps`: positions of operands that the list keeps alive. `rows`: it has one tensor for each row
    of the last of them; `pieces`: one tensor for several rows. `anew`: its tensors are new, as
    large as those of the operands, which are lists. `size`: the operand with the number of tensors
    that it has room for, -1 for any. `reserves`: all its items exist from the start. `resized`: it
    may have been enlarged to write at the operand `index`. `appends`: tensors are appended.
    `takes`: the node's result is a tensor of the list. `counts`: it is the number of tensors.
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
    """Return what the list that a node makes holds.

    `operands`: for each operand, its bounds, and what it holds if it is a list. `nbytes`: bytes of
    the operands.
    """
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
        return Most(value=value)  # an unwritten item is zeros, with the shape of another item
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
        return Most()  # unwritten items are zeros, with the shape of other items
    count = held.most if held.length is None else held.length
    return Most() if count is None else Most(None, max(size, count * item))


def after_loop(old: Held, kept: Held, iterations: int | None) -> Held:
    """Return what a list that is a variable of a While holds after it.

    `old`: what it held before the loop. `kept`: what it holds after one iteration. If each
    iteration makes a new list, the old and the new one are alive together, so it counts twice.
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
    """Return what a list that a choice returns holds.

    `branches`: what the list of each branch holds. `before`: bytes of lists among the operands.
    """
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
