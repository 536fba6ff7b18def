"""Value numbering of tensor elements, as expressions with letters for indices.

`S[p, q]` of `S = exp(x xᵀ)` is `exp(sum_k x[p, k] x[q, k])`. Exchanging p and q does not change it.
So S is symmetric in exact arithmetic, for all x. A `Form` is a signed number. Two elements have the
same form only if they are the same function of the same tensors. Sums and products are multisets of
signed terms and of factors, so order and brackets do not matter. Transposes, reshapes and
broadcasts vanish because axes are named. A tensor whose producer is not understood is a leaf.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tf_exla.ir.axis_rule import Axes, AxisRule
from tf_exla.ir.graph import Array, Loop, Node, Tensor
from tf_exla.ir.refusal import Refusal
from tf_exla.ir.traits import COMMUTATIVE, EVEN, MATRIX_PRODUCTS, ODD
from tf_exla.model.settings import SETTINGS
from tf_exla.split.regions.def_use import DefUse

Labels = tuple[int | None, ...]
"""A letter, an integer, for each axis of a tensor; None for an axis of size one.

The negative number -1 - k stands for the constant index k, so `x[p, 0]` has the same form in every
slice that contains it.
"""

_BOUND = 1000

_SIGNED = frozenset(
    {"bfloat16", "float16", "half", "float32", "float64", "int16", "int32", "int64"}
)
_MOVES = frozenset(
    {
        "broadcast_to", "ensure_shape", "expand_dims", "full", "identity", "reshape", "snapshot",
        "squeeze", "strided_slice", "tile", "permute_dims",
    }
)  # fmt: skip
_PRODUCTS = MATRIX_PRODUCTS | {"einsum", "multiply"}
_SUMS = frozenset({"add", "add_n"})


class Form(NamedTuple):
    """`sign` times the expression with the number `key`."""

    sign: int
    key: int

    @property
    def negative(self) -> Form:
        return Form(-self.sign, self.key)


class ElementNumbering:
    """The numbering of the elements of one graph's tensors."""

    def __init__(self, index: DefUse) -> None:
        self.index = index
        self._known: dict[tuple[Tensor, Labels], Form] = {}
        self._keys: dict[Hashable, int] = {}
        self._free: dict[int, frozenset[int]] = {}  # the letters that an expression depends on
        self._terms: dict[int, tuple[Form, ...]] = {}  # of a sum
        self._factors: dict[int, tuple[int, ...]] = {}  # of a product without a bound letter
        self._parts: dict[int, tuple[int, tuple[int, ...], tuple[Form, ...]]] = {}  # of a concat
        self._one: set[int] = set()
        self._depth = 0

    def of(self, tensor: Tensor, labels: Sequence[int | None]) -> Form:
        """Return the form of the element of `tensor` at the indices `labels`."""
        sizes = tensor.dims
        named = tuple(
            None if size == 1 else label for size, label in zip(sizes, labels, strict=True)
        )
        known = self._known.get((tensor, named))
        if known is None:
            self._depth += 1
            known = self._find(tensor, named) or self._leaf(tensor, named)
            self._depth -= 1
            self._known[tensor, named] = known
        return known

    # Expressions.

    def _key(self, what: Hashable, free: frozenset[int]) -> int:
        key = self._keys.setdefault(what, len(self._keys))
        self._free[key] = free
        return key

    def _leaf(self, tensor: Tensor, labels: Labels) -> Form:
        free = frozenset(label for label in labels if label is not None)
        return Form(1, self._key(("leaf", tensor, labels), free))

    def _number(self, value: Array, dtype: str) -> Form:
        number: Any = value.reshape(())
        signed = dtype in _SIGNED
        negative = signed and bool(number < 0)
        size = np.asarray(-number if negative else number)
        key = self._key(("number", dtype, size.tobytes()), frozenset())
        if signed and size == 1:
            self._one.add(key)
        return Form(-1 if negative else 1, key)

    def _function(self, name: Hashable, operands: Sequence[Form]) -> Form:
        free = frozenset().union(*(self._free[form.key] for form in operands))
        return Form(1, self._key(("function", name, tuple(operands)), free))

    def _sum(self, forms: Sequence[Form]) -> Form:
        terms: list[Form] = []
        for form in forms:
            inner = self._terms.get(form.key)
            terms += [form] if inner is None else [Form(form.sign * s, k) for s, k in inner]
        if len(terms) == 1:
            return terms[0]
        plus = tuple(sorted(terms))
        minus = tuple(sorted(term.negative for term in terms))
        least = min(plus, minus)
        free = frozenset().union(*(self._free[term.key] for term in terms))
        key = self._key(("sum", least), free)
        self._terms[key] = least
        return Form(1 if plus == least else -1, key)

    def _product(self, forms: Sequence[Form], bound: tuple[tuple[int, int], ...] = ()) -> Form:
        """Multiply, and sum over the letters of `bound`: pairs of a letter and its extent."""
        sign = 1
        factors: list[int] = []
        for form in forms:
            sign *= form.sign
            factors += self._factors.get(form.key, (form.key,))
        for at, (letter, _) in enumerate(bound):
            parted = self._part_by_part(factors, letter)
            if parted is None:
                continue
            rest = bound[:at] + bound[at + 1 :]
            sums = [
                self._product(part, ((letter, size), *rest) if size > 1 else rest)
                for size, part in parted
            ]
            whole = self._sum(sums)
            return Form(sign * whole.sign, whole.key)
        factors = sorted(key for key in factors if key not in self._one) or factors[:1]
        if len(factors) == 1 and not bound:
            return Form(sign, factors[0])
        free = frozenset().union(*(self._free[key] for key in factors))
        key = self._key(("product", tuple(factors), bound), free - {letter for letter, _ in bound})
        if not bound:
            self._factors[key] = tuple(factors)
        return Form(sign, key)

    def _part_by_part(self, factors: list[int], letter: int) -> list[tuple[int, list[Form]]] | None:
        """Split a sum over a letter along which all factors that depend on it are concatenated."""
        along = [key for key in factors if letter in self._free[key]]
        parts = [self._parts.get(key) for key in along]
        if not along or any(one is None or one[0] != letter for one in parts):
            return None
        joined = [one for one in parts if one is not None]
        sizes = joined[0][1]
        if any(one[1] != sizes for one in joined):
            return None
        rest = [Form(1, key) for key in factors if letter not in self._free[key]]
        return [
            (size, [*rest, *(forms[at] for _, _, forms in joined)]) for at, size in enumerate(sizes)
        ]

    # Nodes.

    def _find(self, tensor: Tensor, labels: Labels) -> Form | None:
        if tensor.value is not None and tensor.size == 1:
            return self._number(tensor.value, tensor.dtype)
        node = self.index.producer.get(tensor)
        if node is None or self._depth > SETTINGS.expression_depth or len(node.outputs) != 1:
            return None
        if len(self._known) > SETTINGS.expressions * (
            len(self.index.graph.nodes) + SETTINGS.expression_depth
        ):
            return None
        if node.stateful or isinstance(node, Loop) or tensor.dtype.startswith("complex"):
            return None
        if node.op == "constant" or not all(one.is_static for one in node.inputs):
            return None
        if node.op == "concat":
            return self._concat(node, labels)
        if node.op == "slice":
            return self._slice(node, labels)
        rule = self.index.rule(node)
        if isinstance(rule, Refusal):
            return None
        names = _assign(rule, labels)
        return None if names is None else self._node(node, rule, names, labels)

    def _node(
        self, node: Node, rule: AxisRule, names: dict[str, int], labels: Labels
    ) -> Form | None:
        op = node.op
        if op in _MOVES:
            at = 1 if op == "full" else 0
            inner = _labels(rule.operands[at], names)
            return None if inner is None else self.of(node.inputs[at], inner)
        signed = node.output.dtype in _SIGNED
        if op == "sum" and signed:
            operands = [self._reduced(node, rule, names, labels, 0)]
        elif op in _PRODUCTS and signed:
            operands = [
                self._reduced(node, rule, names, labels, k) for k in range(len(node.inputs))
            ]
        else:
            operands = []
        if operands:
            forms = [one for one in operands if one is not None]
            bound = self._bound(rule, names, labels)
            return self._product(forms, bound) if len(forms) == len(operands) else None
        return self._pointwise(node, rule, names, signed)

    def _bound(
        self, rule: AxisRule, names: dict[str, int], labels: Labels
    ) -> tuple[tuple[int, int], ...]:
        """Name summed axes by the first free letters, so that names do not depend on the place."""
        reduced = [label for label in rule.sizes if label not in names]
        free = (letter for letter in itertools.count(_BOUND) if letter not in labels)
        return tuple((next(free), rule.sizes[label]) for label in reduced)

    def _reduced(
        self, node: Node, rule: AxisRule, names: dict[str, int], labels: Labels, position: int
    ) -> Form | None:
        if any(how != "add" for how in rule.combine.values()):
            return None
        reduced = [label for label in rule.sizes if label not in names]
        bound = self._bound(rule, names, labels)
        every = {
            **names,
            **{label: letter for label, (letter, _) in zip(reduced, bound, strict=True)},
        }
        inner = _labels(rule.operands[position], every)
        return None if inner is None else self.of(node.inputs[position], inner)

    def _pointwise(
        self, node: Node, rule: AxisRule, names: dict[str, int], signed: bool
    ) -> Form | None:
        """Return the form of an op that computes each element from one element of each operand."""
        if any(label not in names for label in rule.sizes):
            return None
        found: set[str] = set()
        forms: list[Form] = []
        for axes, tensor in zip(rule.operands, node.inputs, strict=True):
            inner = _labels(axes, names)
            if inner is None:
                return None
            found.update(axis.label for axis in axes or () if axis is not None)
            forms.append(self.of(tensor, inner))
        if not found.issuperset(names):
            return None  # the element depends on an index that no operand has
        op = node.op
        if signed and op in _SUMS:
            return self._sum(forms)
        if signed and op == "subtract":
            return self._sum([forms[0], forms[1].negative])
        if signed and op == "negative":
            return forms[0].negative
        if signed and op == "square":
            return self._product([forms[0], forms[0]])
        if signed and op == "squared_difference":
            difference = self._sum([forms[0], forms[1].negative])
            return self._product([difference, difference])
        if signed and op == "divide":
            return self._product([forms[0], self._function("1/", forms[1:])])
        if signed and op == "reciprocal":
            return self._function("1/", forms)
        if signed and op in EVEN:
            return self._function(op, [Form(1, forms[0].key)])
        if signed and op in ODD:
            made = self._function(op, [Form(1, forms[0].key)])
            return made if forms[0].sign > 0 else made.negative
        name = op, node.output.dtype, _attrs(node)  # casts differ in the dtype alone
        return self._function(name, sorted(forms) if op in COMMUTATIVE else forms)

    def _slice(self, node: Node, labels: Labels) -> Form | None:
        """Return the form of a slice's element if each axis is whole, or its index is constant."""
        begin = node.inputs[1].value
        if begin is None:
            return None
        found: list[int | None] = []
        for first, label, part, full in zip(
            begin.ravel().tolist(), labels, node.output.dims, node.inputs[0].dims, strict=True
        ):
            if part == full:
                found.append(label)
            elif part == 1:
                found.append(-1 - int(first))
            elif label is not None and label < 0:
                found.append(label - int(first))
            else:
                return None
        return self.of(node.inputs[0], found)

    def _concat(self, node: Node, labels: Labels) -> Form | None:
        where = node.inputs[-1].value
        if where is None:
            return None
        axis = int(where.reshape(())) % len(labels)
        letter = labels[axis]
        if letter is None or labels.count(letter) > 1:
            return None
        parts = node.inputs[:-1]
        sizes = tuple(part.dims[axis] for part in parts)
        forms = tuple(self.of(part, labels) for part in parts)
        free = frozenset(label for label in labels if label is not None)
        key = self._key(("concat", letter, sizes, forms), free)
        self._parts[key] = (letter, sizes, forms)
        return Form(1, key)


def _assign(rule: AxisRule, labels: Labels) -> dict[str, int] | None:
    """Map the labels of a rule's result to the letters of the tensor's axes."""
    names: dict[str, int] = {}
    for axis, label in zip(rule.results[0], labels, strict=True):
        if axis is None:
            continue
        if axis.block != 1 or not axis.splittable or label is None:
            return None
        if names.setdefault(axis.label, label) != label:
            return None
    return names


def _labels(axes: Axes | None, names: dict[str, int]) -> Labels | None:
    """Return the letters of an operand's axes; None if it is not read element by element."""
    if axes is None:
        return None
    found: list[int | None] = []
    for axis in axes:
        if axis is None:
            found.append(None)
        elif axis.block != 1 or not axis.splittable or axis.label not in names:
            return None
        else:
            found.append(names[axis.label])
    return tuple(found)


def _attrs(node: Node) -> Hashable:
    return tuple(
        (name, value.tobytes() if isinstance(value, np.ndarray) else repr(value))
        for name, value in sorted(node.attrs.items())
        if name != "_output_shapes"
    )
