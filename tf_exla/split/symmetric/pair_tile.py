"""The graph that computes a tile of a pair region, rows i and columns j, each expression once."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tf_exla.ir.axis_rule import AxisRule
from tf_exla.ir.builder import make_node
from tf_exla.ir.graph import Graph, Node, Tensor, const
from tf_exla.ir.refusal import Refusal
from tf_exla.split.regions.def_use import DefUse
from tf_exla.split.symmetric.element_numbering import ElementNumbering, Form, Labels
from tf_exla.split.symmetric.pair_region import PairRegion

ROW, COLUMN = 1, 2
"""The letters of rows and columns."""

_OTHER = 10
_POINTWISE = re.compile(r"\.\.\.(, \.\.\.)* -> \.\.\.")
_FLIPS = {"matmul": ("transpose_a", "transpose_b"), "batch_matmul": ("adj_x", "adj_y")}


@dataclass(frozen=True)
class Source:
    """A use of a tensor from outside: sliced along axis `rows` or `columns`, or whole."""

    tensor: Tensor
    rows: int | None = None
    columns: int | None = None


@dataclass(frozen=True)
class Part:
    """A contraction's result for one tile.

    `axis` carries the chunk `letter`, rows or columns; both are None if it sums over both axes.
    """

    tensor: Tensor
    axis: int | None
    letter: int | None


@dataclass(frozen=True)
class _Made:
    tensor: Tensor
    labels: Labels  # the letters of its axes


class Tile:
    """A builder of the body that computes a tile of `rows` by `columns` elements.

    A tensor's *flip* is its tile of rows j and columns i.
    """

    def __init__(
        self, index: DefUse, region: PairRegion, forms: ElementNumbering, rows: int, columns: int
    ) -> None:
        self.index = index
        self.region = region
        self.forms = forms
        self.size = {ROW: rows, COLUMN: columns}
        self.nodes: list[Node] = []
        self.sources: dict[Source, Tensor] = {}
        self.members: dict[Node, None] = {}
        self._constants: dict[Hashable, Tensor] = {}
        self._totals: dict[tuple[Hashable, ...], Tensor] = {}
        self._made: dict[tuple[Form, tuple[int, ...], frozenset[int | None]], _Made] = {}
        self._moved: dict[tuple[Tensor, tuple[int, ...]], Tensor] = {}

    def graph(self, outputs: Sequence[Tensor]) -> Graph:
        return Graph(tuple(self.sources.values()), tuple(self.nodes), tuple(outputs))

    # Contractions.

    def contract(self, node: Node, flip: bool) -> Part:
        """Compute the part of a contraction from the tile (i, j) or, with `flip`, from (j, i)."""
        rule = self._rule(node)
        letters = self._letters(rule, node, flip)
        shape, axis, letter = self._result(rule, node, letters)
        if letter is None:
            key = node, *self._operands(node, rule, letters)
            if key not in self._totals:
                self._totals[key] = self._again(node, rule, letters, shape)
            return Part(self._totals[key], None, None)
        made = self._product(node, rule, letters)
        if made is None:
            made = self._sum(node, rule, letters, shape)
        if made is None:
            made = self._again(node, rule, letters, shape)
        return Part(made, axis, letter)

    def _operands(self, node: Node, rule: AxisRule, letters: dict[str, int]) -> list[Tensor]:
        """Return the tiles and stand-ins that a node reads, transposed or not."""
        found: list[Tensor] = []
        for k, tensor in enumerate(node.inputs):
            if tensor in self.region.axes:
                labels = self._labels(rule, k, tensor, letters)
                found.append(self._tile(tensor, labels).tensor)
            else:
                found.append(self._source(rule, k, tensor, letters))
        return found

    def _result(
        self, rule: AxisRule, node: Node, letters: dict[str, int]
    ) -> tuple[tuple[int, ...], int | None, int | None]:
        shape = list(node.output.dims)
        for name, letter in letters.items():
            hit = rule.result_axis(0, name)
            if hit is not None:
                shape[hit[0]] = self.size[letter]
                return tuple(shape), hit[0], letter
        return tuple(shape), None, None

    def _product(self, node: Node, rule: AxisRule, letters: dict[str, int]) -> Tensor | None:
        """Compute a product that reads transposed tiles by its op's transpose flags.

        None if the op has no such flags, or if no tile is transposed.
        """
        flags = _FLIPS.get(node.op)
        if flags is None:
            return None
        inputs: list[Tensor] = []
        attrs: dict[str, object] = {flag: bool(node.attrs.get(flag)) for flag in flags}
        lies = False
        for k, tensor in enumerate(node.inputs):
            if tensor not in self.region.axes:
                inputs.append(self._source(rule, k, tensor, letters))
                continue
            labels = self._labels(rule, k, tensor, letters)
            made = self._tile(tensor, labels)
            if made.labels == _exchanged(labels):
                lies = True
                attrs[flags[k]] = not attrs[flags[k]]
                inputs.append(made.tensor)
            else:  # in the right order, or with a batch axis exchanged
                inputs.append(self._lying(made, labels))
        return self._emit(node.op, inputs, attrs, node.name) if lies else None

    def _sum(
        self, node: Node, rule: AxisRule, letters: dict[str, int], shape: tuple[int, ...]
    ) -> Tensor | None:
        """Sum a transposed tile over its exchanged axes; None if that is not possible."""
        if node.op != "sum" or len(node.inputs) != 2 or node.inputs[1].value is None:
            return None
        tensor = node.inputs[0]
        labels = self._labels(rule, 0, tensor, letters)
        made = self._tile(tensor, labels)
        rank = len(labels)
        if made.labels == labels or self.region.axes[tensor] != (rank - 2, rank - 1):
            return None
        exchange = {rank - 2: rank - 1, rank - 1: rank - 2}
        axes = [int(axis) % rank for axis in node.inputs[1].value.ravel()]
        moved = np.asarray(sorted(exchange.get(axis, axis) for axis in axes), np.int32)
        keep = bool(node.attrs.get("keep_dims"))
        total = self._emit(
            "sum", [made.tensor, self._value(moved, "int32")], {"keep_dims": keep}, node.name
        )
        return self._reshaped(total, shape)

    # Tensors with both axes.

    def _tile(self, tensor: Tensor, labels: Labels) -> _Made:
        """Return a tensor's tile with the letters `labels`; the tile may be transposed."""
        # A tile with the same elements is reused, also if its rows and columns are exchanged.
        key = self.forms.of(tensor, labels), tensor.dims, frozenset(labels)
        if key not in self._made:
            node = self.index.producer[tensor]
            self.members[node] = None
            rule = self._rule(node)
            pair = self.region.axes[tensor]
            names = self.region.labels(rule, node)
            letters = {name: _letter(labels[at]) for name, at in zip(names, pair, strict=True)}
            if node.op == "permute_dims":
                self._tile(node.inputs[0], self._labels(rule, 0, node.inputs[0], letters))
            if key not in self._made:
                self._made[key] = self._make(node, rule, letters, labels)
        return self._made[key]

    def _make(self, node: Node, rule: AxisRule, letters: dict[str, int], labels: Labels) -> _Made:
        rank = len(labels)
        flipped = labels[-2:] == (COLUMN, ROW)
        if flipped and _POINTWISE.fullmatch(rule.text):
            return self._flipped_pointwise(node, rule, letters, labels)
        if flipped and node.op in _FLIPS and rank == len(node.inputs[0].dims):
            return self._flipped_product(node, rule, letters, labels)
        shape = list(node.output.dims)
        for at, label in enumerate(labels):
            if label in self.size:
                shape[at] = self.size[_letter(label)]
        return _Made(self._again(node, rule, letters, tuple(shape)), labels)

    def _flipped_pointwise(
        self, node: Node, rule: AxisRule, letters: dict[str, int], labels: Labels
    ) -> _Made:
        """Compute the transpose of a flip, so that its rows are i as in the other tiles."""
        operands: list[Tensor] = []
        for k, tensor in enumerate(node.inputs):
            if tensor in self.region.axes:
                own = self._labels(rule, k, tensor, letters)
                operands.append(self._lying(self._tile(tensor, own), _exchanged(own)))
                continue
            made = self._source(rule, k, tensor, letters)
            if made.size > 1:  # a row becomes a column
                sizes = (1, *made.dims)
                turned = (*made.dims[:-2], sizes[-1], sizes[-2])
                made = self._reshaped(made, turned)
            operands.append(made)
        shape = (*node.output.dims[:-2], self.size[ROW], self.size[COLUMN])
        return _Made(self._resized(node, operands, shape), _exchanged(labels))

    def _flipped_product(
        self, node: Node, rule: AxisRule, letters: dict[str, int], labels: Labels
    ) -> _Made:
        """Compute the transpose of a flip of a product: (a b)ᵀ = bᵀ aᵀ."""
        left, right = (
            self._source(rule, k, tensor, letters) for k, tensor in enumerate(node.inputs)
        )
        first, second = _FLIPS[node.op]
        attrs: dict[str, object] = {
            first: not node.attrs.get(second),
            second: not node.attrs.get(first),
        }
        return _Made(self._emit(node.op, [right, left], attrs, node.name), _exchanged(labels))

    def _again(
        self, node: Node, rule: AxisRule, letters: dict[str, int], shape: tuple[int, ...]
    ) -> Tensor:
        """Copy a node for tiles, transposed so that their axes are in the order that it expects."""
        operands: list[Tensor] = []
        for k, tensor in enumerate(node.inputs):
            if tensor in self.region.axes:
                labels = self._labels(rule, k, tensor, letters)
                operands.append(self._lying(self._tile(tensor, labels), labels))
            else:
                operands.append(self._source(rule, k, tensor, letters))
        return self._resized(node, operands, shape)

    def _lying(self, made: _Made, labels: Labels) -> Tensor:
        """Return a tile with its axes in the order of `labels`, transposed if necessary."""
        if made.labels == labels:
            return made.tensor
        order = tuple(made.labels.index(label) for label in labels)
        key = (made.tensor, order)
        if key not in self._moved:
            permutation = self._value(np.asarray(order, np.int32), "int32")
            name = f"{made.tensor.name}/transposed"
            self._moved[key] = self._emit("permute_dims", [made.tensor, permutation], {}, name)
        return self._moved[key]

    # Letters.

    def _rule(self, node: Node) -> AxisRule:
        rule = self.index.rule(node)
        assert not isinstance(rule, Refusal)
        return rule

    def _letters(self, rule: AxisRule, node: Node, flip: bool) -> dict[str, int]:
        first, second = self.region.labels(rule, node)
        return {first: COLUMN, second: ROW} if flip else {first: ROW, second: COLUMN}

    def _labels(
        self, rule: AxisRule, position: int, tensor: Tensor, letters: dict[str, int]
    ) -> Labels:
        """Return the letters of an operand's axes; axes that are not split get other numbers."""
        labels: list[int | None] = [
            _OTHER + len(tensor.dims) - at for at in range(len(tensor.dims))
        ]
        for name, letter in letters.items():
            hit = rule.operand_axis(position, name)
            assert hit is not None
            labels[hit[0]] = letter
        return tuple(labels)

    # Parts of a body.

    def _source(
        self, rule: AxisRule, position: int, tensor: Tensor, letters: dict[str, int]
    ) -> Tensor:
        """Return the stand-in of an operand from outside, sliced if it carries an axis."""
        at: dict[int, int] = {}
        for name, letter in letters.items():
            hit = rule.operand_axis(position, name)
            if hit is not None:
                at[letter] = hit[0]
        producer = self.index.producer.get(tensor)
        if not at and producer is not None and producer.op == "constant":
            value = np.asarray(producer.attrs["value"])
            return self._value(value, tensor.dtype, producer.name)
        source = Source(tensor, at.get(ROW), at.get(COLUMN))
        if source not in self.sources:
            if at:
                shape = list(tensor.dims)
                for letter, axis in at.items():
                    shape[axis] = self.size[letter]
                made = Tensor(tuple(shape), tensor.dtype, tensor.name)
            else:
                made = tensor.fresh_copy()
            self.sources[source] = made
        return self.sources[source]

    def _value(self, value: npt.ArrayLike, dtype: str, name: str = "const") -> Tensor:
        array = np.asarray(value)
        key = dtype, array.shape, array.tobytes()
        if key not in self._constants:
            node = const(array, name, dtype)
            self.nodes.append(node)
            self._constants[key] = node.output
        return self._constants[key]

    def _reshaped(self, tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
        if tensor.dims == shape:
            return tensor
        wanted = self._value(np.asarray(shape, np.int32), "int32")
        return self._emit("reshape", [tensor, wanted], {}, f"{tensor.name}/reshaped")

    def _emit(
        self, op: str, inputs: Sequence[Tensor], attrs: dict[str, object], name: str
    ) -> Tensor:
        made = make_node(self.index.ops, op, inputs, attrs, f"{name}/tile")
        self.nodes.append(made)
        return made.output

    def _resized(self, node: Node, operands: Sequence[Tensor], shape: tuple[int, ...]) -> Tensor:
        made = self.index.ops.resized(node, operands, [shape])
        self.nodes += made
        return made[-1].output


def _letter(label: int | None) -> int:
    assert label in (ROW, COLUMN)
    return label


def _exchanged(labels: Labels) -> Labels:
    return (*labels[:-2], labels[-1], labels[-2])
