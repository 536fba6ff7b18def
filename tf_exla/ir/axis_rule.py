"""Axis rules: how an op maps the axes of its operands to the axes of its results.

The notation is einsum-like, modelled on JAX's custom-partitioning rules and Shardy's op sharding
rules. One text describes one op:

    "... M M, ... M n -> ... M n"     triangular solve
    "i k, k j -> i j ; add k"         matrix product: partial products over k are added
    "i J, _ -> i"                     a reduction over an axis that is needed whole
    "b N, = -> (b N)"                 reshape that merges two axes

- a lower-case name may be split; an UPPER-case name is needed whole;
- `1`: an axis of size one that is broadcast, or that stays one;
- `...`: any leading axes, aligned from the right and broadcast as NumPy does;
- `_`: an operand that is not data (axes, a permutation), unchanged for a chunk;
- `=`: an operand that holds the shape of the (first) result, adapted to a chunk;
- `(b N)`: one axis that merges several, the first the outermost;
- an empty operand is a scalar;
- after `;`: how partial results are combined over split names that a result does not carry.
  A lower-case name that no result carries must have a combiner. A name that only some results
  carry may have a combiner for the others. Without it, it is not split where those are read.

Binding a text to a node's shapes makes an `AxisRule`, which holds the label and block of each axis
of each operand and result.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from tf_exla.ir.graph import Combine, Shape, SplitAxis

_TOKEN = re.compile(r"\([^)]*\)|\.\.\.|[A-Za-z]\w*|1")
_NAMES = "abcdefghijklmnopqrstuvwxyz"


class AxisRuleError(ValueError):
    """A rule's text is malformed, or does not fit the shapes it is bound to."""


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis that carries `label`, in steps of `block` elements per index of the label."""

    label: str
    block: int = 1

    @property
    def splittable(self) -> bool:
        return self.label[0].islower()


Axes = tuple[Axis | None, ...]
Slots = tuple[tuple[SplitAxis | None, ...], tuple[SplitAxis | None, ...]]
"""Where operands and results carry a label; None: one is whole, or does not carry it."""


@dataclass(frozen=True, slots=True)
class AxisRule:
    """A rule bound to shapes.

    `operands[k]`: the axes of operand k; None if it is not data. `results[k]`: the axes of result
    k. An axis of size one is None. `sizes`: the number of indices of each label. `combine`: how
    partial results over a label are combined. `shape_operands`: positions of operands that hold the
    result's shape.
    """

    text: str
    operands: tuple[Axes | None, ...]
    results: tuple[Axes, ...]
    sizes: Mapping[str, int]
    combine: Mapping[str, Combine]
    shape_operands: frozenset[int] = frozenset()
    _slots: dict[tuple[str, int], Slots] = field(default_factory=dict, init=False, compare=False)

    def slots(self, label: str, unit: int) -> Slots:
        """Return where operands and results carry `label`, in steps of `unit` of its elements."""
        known = self._slots.get((label, unit))
        if known is None:
            operands = (_slot(axes, label, unit) for axes in self.operands)
            results = (_slot(axes, label, unit) for axes in self.results)
            known = self._slots[label, unit] = tuple(operands), tuple(results)
        return known

    def operand_axis(self, position: int, label: str) -> tuple[int, Axis] | None:
        """Return the axis of an operand that carries `label`, with its position."""
        axes = self.operands[position]
        return None if axes is None else _find(axes, label)

    def result_axis(self, position: int, label: str) -> tuple[int, Axis] | None:
        """Return the axis of a result that carries `label`, with its position."""
        return _find(self.results[position], label)

    def labels(self) -> tuple[str, ...]:
        """Return all labels that may be split, in the order of `sizes`."""
        return tuple(label for label in self.sizes if label[0].islower())

    def __str__(self) -> str:
        return self.text


def _slot(axes: Axes | None, label: str, unit: int) -> SplitAxis | None:
    found = None if axes is None else _find(axes, label)
    return None if found is None else SplitAxis(found[0], found[1].block * unit)


def _find(axes: Axes, label: str) -> tuple[int, Axis] | None:
    for position, axis in enumerate(axes):
        if axis is not None and axis.label == label:
            return position, axis
    return None


@dataclass(frozen=True, slots=True)
class _Rule:
    """A parsed text: the names of the axes of each operand and result; None for no data."""

    operands: tuple[tuple[str, ...] | None, ...]
    results: tuple[tuple[str, ...], ...]
    combine: Mapping[str, Combine]
    shape_operands: frozenset[int]


_COMBINES = ("add", "mul", "max", "min", "and", "or", "argmax", "argmin", "top_k")


@lru_cache(maxsize=4096)
def _parse(text: str) -> _Rule:
    body, _, tail = text.partition(";")
    left, arrow, right = body.partition("->")
    if not arrow:
        raise AxisRuleError(f"no '->' in the rule {text!r}")
    combine: dict[str, Combine] = {}
    for part in filter(None, (piece.strip() for piece in tail.split(","))):
        how, *names = part.split()
        if how not in _COMBINES:
            raise AxisRuleError(f"unknown combiner {how!r} in the rule {text!r}")
        combine.update(dict.fromkeys(names, how))  # type: ignore[arg-type]
    operand_texts = [part.strip() for part in left.split(",")] if left.strip() else []
    if left.strip() == "" and "," not in left:
        operand_texts = []
    operands: list[tuple[str, ...] | None] = []
    shapes = set()
    for position, part in enumerate(operand_texts):
        if part in ("_", "="):
            operands.append(None)
            if part == "=":
                shapes.add(position)
        else:
            operands.append(_tokens(part, text))
    results = tuple(_tokens(part.strip(), text) for part in right.split(","))
    return _Rule(tuple(operands), results, combine, frozenset(shapes))


def _tokens(part: str, text: str) -> tuple[str, ...]:
    tokens = tuple(_TOKEN.findall(part))
    if "".join(tokens).replace(" ", "") != part.replace(" ", ""):
        raise AxisRuleError(f"cannot read {part!r} in the rule {text!r}")
    if tokens.count("...") > 1:
        raise AxisRuleError(f"more than one '...' in {part!r} of the rule {text!r}")
    return tokens


def bind(text: str, operands: Sequence[Shape | None], results: Sequence[Shape | None]) -> AxisRule:
    """Bind a rule's text to the shapes of a node's operands and results.

    Raises `AxisRuleError` if the text is malformed, if it does not fit, or if the shape of an
    operand or result with named axes is not static.
    """
    rule = _parse(text)
    if len(rule.operands) != len(operands) or len(rule.results) != len(results):
        raise AxisRuleError(
            f"the rule {text!r} has {len(rule.operands)} operands and {len(rule.results)} results, "
            f"the op {len(operands)} and {len(results)}"
        )
    pairs: list[tuple[tuple[str, ...], Shape]] = []
    for names, shape in (
        *zip(rule.operands, operands, strict=True),
        *zip(rule.results, results, strict=True),
    ):
        if names is not None:
            if shape is None or None in shape:
                raise AxisRuleError(f"the rule {text!r} meets the unknown shape {shape}")
            pairs.append((names, shape))
    ellipsis = _ellipsis_names(pairs, text)
    expanded = [(_expand(names, shape, ellipsis, text), shape) for names, shape in pairs]
    sizes = _label_sizes(expanded, text)
    bound = [
        tuple(_axis(token, size, sizes) for token, size in zip(names, shape, strict=True))
        for names, shape in expanded
    ]
    rest = iter(bound)
    operand_axes = tuple(None if names is None else next(rest) for names in rule.operands)
    result_axes = tuple(rest)
    carried = {axis.label for axes in result_axes for axis in axes if axis is not None}
    for label in sizes:
        if label[0].islower() and label not in carried and label not in rule.combine:
            raise AxisRuleError(f"no combiner for the reduced {label!r} in the rule {text!r}")
    return AxisRule(text, operand_axes, result_axes, sizes, rule.combine, rule.shape_operands)


def _ellipsis_names(pairs: Sequence[tuple[tuple[str, ...], Shape]], text: str) -> tuple[str, ...]:
    """Return unused names for the axes that `...` stands for, the innermost last."""
    rank = max((len(shape) - len(names) + 1 for names, shape in pairs if "..." in names), default=0)
    used = {char for names, _ in pairs for token in names for char in token.lower()}
    free = [name for name in _NAMES if name not in used]
    if rank > len(free):
        raise AxisRuleError(f"too many axes for the rule {text!r}")
    return tuple(free[:rank])


def _expand(
    names: tuple[str, ...], shape: Shape, ellipsis: tuple[str, ...], text: str
) -> tuple[str, ...]:
    if "..." in names:
        at = names.index("...")
        count = len(shape) - len(names) + 1
        names = (
            names[:at] + (ellipsis[len(ellipsis) - count :] if count > 0 else ()) + names[at + 1 :]
        )
    if len(names) != len(shape):
        raise AxisRuleError(f"the rule {text!r} does not fit the shape {shape}")
    return names


def _label_sizes(expanded: Sequence[tuple[tuple[str, ...], Shape]], text: str) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for names, shape in expanded:
        for token, size in zip(names, shape, strict=True):
            assert size is not None
            if token == "1" and size != 1:
                raise AxisRuleError(f"an axis of {size} is written 1 in the rule {text!r}")
            if token.startswith("(") or size == 1:
                continue
            if sizes.setdefault(token, size) != size:
                raise AxisRuleError(f"{token!r} is {sizes[token]} and {size} in the rule {text!r}")
    for names, shape in expanded:
        for token, size in zip(names, shape, strict=True):
            if token.startswith("("):
                merged = math.prod(sizes.get(name, 1) for name in token[1:-1].split())
                if merged != size:
                    raise AxisRuleError(f"{token} is {merged} and {size} in the rule {text!r}")
    return sizes


def _axis(token: str, size: int | None, sizes: Mapping[str, int]) -> Axis | None:
    if size == 1 or token == "1":
        return None
    if not token.startswith("("):
        return Axis(token)
    parts = [name for name in token[1:-1].split() if sizes.get(name, 1) != 1]
    if not parts:
        return None
    return Axis(parts[0], math.prod(sizes[name] for name in parts[1:]))
