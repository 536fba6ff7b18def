"""Builders of axis rules: the text of a rule from a node's shapes and attributes."""

from __future__ import annotations

import itertools
import string
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from tf_exla.ir.graph import Array, Combine, Node, Tensor
from tf_exla.ir.refusal import Refusal

Rule = str | Callable[[Node], str]


def words(text: str) -> list[str]:
    """Split a text at its spaces."""
    return text.split()


class Letters:
    """Fresh axis names: those of `low()` may be split, those of `up()` are needed whole."""

    def __init__(self) -> None:
        self._low = _names(string.ascii_lowercase)
        self._up = _names(string.ascii_uppercase)

    def low(self, count: int) -> list[str]:
        return list(itertools.islice(self._low, count))

    def up(self, count: int) -> list[str]:
        return list(itertools.islice(self._up, count))


def _names(alphabet: str) -> Iterator[str]:
    for turn in itertools.count():
        for letter in alphabet:
            yield f"{letter}{turn}" if turn else letter


Part = Sequence[str] | str  # the names of one operand's axes, or "_", "=" or "..."


def arrow(
    operands: Sequence[Part],
    results: Sequence[Part],
    combine: Combine | None = None,
    reduced: Sequence[str] = (),
) -> str:
    """Write a rule: `arrow([["a", "b"], "_"], [["a"]], "add", ["b"])` is "a b, _ -> a ; add b"."""
    left = ", ".join(_part(part) for part in operands)
    if len(operands) == 1 and not left:
        left = "..."  # nothing written on the left would mean no operand
    right = ", ".join(_part(part) for part in results)
    text = f"{left} -> {right}".strip()
    return f"{text} ; {combine} {' '.join(reduced)}" if combine and reduced else text


def _part(part: Part) -> str:
    return part if isinstance(part, str) else " ".join(part)


def sizes(tensor: Tensor) -> tuple[int, ...]:
    """Return the static shape, or refuse."""
    if not tensor.is_static:
        raise Refusal(f"the shape of {tensor} is not known before the program runs")
    return tensor.dims


def rank(tensor: Tensor) -> int:
    """Return the number of axes, or refuse."""
    if tensor.shape is None:
        raise Refusal(f"the rank of {tensor} is not known before the program runs")
    return len(tensor.shape)


def static(node: Node, position: int, what: str) -> Array:
    """Return the static value of an operand, or refuse."""
    value = node.inputs[position].value
    if value is None:
        raise Refusal(f"{node.op} {node.name} does not know its {what} before the program runs")
    return value


def static_axes(node: Node, position: int, count: int, what: str = "axis") -> frozenset[int]:
    """Return the axes that an operand holds, counted from the front."""
    return frozenset(int(axis) % count for axis in np.ravel(static(node, position, what)))


def integer(node: Node, key: str, default: int) -> int:
    """Return an attribute that is an integer."""
    value = node.attrs.get(key, default)
    assert isinstance(value, int)
    return value


def text_attr(node: Node, key: str, default: str = "") -> str:
    """Return an attribute that is text."""
    value = node.attrs.get(key, default)
    return value.decode() if isinstance(value, bytes) else str(value)


def pointwise_list(node: Node) -> str:
    """Add any number of operands of one shape."""
    return arrow(["..."] * len(node.inputs), ["..."])


def each_to_its_own(node: Node) -> str:
    """Pass operand k on as result k; axes of different operands are independent."""
    letters = Letters()
    parts = [letters.low(rank(tensor)) for tensor in node.inputs]
    return arrow(parts, parts)


def whole(node: Node) -> str:
    """Need every operand and every result whole."""
    letters = Letters()
    return arrow(
        [letters.up(rank(tensor)) for tensor in node.inputs],
        [letters.up(rank(tensor)) for tensor in node.outputs],
    )


def made_whole(node: Node) -> str:
    """Make whole results from operands that are no data (a shape, a seed, a handle)."""
    letters = Letters()
    return arrow(["_"] * len(node.inputs), [letters.up(rank(tensor)) for tensor in node.outputs])


def random_rows(node: Node) -> str:
    """Draw the rows and columns whose numbers operands 0 and 1 hold; operand 2 holds the shape.

    If operand 1 is no list, all columns are drawn.
    """
    letters = Letters()
    row, column = letters.low(1), letters.low(rank(node.inputs[1]))
    rest = ["_"] * (len(node.inputs) - 3)
    drawn = row + column + letters.up(rank(node.output) - 1 - len(column))
    return arrow([row, column or "_", "=", *rest], [drawn])


def reduction(combine: Combine | None) -> Callable[[Node], str]:
    """Reduce the axes that operand 1 holds; without a combiner they are needed whole."""

    def rule(node: Node) -> str:
        data, count = node.inputs[0], rank(node.inputs[0])
        keep_dims = bool(node.attrs.get("keep_dims", False))
        if rank(node.outputs[0]) == 0:
            axes = frozenset(range(count))
        elif rank(node.outputs[0]) == count and not keep_dims:
            axes = frozenset()
        else:
            axes = static_axes(node, 1, rank(data), "axes")
        letters = Letters()
        names = letters.low(count) if combine else _upper(letters.low(count), axes)
        result = [
            "1" if axis in axes else name
            for axis, name in enumerate(names)
            if keep_dims or axis not in axes
        ]
        results = [result] * len(node.outputs)
        return arrow([names, "_"], results, combine, [names[axis] for axis in sorted(axes)])

    return rule


def _upper(names: Sequence[str], axes: frozenset[int]) -> list[str]:
    return [name.upper() if axis in axes else name for axis, name in enumerate(names)]


def along(position: int, keeps: bool, others: Sequence[Part] = ()) -> Callable[[Node], str]:
    """Need whole the axes that operand `position` holds.

    `keeps`: the result still has them (cumulative sums, reversal); else they are gone (argmax).
    `others`: the operands after the first one, "_" at `position`.
    """
    operands = others or ["_"]

    def rule(node: Node) -> str:
        count = rank(node.inputs[0])
        axes = static_axes(node, position, count)
        names = _upper(Letters().low(count), axes)
        kept = [name for axis, name in enumerate(names) if keeps or axis not in axes]
        return arrow([names, *operands], [kept])

    return rule


def list_rule(text: str, shape_at: int) -> Callable[[Node], str]:
    """Read or make a list; operand `shape_at` holds the shape of its tensors."""

    def rule(node: Node) -> str:
        static(node, shape_at, "element shape")
        return text

    return rule
