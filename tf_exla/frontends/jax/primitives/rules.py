"""Axis rules of primitives, made from shapes and params."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tf_exla.ir.graph import Node, Shape
from tf_exla.ir.refusal import Refusal
from tf_exla.vocabulary.rules.builders import Letters, arrow, pointwise_list, rank, sizes

ADDED = frozenset({"float32", "float64", "complex64", "complex128", "int32", "int64"})
"""Dtypes in which partial sums may be added over chunks; shorter ones would round each time."""


def params_of(node: Node) -> Mapping[str, Any]:
    params = node.attrs["params"]
    assert isinstance(params, Mapping)
    return params


def with_params(node: Node, **changes: object) -> Mapping[str, object]:
    """Return the attributes of a node with changed params."""
    return {"params": {**params_of(node), **changes}}


def along(node: Node) -> str:
    """Work along the axis that a param names, which is needed whole in all operands and results."""
    params = params_of(node)
    axis = params["dimension" if "dimension" in params else "axis"]
    names = Letters().low(rank(node.inputs[0]))
    names[axis] = names[axis].upper()
    return arrow([names] * len(node.inputs), [names] * len(node.outputs))


def batched(trailing: int) -> Callable[[Node], str]:
    """Work on the last `trailing` axes of the first operand; the axes before are a batch."""

    def rule(node: Node) -> str:
        batch = rank(node.inputs[0]) - trailing
        letters = Letters()
        names = letters.low(batch)
        parts, results = (
            [names + letters.up(rank(tensor) - batch) for tensor in tensors]
            for tensors in (node.inputs, node.outputs)
        )
        return arrow(parts, results)

    return rule


def solve(node: Node) -> str:
    """Solve systems with one matrix; right-hand sides are independent."""
    return (
        "... M M, ... M n -> ... M n"
        if params_of(node)["left_side"]
        else "... M M, ... n M -> ... n M"
    )


def transform(node: Node) -> str:
    """Transform the last axes, whose sizes may change."""
    return batched(len(params_of(node)["fft_lengths"]))(node)


def reduced(node: Node) -> str:
    """Reduce axes that are needed whole; initial values, if any, are scalars."""
    params = params_of(node)
    gone = params["dimensions" if "dimensions" in params else "axes"]
    names = Letters().low(rank(node.inputs[0]))
    names = [name.upper() if axis in gone else name for axis, name in enumerate(names)]
    kept = [name for axis, name in enumerate(names) if axis not in gone]
    parts = [names if rank(tensor) else [] for tensor in node.inputs]
    return arrow(parts, [kept] * len(node.outputs))


def best(node: Node) -> str:
    """Select the best elements along an axis, which is shorter in the results."""
    axis = params_of(node)["reduction_dimension"] % rank(node.inputs[0])
    letters = Letters()
    names = letters.low(rank(node.inputs[0]))
    before, after = letters.up(2)
    made = [*names[:axis], after, *names[axis + 1 :]]
    return arrow([[*names[:axis], before, *names[axis + 1 :]]], [made] * len(node.outputs))


def bits(node: Node) -> str:
    """Reinterpret bits as another type of the same width; refuse other widths."""
    if rank(node.inputs[0]) == rank(node.output):
        return pointwise_list(node)
    raise Refusal("its numbers become numbers of another width")


def product(node: Node) -> str:
    """Multiply: sums over chunks of contracted axes are added; short floats need these whole."""
    (left, right), (batch_a, batch_b) = params_of(node)["dimension_numbers"]
    letters = Letters()
    a = letters.low(rank(node.inputs[0]))
    b = letters.low(rank(node.inputs[1]))
    b = [f"{name}0" for name in b]
    for one, other in (*zip(left, right, strict=True), *zip(batch_a, batch_b, strict=True)):
        b[other] = a[one]
    added = [a[axis] for axis in left]
    if node.output.dtype not in ADDED:
        a, b = ([x.upper() if x in added else x for x in names] for names in (a, b))
        added = []
    free_a = [name for k, name in enumerate(a) if k not in (*left, *batch_a)]
    free_b = [name for k, name in enumerate(b) if k not in (*right, *batch_b)]
    return arrow([a, b], [[a[axis] for axis in batch_a] + free_a + free_b], "add", added)


def multiplications(node: Node) -> int:
    """Return two operations for each element of the result and each index that is contracted."""
    (left, _), _ = params_of(node)["dimension_numbers"]
    dims = sizes(node.inputs[0])
    count = 2 * node.output.size
    for axis in left:
        count *= dims[axis]
    return count


def update_slice(node: Node) -> str:
    """Write a part into a tensor: axes that the part covers may be split."""
    whole, part = sizes(node.inputs[0]), sizes(node.inputs[1])
    first, second = _shared(whole, part)
    return arrow([first, second, *[""] * (len(node.inputs) - 2)], [first])


def slice_at(node: Node) -> str:
    """Read a part of a tensor: axes that the part covers may be split."""
    first, second = _shared(sizes(node.inputs[0]), sizes(node.output))
    return arrow([first, *[""] * (len(node.inputs) - 1)], [second])


def _shared(whole: Sequence[int], part: Sequence[int]) -> tuple[list[str], list[str]]:
    letters = Letters()
    pairs = [
        letters.low(1) * 2 if a == b else letters.up(2) for a, b in zip(whole, part, strict=True)
    ]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def slice_sizes(node: Node, shapes: Sequence[Shape]) -> Mapping[str, object]:
    return with_params(node, slice_sizes=tuple(shapes[0]))


def gather(node: Node) -> str:
    """Read windows: axes that they cover, and axes of the indices, may be split."""
    params = params_of(node)
    how, window = params["dimension_numbers"], params["slice_sizes"]
    dims = sizes(node.inputs[0])
    letters = Letters()
    places = [*letters.low(rank(node.inputs[1]) - 1), *letters.up(1)]
    operand: list[str] = []
    offsets: list[str] = []
    for axis, size in enumerate(dims):
        if axis in how.operand_batching_dims:
            at = how.start_indices_batching_dims[how.operand_batching_dims.index(axis)]
            operand.append(places[at])
            continue
        whole = window[axis] == size and axis not in how.start_index_map
        operand += letters.low(1) if whole else letters.up(1)
        if axis not in how.collapsed_slice_dims:
            offsets.append(operand[-1] if whole else letters.up(1)[0])
    outer, inner = iter(places), iter(offsets)
    result = [
        next(inner) if axis in how.offset_dims else next(outer) for axis in range(rank(node.output))
    ]
    return arrow([operand, places], [result])


def window_sizes(node: Node, shapes: Sequence[Shape]) -> Mapping[str, object]:
    """Return the attributes of a gather with the window sizes of a chunk."""
    params = params_of(node)
    how, window = params["dimension_numbers"], list(params["slice_sizes"])
    gone = {*how.collapsed_slice_dims, *how.operand_batching_dims}
    kept = [axis for axis in range(len(window)) if axis not in gone]
    for axis, at in zip(kept, how.offset_dims, strict=True):
        window[axis] = shapes[0][at]
    return with_params(node, slice_sizes=tuple(window))


def scatter(node: Node) -> str:
    """Write windows: batch axes and axes that the windows cover may be split, others may not."""
    how = params_of(node)["dimension_numbers"]
    dims = sizes(node.inputs[0])
    letters = Letters()
    places = letters.up(rank(node.inputs[1]))
    names: list[str] = []
    windows = iter(how.update_window_dims)
    updates = [""] * rank(node.inputs[2])
    for axis, size in enumerate(dims):
        if axis in how.operand_batching_dims:
            at = how.scatter_indices_batching_dims[how.operand_batching_dims.index(axis)]
            names += letters.low(1)
            places[at] = names[-1]
        elif axis in how.inserted_window_dims:
            names += letters.up(1)
        else:
            at = next(windows)
            scattered = axis in how.scatter_dims_to_operand_dims
            whole = sizes(node.inputs[2])[at] == size and not scattered
            names += letters.low(1) if whole else letters.up(1)
            updates[at] = names[-1] if whole else letters.up(1)[0]
    outer = iter(places)
    updates = [name or next(outer) for name in updates]
    return arrow([names, places, updates], [names])


def convolution(node: Node) -> str:
    """Convolve: images may be split without batch groups, channels without any groups."""
    params = params_of(node)
    how = params["dimension_numbers"]
    plain = params["feature_group_count"] == params["batch_group_count"] == 1
    letters = Letters()
    spatial = rank(node.output) - 2
    batch, made, read = letters.low(3)
    if params["batch_group_count"] != 1:
        batch = batch.upper()
    parts = []
    for spec, first, second in (
        (how.lhs_spec, batch, read if plain else "R"),
        (how.rhs_spec, made if plain else "F", read if plain else "G"),
        (how.out_spec, batch if batch.islower() else "H", made if plain else "I"),
    ):
        names = [""] * (spatial + 2)
        for axis, name in zip(spec, (first, second), strict=False):
            names[axis] = name
        parts.append([name or letters.up(1)[0] + "0" for name in names])
    adds = plain and node.output.dtype in ADDED
    if plain and not adds:
        parts = [[name.upper() if name == read else name for name in names] for names in parts]
    return arrow(parts[:2], parts[2:], "add", [read] if adds else [])


def filtered(node: Node) -> int:
    """Return two operations for each element of the result and each number of its filter."""
    how = params_of(node)["dimension_numbers"]
    filters = sizes(node.inputs[1])
    return 2 * node.output.size * (node.inputs[1].size // max(filters[int(how.rhs_spec[0])], 1))


def windows(node: Node) -> str:
    """Reduce or scatter windows: axes along which they are single elements may be split."""
    params = params_of(node)
    letters = Letters()
    parts: list[list[str]] = [[] for _ in (*node.inputs, *node.outputs)]
    for axis, size in enumerate(params["window_dimensions"]):
        single = (
            size == 1
            and params["window_strides"][axis] == 1
            and tuple(params["padding"][axis]) == (0, 0)
            and all(params.get(key, {axis: 1})[axis] == 1 for key in _DILATIONS)
        )
        names = letters.low(1) * len(parts) if single else letters.up(len(parts))
        for part, name in zip(parts, names, strict=True):
            part.append(name)
    return arrow(parts[: len(node.inputs)], parts[len(node.inputs) :])


_DILATIONS = ("base_dilation", "window_dilation")
