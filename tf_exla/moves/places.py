"""Ops that move elements: for each element of the result, axis by axis, its index in the operand.

A take is a move with indices that may be known only at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tf_exla.ir.graph import Node, Tensor
from tf_exla.ir.slicing import masks_of, strided_index

Places = npt.NDArray[np.int64]


class Move(NamedTuple):
    """A move of the elements of `data`; the result has the same axes in the same order.

    `places`: for each moved axis, the index in `data` of each element of the result along it. -1:
    the element is `fill`, or zero if that is None.
    """

    data: Tensor
    places: list[tuple[int, Places]]
    fill: Tensor | None = None


def moves_of(node: Node) -> Move | None:
    """Return how a node moves its operand; None if it does not, or if that is not known."""
    how = _MOVES.get(node.op)
    if how is None or not all(t.is_static for t in (*node.inputs, *node.outputs)):
        return None
    if not node.output.size:
        return None
    found = how(node)
    if found is None:
        return None
    places = [
        (axis, places)
        for axis, places in found.places
        if not np.array_equal(places, np.arange(found.data.dims[axis]))
    ]
    return found._replace(places=places) if places else None


def taken(node: Node) -> tuple[Tensor, int, Tensor] | None:
    """Return the operand, axis and indices of a take; None if `node` is not a take.

    Also None if there are more indices than elements of the axis, since moving would repeat work.
    """
    if node.op != "take" or not all(t.is_static for t in (*node.inputs, *node.outputs)):
        return None
    x, indices = node.inputs[:2]
    axes = _static(node, 2)
    if axes is None or node.attrs["batch_dims"] or not node.output.size:
        return None
    axis = axes[0] % len(x.dims)
    return (x, axis, indices) if indices.size <= x.dims[axis] else None


def runs(places: Places) -> Iterator[tuple[int, int, int]]:
    """Yield the runs of evenly spaced places: first, count, step."""
    steps = np.diff(places)
    changes = np.flatnonzero(np.diff(steps)) + 1  # where the step changes
    begin = 0
    while begin < len(places):
        end, step = len(places), 1
        if begin < len(steps):
            step = int(steps[begin])
            change = np.searchsorted(changes, begin, "right")
            if change < len(changes):
                end = int(changes[change]) + 1
        if end - begin == 2 and step not in (-1, 0, 1):  # more likely the ends of two runs
            step, end = 1, begin + 1
        yield int(places[begin]), end - begin, step if end - begin > 1 else 1
        begin = end


def _static(node: Node, position: int) -> list[int] | None:
    value = node.inputs[position].value
    return None if value is None else [int(one) for one in np.ravel(value)]


def _roll(node: Node) -> Move | None:
    x, shifts, axes = node.inputs[0], _static(node, 1), _static(node, 2)
    if shifts is None or axes is None:
        return None
    by: dict[int, int] = {}
    for shift, axis in zip(shifts, axes, strict=True):
        at = axis % len(x.dims)
        by[at] = by.get(at, 0) + shift
    return Move(x, [(at, (np.arange(x.dims[at]) - s) % x.dims[at]) for at, s in by.items()])


def _reverse(node: Node) -> Move | None:
    x, axes = node.inputs[0], _static(node, 1)
    if axes is None:
        return None
    rank = len(x.dims)
    return Move(x, [(at % rank, np.arange(x.dims[at % rank])[::-1]) for at in axes])


def _slice(node: Node) -> Move | None:
    x, begin = node.inputs[0], _static(node, 1)
    if begin is None:
        return None
    sizes = zip(begin, node.output.dims, strict=True)
    return Move(x, [(at, np.arange(b, b + size)) for at, (b, size) in enumerate(sizes)])


def _tile(node: Node) -> Move | None:
    x = node.inputs[0]
    pairs = zip(x.dims, node.output.dims, strict=True)
    return Move(x, [(at, np.arange(after) % n) for at, (n, after) in enumerate(pairs) if n > 1])


def _strided(node: Node, full: tuple[int, ...]) -> list[slice] | None:
    """Return the slices of a strided slice that keeps all axes; None if it does not."""
    spec = [_static(node, position) for position in (1, 2, 3)]
    masks, known = masks_of(node), [part for part in spec if part is not None]
    if len(known) < len(spec) or masks["new_axis"] or masks["shrink_axis"]:
        return None
    index = strided_index(node, *known)
    at = index.index(...) if ... in index else len(index)
    parts = [*index[:at], *index[at + 1 :]]
    return [*parts[:at], *[slice(None)] * (len(full) - len(parts)), *parts[at:]]


def _strided_slice(node: Node) -> Move | None:
    x = node.inputs[0]
    slices = _strided(node, x.dims)
    if slices is None:
        return None
    return Move(x, [(at, np.arange(x.dims[at])[one]) for at, one in enumerate(slices)])


def _strided_slice_grad(node: Node) -> Move | None:
    x, full = node.inputs[4], node.output.dims
    slices = _strided(node, full)
    if slices is None or len(x.dims) != len(full):
        return None
    places = []
    for at, one in enumerate(slices):
        back = np.full(full[at], -1)
        back[one] = np.arange(x.dims[at])
        places.append((at, back))
    return Move(x, places)


def _pad(node: Node) -> Move | None:
    x, paddings = node.inputs[0], node.inputs[1].value
    if paddings is None:
        return None
    places = []
    for at, (before, after) in enumerate(np.asarray(paddings, np.int64)):
        own = np.arange(x.dims[at])
        if node.op == "mirror_pad":
            mode = "reflect" if str(node.attrs.get("mode")) == "REFLECT" else "symmetric"
            places.append((at, np.pad(own, (before, after), mode)))  # type: ignore[call-overload]
        else:
            places.append((at, np.pad(own, (before, after), constant_values=-1)))
    return Move(x, places, node.inputs[2] if node.op == "pad_with" else None)


_MOVES: Mapping[str, Callable[[Node], Move | None]] = {
    "mirror_pad": _pad,
    "pad": _pad,
    "pad_with": _pad,
    "flip": _reverse,
    "roll": _roll,
    "slice": _slice,
    "strided_slice": _strided_slice,
    "strided_slice_grad": _strided_slice_grad,
    "tile": _tile,
}
