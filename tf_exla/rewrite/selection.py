"""Selection: elements of a sorted tensor, such as its median, are found without sorting it.

A median of all pairs of distances is a common bandwidth of a kernel. Sorting takes several copies
of the distances, and 170 ns per element in TensorFlow, 270 in XLA (2.25 million, float64, 2 cores).
A radix select makes a few passes over the elements instead. It uses that floats are ordered as the
integers with the same bits (after a change for negative numbers). Each pass counts how often each
value of the next 11 bits occurs among the elements that agree in the bits before, which takes 5 to
15 ns per element. The counts are an ordinary sum over the elements, so a pass is split like a sum,
and the elements need not exist together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tf_exla.ir.graph import Array, Node, Tensor
from tf_exla.ir.refusal import Refusal
from tf_exla.ir.slicing import strided_index
from tf_exla.ir.static_integers import static_integer
from tf_exla.model.settings import SETTINGS
from tf_exla.rewrite.algebra import is_float, reshape
from tf_exla.rewrite.context import RewriteContext
from tf_exla.rewrite.rewrite import Proposals, Rewrite, Together
from tf_exla.vocabulary.radix import first_prefix, key_dtype, passes

FAMILY = "selection"
READERS = frozenset({"slice", "strided_slice", "take"})


@dataclass(frozen=True)
class _Sorted:
    """A sort of all elements of `x`; `values`: its result. `falling`: the largest comes first."""

    values: Tensor
    x: Tensor
    falling: bool


@dataclass(frozen=True)
class _Pick:
    """A node that reads some sorted elements.

    `places`: their positions, an array or a computed tensor. `negated`: it reads the negative of
    the sorted tensor.
    """

    node: Node
    places: Array | Tensor
    negated: bool

    @property
    def count(self) -> int:
        return self.places.size


def order_statistics(site: RewriteContext, node: Node) -> Proposals:
    """sort(x)[i] = the i-th smallest element of x, which a radix select finds"""
    found = _sorted(site, node.inputs[0])
    if found is None:
        return
    if found.x.nbytes <= SETTINGS.worth_bytes:
        yield Refusal("so few elements are sorted faster")
        return
    picks = list(_picks(site, found.values, found.values.size))
    if any(pick is None for pick in picks):
        yield Refusal("the sorted tensor is read elsewhere, too")
        return
    known = [pick for pick in picks if pick is not None]
    if site.position[known[-1].node] > site.position[node]:
        return  # the proposal for all readers is made at the last one
    if sum(pick.count for pick in known) > SETTINGS.selected:
        yield Refusal(f"more than {SETTINGS.selected} elements are read")
        return
    yield _selected(site, found, known)


def _sorted(site: RewriteContext, tensor: Tensor) -> _Sorted | None:
    """Return the sort of which a tensor, or its negative, is the result; None if there is none."""
    negative = site.maker(tensor, "negative")
    values = tensor if negative is None else negative.inputs[0]
    node = site.maker(values, "sort", "top_k")
    if node is None or values is not node.outputs[0] or not values.is_static:
        return None
    if len(values.dims) != 1:
        return None
    x = node.inputs[0]
    if not is_float(x):
        return None
    if node.op == "top_k" and (
        not node.attrs.get("sorted", True)
        or site.uses(node.outputs[1])
        or SETTINGS.selected_part * values.size < x.size
    ):
        return None
    if x.size > np.iinfo(np.int32).max:
        return None  # counts are int32
    while (shaped := site.maker(x, "reshape")) is not None:
        x = shaped.inputs[0]
    return _Sorted(values, x, node.op == "top_k")


def _picks(
    site: RewriteContext, values: Tensor, size: int, negated: bool = False
) -> Iterator[_Pick | None]:
    """Yield the readers of a sorted tensor, in order; None for each that reads it differently."""
    if values in site.outputs:
        yield None
    found: list[_Pick | None] = []
    for reader, position in site.readers.get(values, ()):
        if reader.op == "negative" and not negated and not reader.stateful:
            found += _picks(site, reader.output, size, negated=True)
            continue
        places = _places(site, reader, size) if position == 0 and reader.op in READERS else None
        found.append(None if places is None else _Pick(reader, places, negated))
    yield from sorted(found, key=lambda one: (0,) if one is None else site.position[one.node])


def _places(site: RewriteContext, node: Node, size: int) -> Array | Tensor | None:
    """Return the positions of the elements that a node reads; None if they may be out of range."""
    if node.stateful or not node.output.is_static or not node.output.size:
        return None
    if node.op == "take":
        places = node.inputs[1]
        if static_integer(node.inputs[2]) not in (0, -1) or node.attrs.get("batch_dims", 0):
            return None
        if places.value is None:
            return places if _is_below(site, places, size) else None
        known = np.asarray(places.value)
    else:
        parts = [tensor.value for tensor in node.inputs[1:]]
        if any(part is None or part.size != 1 for part in parts):
            return None
        numbers = [(int(np.ravel(part)[0]),) for part in parts if part is not None]
        if node.op == "slice":
            known = np.arange(size)[numbers[0][0] :][: node.output.size]
        else:
            known = np.arange(size)[strided_index(node, *numbers)]
        if known.size != node.output.size:
            return None
    return known if all(0 <= place < size for place in np.ravel(known).tolist()) else None


def _is_below(site: RewriteContext, places: Tensor, size: int) -> bool:
    """Return whether computed positions are certain to be below `size`, since they are clamped."""
    bounds = {"maximum": False, "minimum": False}
    while (node := site.maker(places, *bounds)) is not None:
        numbers = [static_integer(tensor) for tensor in node.inputs]
        number = next((one for one in numbers if one is not None), -1)
        if not 0 <= number < size:
            return False
        bounds[node.op] = True
        places = node.inputs[numbers.index(None)] if None in numbers else node.inputs[0]
    return all(bounds.values())


def _selected(site: RewriteContext, found: _Sorted, picks: Sequence[_Pick]) -> Together:
    x = found.x
    state = _first_state(site, found, picks)
    for shift, bits in passes(x.dtype):
        counts = site.emit("radix_counts", x, state, shift=shift, bits=bits)
        state = site.emit("radix_step", counts, state, shift=shift)
    values = site.emit("radix_values", state, dtype=x.dtype)
    stands: dict[Node, Tensor] = {}
    start = 0
    for pick in picks:
        own = np.arange(start, start + pick.count).reshape(pick.node.output.dims)
        made = site.emit("take", values, site.const(own, "int32"), site.const(0, "int32"))
        start += pick.count
        stands[pick.node] = site.emit("negative", made) if pick.negated else made
    return Together(stands)


def _first_state(site: RewriteContext, found: _Sorted, picks: Sequence[_Pick]) -> Tensor:
    """Return the first prefixes, and the ranks of the elements among all, [2, R]."""
    dtype, size = key_dtype(found.x.dtype), found.x.size
    known = [pick.places for pick in picks if not isinstance(pick.places, Tensor)]
    if len(known) == len(picks):
        places = np.concatenate([np.ravel(one) for one in known]).astype(np.int64)
        places = size - 1 - places if found.falling else places
        return site.const([np.full_like(places, first_prefix(dtype)), places], dtype)
    rows = []
    for pick in picks:
        shape = (1, pick.count)
        if isinstance(pick.places, Tensor):
            row = reshape(site, pick.places, shape)
            row = row if row.dtype == dtype else site.emit("astype", row, dtype=dtype)
        else:
            row = site.const(pick.places.reshape(shape), dtype)
        last = site.const(size - 1, dtype)
        rows.append(site.emit("subtract", last, row) if found.falling else row)
    ranks = site.emit("concat", *rows, site.const(1, "int32")) if len(rows) > 1 else rows[0]
    prefixes = site.const(np.full(ranks.dims, first_prefix(dtype)), dtype)
    return site.emit("concat", prefixes, ranks, site.const(0, "int32"))


REWRITES = (Rewrite(FAMILY, order_statistics, READERS, normal=True),)
