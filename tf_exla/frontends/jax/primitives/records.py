"""Records of primitives that are no op of the vocabulary: `lax.<primitive>` nodes.

A primitive without a record is never split.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tf_exla.ir.graph import Node, Shape
from tf_exla.vocabulary.meaning import Meaning
from tf_exla.vocabulary.rebuild import Rebuild
from tf_exla.vocabulary.rules.builders import Letters, arrow, rank, sizes, words


def _many(record: Meaning, names: str) -> Mapping[str, Meaning]:
    return {f"lax.{name}": record for name in words(names)}


def _update_slice(node: Node) -> str:
    """Write a part into a tensor: axes that the part has whole may be split."""
    whole, part = sizes(node.inputs[0]), sizes(node.inputs[1])
    letters = Letters()
    names = letters.low(len(whole))
    parts = letters.low(len(whole))
    same = [a == b for a, b in zip(whole, part, strict=True)]
    first = [name if one else name.upper() for name, one in zip(names, same, strict=True)]
    second = [
        name if one else f"{other.upper()}0"
        for name, other, one in zip(names, parts, same, strict=True)
    ]
    return arrow([first, second, *[""] * (len(node.inputs) - 2)], [first])


def _slice_at(node: Node) -> str:
    """Read a part of a tensor: axes that the part has whole may be split."""
    whole, part = sizes(node.inputs[0]), sizes(node.output)
    letters = Letters()
    pairs = [
        letters.low(1) * 2 if a == b else letters.up(2) for a, b in zip(whole, part, strict=True)
    ]
    first, second = ([pair[k] for pair in pairs] for k in (0, 1))
    return arrow([first, *[""] * (len(node.inputs) - 1)], [second])


def _params(node: Node, **changes: object) -> Mapping[str, object]:
    """Return the attributes of a node whose params change."""
    params = node.attrs["params"]
    assert isinstance(params, Mapping)
    return {"params": {**params, **changes}}


def _slice_sizes(node: Node, shapes: Sequence[Shape]) -> Mapping[str, object]:
    return _params(node, slice_sizes=tuple(shapes[0]))


def _along(node: Node) -> str:
    """Need the axis that a param names whole; all operands and results have it."""
    params = node.attrs["params"]
    assert isinstance(params, Mapping)
    axis = params["dimension" if "dimension" in params else "axis"]
    names = Letters().low(rank(node.inputs[0]))
    names[axis] = names[axis].upper()
    return arrow([names] * len(node.inputs), [names] * len(node.outputs))


def _pointwise(node: Node) -> str:
    return arrow(["..."] * len(node.inputs), ["..."])


_POINTWISE = Meaning(_pointwise)

RECORDS: Mapping[str, Meaning] = {
    **_many(_POINTWISE, """
        clamp conj convert_element_type imag integer_pow is_finite nextafter not population_count
        real reduce_precision rem round select_n sign"""),
    **_many(Meaning(_pointwise, flops=4), "cbrt div pow"),
    **_many(Meaning(_pointwise, flops=16), "acos acosh asin asinh atan atan2 atanh cosh exp2 sinh"),
    **_many(Meaning(_along, flops=16, work="serial"), "cumlogsumexp cummax cummin sort"),
    "lax.dynamic_slice": Meaning(_slice_at, flops=0, rebuild=Rebuild(_slice_sizes)),
    "lax.dynamic_update_slice": Meaning(_update_slice, flops=0),
}  # fmt: skip
"""By the op of the node."""
