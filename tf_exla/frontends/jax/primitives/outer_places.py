"""Gathers and scatters at `x[i[:, None], j]`, as by `jnp.ix_`, written as two steps.

As primitives, they need a matrix whole. Coordinates that vary along different axes of the indices
are independent of each other. So one step reads the rows, and the other one reads columns of these;
each can be split. The gradient first adds to columns, then to rows.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tf_exla.frontends.jax.jaxprs.inlining import apply
from tf_exla.frontends.jax.jaxprs.writer import Call, Like, Writer
from tf_exla.frontends.jax.primitives.own_rows import FIELDS, coordinate, parts_of
from tf_exla.ir.graph import Tensor

Axis = tuple[str, int]
"""An axis of the operand ("x") or of the indices ("i"), by its number there."""


@dataclass(frozen=True)
class _Steps:
    """The two steps of a gather; those of a scatter are the same in reverse order.

    The first step reads `axis` of the operand at the indices `first`. These have the axes `own` of
    the original indices, which replace `axis` in its result. The second step reads the axes
    `others` of the operand at the indices `second`, which have the axes `left` of the original
    indices. `rank`: that of the operand.
    """

    axis: int
    own: list[int]
    first: Tensor
    others: list[int]
    left: list[int]
    second: Tensor
    rank: int

    @property
    def between(self) -> list[Axis]:
        """The axes after the first step."""
        made: list[Axis] = [("x", k) for k in range(self.rank)]
        made[self.axis : self.axis + 1] = [("i", k) for k in self.own]
        return made

    @property
    def addressed(self) -> list[int]:
        """The positions of the axes `others` among those after the first step."""
        return [self.between.index(("x", axis)) for axis in self.others]

    def order(self, windows: Sequence[int], rank: int) -> list[int]:
        """Return, for each axis of the gather's result, its position after the second step.

        `windows`: the axes of the result that are axes of the operand. `rank`: that of the result.
        """
        read = {self.axis, *self.others}
        kept: Iterator[Axis] = (("x", k) for k in range(self.rank) if k not in read)
        places: Iterator[Axis] = (("i", k) for k in range(rank))
        wanted = [next(kept) if axis in windows else next(places) for axis in range(rank)]
        after = [one for k, one in enumerate(self.between) if k not in self.addressed]
        return [[*(("i", k) for k in self.left), *after].index(one) for one in wanted]


def outer_gather(w: Writer, call: Call) -> Sequence[Tensor] | None:
    """Write a gather as reads of rows and then of columns; None unless these are independent."""
    steps = _steps(w, call)
    if steps is None:
        return None
    x, how = call.inputs[0], call.params["dimension_numbers"]
    axis, sizes = steps.axis, list(call.params["slice_sizes"])
    places = steps.first.dims[:-1]
    shape = [*x.dims[:axis], *places, *x.dims[axis + 1 :]]
    whole = [*x.dims[:axis], 1, *x.dims[axis + 1 :]]
    rows = _gathered(w, call, x, steps.first, shape, [axis], whole, at=axis)
    sizes[axis : axis + 1] = places
    shape = [n for k, n in enumerate(sizes) if k not in steps.addressed]
    shape = [*steps.second.dims[:-1], *shape]
    made = _gathered(w, call, rows, steps.second, shape, steps.addressed, sizes)
    return [w.transpose(made, steps.order(how.offset_dims, len(shape)))]


def outer_scatter_add(w: Writer, call: Call) -> Sequence[Tensor] | None:
    """Write a scatter as sums into columns, then into rows; None unless these are independent."""
    steps = _steps(w, call)
    if steps is None:
        return None
    x, _, updates = call.inputs
    windows = call.params["dimension_numbers"].update_window_dims
    order = steps.order(windows, len(updates.dims))
    updates = w.transpose(updates, [order.index(k) for k in range(len(order))])
    axis = steps.axis
    shape = [*x.dims[:axis], *steps.first.dims[:-1], *x.dims[axis + 1 :]]
    zeros = w.full(shape, 0, x.dtype)
    rows = _added(w, call, [zeros, steps.second, updates], steps.addressed)
    return [_added(w, call, [x, steps.first, rows], [axis], at=axis)]


# Many parameters: those of a gather.
def _gathered(
    w: Writer,
    call: Call,
    x: Tensor,
    places: Tensor,
    shape: Sequence[int],
    axes: Sequence[int],
    sizes: Sequence[int],
    at: int = 0,
) -> Tensor:
    """Write a gather in whose result the axes of the indices begin at axis `at`."""
    return _step(w, call, [x, places], shape, axes, at, {"slice_sizes": tuple(sizes)})


def _added(
    w: Writer, call: Call, inputs: Sequence[Tensor], axes: Sequence[int], at: int = 0
) -> Tensor:
    """Write a scatter in whose updates the axes of the indices begin at axis `at`."""
    return _step(w, call, inputs, inputs[0].dims, axes, at, {})


# Many parameters: as above.
def _step(
    w: Writer,
    call: Call,
    inputs: Sequence[Tensor],
    shape: Sequence[int],
    axes: Sequence[int],
    at: int,
    params: Mapping[str, Any],
) -> Tensor:
    scatters = len(inputs) > 2
    addressed, dropped, _ = FIELDS["scatter" if scatters else "gather"]
    windows = "update_window_dims" if scatters else "offset_dims"
    slices, count = inputs[2].dims if scatters else shape, len(inputs[1].dims) - 1
    names = {
        addressed: tuple(axes),
        dropped: tuple(sorted(axes)),
        windows: tuple(k for k in range(len(slices)) if not at <= k < at + count),
    }
    params = {
        **call.params,
        **params,
        "dimension_numbers": call.params["dimension_numbers"]._replace(**names),
        "indices_are_sorted": False,
        "unique_indices": False,
    }
    aval = Like(Tensor(tuple(shape), inputs[0].dtype))
    return apply(w, dataclasses.replace(call, inputs=inputs, params=params, avals=[aval]))[0]


def _steps(w: Writer, call: Call) -> _Steps | None:
    """Return the two steps of a gather or scatter; None if its coordinates depend on each other.

    The first step is for a coordinate that varies along other axes of the indices than all other
    coordinates. If there are several, it is the one that leaves the fewest elements, and so never
    more than the operand or the result has.
    """
    x, indices, *updates = call.inputs
    how = call.params["dimension_numbers"]
    addressed, dropped, batch = FIELDS["scatter" if updates else "gather"]
    axes = getattr(how, addressed)
    if len(axes) < 2 or getattr(how, batch) or set(axes) - set(getattr(how, dropped)):
        return None
    if 0 in indices.dims or 0 in x.dims:
        return None
    places = [_thin(w, indices, column) for column in range(len(axes))]
    known = [one for one in places if one is not None]
    if len(known) < len(places):
        return None
    varies = [[k for k, n in enumerate(one.dims) if n > 1] for one in known]
    columns = [
        c for c, own in enumerate(varies) if all(sum(k in v for v in varies) == 1 for k in own)
    ]
    if not columns:
        return None
    column = min(columns, key=lambda c: math.prod(known[c].dims) / x.dims[axes[c]])
    dims, own = indices.dims[:-1], varies[column]
    left = [k for k in range(len(dims)) if k not in own]
    others = [c for c in range(len(axes)) if c != column]
    thin = (w.reshape(known[c], [known[c].dims[k] for k in left]) for c in others)
    return _Steps(
        axes[column],
        own,
        w.reshape(known[column], [*(dims[k] for k in own), 1]),
        [axes[c] for c in others],
        left,
        _stacked(w, [w.broadcast(one, [dims[k] for k in left]) for one in thin]),
        len(x.dims),
    )


def _stacked(w: Writer, columns: Sequence[Tensor]) -> Tensor:
    apart = [w.insert(one, [len(one.dims)]) for one in columns]
    return apart[0] if len(apart) == 1 else w.op("concat", *apart, w.const(len(columns[0].dims)))


def _thin(w: Writer, indices: Tensor, column: int) -> Tensor | None:
    """Return one coordinate of all indices, with size one along axes along which it is constant.

    None if that is not known.
    """
    known = coordinate(w, indices, column)
    if known is not None:
        for axis in range(known.ndim):
            one = known.take([0], axis) if known.shape[axis] else known
            known = one if (known == one).all() else known
        return w.const(known, indices.dtype)
    for part, begin in parts_of(w, indices):
        if begin == column and part.dims[-1] == 1:
            return _unexpanded(w, part)
    return None


def _unexpanded(w: Writer, part: Tensor) -> Tensor:
    """Return indices of one coordinate without the axis of coordinates and before broadcasts."""
    rank = len(part.dims) - 1
    inner = w.bare(part)
    if len(inner.dims) != rank + 1 or inner.dims[-1] != 1:
        return w.reshape(part, part.dims[:-1])
    node = w.ancestor(inner, "expand_dims") or w.ancestor(inner, "reshape")
    before = None if node is None else node.inputs[0]
    if before is None or before.dims != inner.dims[:-1]:
        return w.reshape(inner, inner.dims[:-1])
    core = w.bare(before)
    return w.reshape(core, [*[1] * (rank - len(core.dims)), *core.dims])
