"""A small op set on NumPy: the core's passes are tested without any framework."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tf_exla.ir.axis_rule import AxisRule, bind
from tf_exla.ir.bounds import Most
from tf_exla.ir.graph import Graph, Loop, Node, Shape, Tensor, const, item_bytes
from tf_exla.ir.lists import ListEffect
from tf_exla.ir.op_set import Compiles, Work
from tf_exla.ir.refusal import Refusal

Kernel = Callable[..., np.ndarray]


def _axis(node: Node) -> int:
    axis = node.attrs["axis"]
    assert isinstance(axis, int)
    return axis


def _sum_rule(node: Node) -> str:
    names = "abcd"[: len(node.inputs[0].dims)]
    axis = _axis(node)
    kept = " ".join(name for position, name in enumerate(names) if position != axis)
    return f"{' '.join(names)} -> {kept} ; add {names[axis]}"


def _max_rule(node: Node) -> str:
    return _sum_rule(node).replace("; add", "; max")


def _product_rule(node: Node) -> str:
    left = "k i" if node.attrs.get("transpose_a") else "i k"
    right = "j k" if node.attrs.get("transpose_b") else "k j"
    return f"{left}, {right} -> i j ; add k"


def _product(node_attrs: Mapping[str, object], a: np.ndarray, b: np.ndarray) -> np.ndarray:
    left, right = (bool(node_attrs.get(f"transpose_{name}")) for name in "ab")
    return np.matmul(a.T if left else a, b.T if right else b)


RULES: Mapping[str, str | Callable[[Node], str]] = {
    "add": "..., ... -> ...",
    "subtract": "..., ... -> ...",
    "multiply": "..., ... -> ...",
    "exp": "... -> ...",
    "matmul": _product_rule,
    "permute_dims": "i j -> j i",
    "sum": _sum_rule,
    "max": _max_rule,
    "TopK": "... a -> ... B, ... B ; top_k a",
    "Column": "i -> i 1",
    "full": "=, -> i j",
    "Merge": "b N, = -> (b N)",
    "Inverse": "M M -> M M",
    "divide": "..., ... -> ...",
    "maximum": "..., ... -> ...",
    "equal": "..., ... -> ...",
    "less_equal": "..., ... -> ...",
    "where": "..., ..., ... -> ...",
    "isfinite": "... -> ...",
    "reshape": lambda node: "i, _ -> i 1" if len(node.output.dims) == 2 else "i 1, _ -> i",
}

KERNELS: Mapping[str, Kernel] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "exp": np.exp,
    "matmul": np.matmul,
    "permute_dims": np.transpose,
    "Column": lambda x: x[:, None],
    "full": lambda shape, value: np.full(shape, value),
    "Merge": lambda x, shape: x.reshape(shape),
    "Inverse": np.linalg.inv,
    "Opaque": lambda x: x * 2.0,
    "divide": np.divide,
    "maximum": np.maximum,
    "equal": np.equal,
    "less_equal": np.less_equal,
    "where": np.where,
    "isfinite": np.isfinite,
    "reshape": np.reshape,
}


class ToyOps:
    """An `OpSet` whose ops allocate nothing beside their outputs."""

    def rule(self, node: Node, lists: bool = False) -> AxisRule | Refusal:
        rule = RULES.get(node.op)
        if rule is None:
            return Refusal(f"no rule for {node.op}")
        text = rule if isinstance(rule, str) else rule(node)
        return bind(text, [t.shape for t in node.inputs], [t.shape for t in node.outputs])

    def resized(
        self, node: Node, inputs: Sequence[Tensor], shapes: Sequence[Shape]
    ) -> tuple[Node, ...]:
        rule = self.rule(node)
        assert isinstance(rule, AxisRule)
        operands = list(inputs)
        if node.op == "TopK":
            most = inputs[0].dims[-1]
            shapes = [(*shape[:-1], min(node.outputs[0].dims[-1], most)) for shape in shapes]
        constants = []
        for position in rule.shape_operands:
            shape = const(np.array(shapes[0]), "shape")
            constants.append(shape)
            operands[position] = shape.output
        outputs = tuple(
            Tensor(tuple(shape), old.dtype, old.name)
            for shape, old in zip(shapes, node.outputs, strict=True)
        )
        return (*constants, Node(node.op, tuple(operands), outputs, node.attrs, name=node.name))

    def scratch(self, node: Node, compiled: bool = False) -> int:
        return 0

    def aliases(self, node: Node) -> bool:
        return node.op in ("Column", "Merge")

    def may_alias(self, node: Node) -> bool:
        return False

    def forwards(self, node: Node) -> tuple[int, ...]:
        return (0,) if node.op == "exp" else ()

    def flops(self, node: Node) -> int:
        if node.op == "matmul":
            inner = node.inputs[0].dims[0 if node.attrs.get("transpose_a") else 1]
            return 2 * node.output.size * inner
        if node.op == "exp":
            return 20 * node.output.size
        return sum(t.size for t in node.outputs)

    def work(self, node: Node) -> Work:
        return "product" if node.op == "matmul" else "pointwise"

    def rounds_factors(self, dtype: str) -> bool:
        return False

    def repeats(self, node: Node) -> bool:
        return True

    def chooses(self, node: Node) -> bool:
        return False

    def compiles(self, node: Node) -> Compiles:
        return "well" if node.op in RULES else ""

    def picks_rows(self) -> bool:
        return True

    def fuses_in_place(self) -> bool:
        return True

    def fused(self, graph: Graph) -> frozenset[Tensor]:
        return frozenset()

    def resizable(self, node: Node) -> bool:
        return node.op in RULES

    def joint(self, node: Node) -> bool:
        return False

    def bounds(self, node: Node, operands: Sequence[Most]) -> Sequence[Most]:
        return [Most() for _ in node.outputs]

    def not_smaller(self, node: Node) -> bool:
        return False

    def keeps(self, node: Node) -> ListEffect | None:
        return None

    def iterations(self, node: Node, bounds: Mapping[Tensor, int]) -> int | None:
        return None

    def counted(self, node: Node, times: int) -> Mapping[Tensor, int]:
        return {}

    def make(
        self, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, object], name: str
    ) -> Node | None:
        if op not in KERNELS:
            return None
        values = [np.zeros(t.dims) if t.value is None else t.value for t in inputs]
        with np.errstate(all="ignore"):
            if op == "matmul":
                made = _product(attrs, *values)
            elif op == "permute_dims":  # it knows one order only
                made = values[0].T
                inputs = inputs[:1]
            else:
                made = np.asarray(KERNELS[op](*values))
        dtype = "bool" if made.dtype == bool else "float64"
        return Node(op, tuple(inputs), (Tensor(made.shape, dtype, name),), attrs, name=name)


class Builder:
    """Writes graphs: `b = Builder(); x = b.input(3, 4); b.exp(x)`."""

    def __init__(self) -> None:
        self.inputs: list[Tensor] = []
        self.nodes: list[Node] = []

    def input(self, *shape: int, name: str = "") -> Tensor:
        tensor = Tensor(shape, "float64", name or f"x{len(self.inputs)}")
        self.inputs.append(tensor)
        return tensor

    def const(self, value: object) -> Tensor:
        node = const(np.asarray(value))
        self.nodes.append(node)
        return node.output

    def op(self, op: str, *inputs: Tensor, stateful: bool = False, **attrs: object) -> Tensor:
        values = [np.zeros(t.dims) if t.value is None else t.value for t in inputs]
        with np.errstate(all="ignore"):
            if op == "Inverse":
                shape = inputs[0].dims
            elif op in ("sum", "max"):
                axis = attrs["axis"]
                shape = tuple(s for i, s in enumerate(inputs[0].dims) if i != axis)
            elif op == "matmul":
                shape = (inputs[0].dims[0], inputs[1].dims[1])
            else:
                shape = KERNELS[op](*values).shape
        name = f"{op.lower()}{len(self.nodes)}"
        output = Tensor(shape, "float64", name)
        self.nodes.append(Node(op, inputs, (output,), attrs, stateful, name))
        return output

    def top_k(self, x: Tensor, k: int) -> tuple[Tensor, Tensor]:
        shape = (*x.dims[:-1], k)
        outputs = (Tensor(shape, "float64", "values"), Tensor(shape, "int64", "places"))
        self.nodes.append(Node("TopK", (x,), outputs, {"k": k}, name="top_k"))
        return outputs

    def graph(self, *outputs: Tensor) -> Graph:
        return Graph(tuple(self.inputs), tuple(self.nodes), outputs)


def run(graph: Graph, *values: np.ndarray, around: int = 0) -> list[np.ndarray]:
    """Run a graph, loops included, on NumPy arrays; `around`: where the loop around it is."""
    known: dict[Tensor, np.ndarray] = dict(zip(graph.inputs, values, strict=True))
    for node in graph.nodes:
        operands = [known[tensor] for tensor in node.inputs]
        if isinstance(node, Loop):
            results = _run_loop(node, operands, around)
        elif node.op == "xla_cluster":
            ((_, inner),) = node.subgraphs
            results = run(inner, *operands)
        elif node.op == "constant":
            results = [np.asarray(node.attrs["value"])]
        elif node.op == "matmul":
            results = [_product(node.attrs, *operands)]
        elif node.op == "sum":
            results = [operands[0].sum(axis=_axis(node))]
        elif node.op == "TopK":
            results = _top_k(operands[0], node.outputs[0].dims[-1])
        elif node.op == "max":
            results = [operands[0].max(axis=_axis(node))]
        else:
            results = [np.asarray(KERNELS[node.op](*operands))]
        for tensor, result in zip(node.outputs, results, strict=True):
            assert result.shape == tensor.shape, (node, result.shape, tensor.shape)
            known[tensor] = result
    return [known[tensor] for tensor in graph.outputs]


def _top_k(values: np.ndarray, k: int) -> list[np.ndarray]:
    order = np.argsort(-values, axis=-1, kind="stable")[..., :k]
    return [np.take_along_axis(values, order, -1), order]


def _run_loop(loop: Loop, operands: Sequence[np.ndarray], around: int) -> list[np.ndarray]:
    parts: list[list[np.ndarray]] = []
    neutral = {"max": -np.inf, "add": 0.0}
    before = [np.full(loop.outputs[k].dims, neutral[loop.results[k].combine]) for k in loop.folds]
    for start in range(0, around if loop.triangular else loop.extent, loop.chunk):
        size = min(loop.chunk, loop.extent - start)
        body = loop.body if size == loop.chunk else loop.remainder
        assert body is not None
        chunks = []
        for value, slot in zip(operands, loop.slots, strict=True):
            if slot is not None:
                rows = np.arange(start * slot.block, (start + size) * slot.block)
                value = value.take(rows, axis=slot.axis)
            chunks.append(value)
        parts.append(run(body, *chunks, *before, around=start))
        before = [parts[-1][k] for k in loop.folds]
    if loop.triangular:
        return _before(loop, parts)
    combined: list[np.ndarray] = []
    places = iter([])  # of the top_k whose values came before
    for result, *pieces in zip(loop.results, *parts, strict=True):
        if result.accumulates_in_body:
            combined.append(pieces[-1])
        elif result.slot is not None:
            combined.append(np.concatenate(pieces, axis=result.slot.axis))
        elif result.combine == "top_k" and (order := next(places, None)) is not None:
            starts = range(0, loop.extent * result.block, loop.chunk * result.block)
            shifted = [piece + start for piece, start in zip(pieces, starts, strict=True)]
            combined.append(np.take_along_axis(np.concatenate(shifted, -1), order, -1))
        elif result.combine == "top_k":
            joined = np.concatenate(pieces, -1)
            values, order = _top_k(joined, loop.outputs[len(combined)].dims[-1])
            combined.append(values)
            places = iter([order])
        else:
            combine = {"add": np.add, "max": np.maximum, "min": np.minimum, "mul": np.multiply}
            combined.append(combine[result.combine].reduce(pieces))
    return combined


def _before(loop: Loop, parts: list[list[np.ndarray]]) -> list[np.ndarray]:
    """Combine what the chunks before another one give: zero where no chunk was."""
    totals = [np.zeros(tensor.dims) for tensor in loop.outputs]
    for at, part in enumerate(parts):
        for total, result, piece in zip(totals, loop.results, part, strict=True):
            if result.slot is None:
                total += piece
            else:
                rows = at * piece.shape[result.slot.axis] + np.arange(piece.shape[result.slot.axis])
                np.moveaxis(total, result.slot.axis, 0)[rows] = np.moveaxis(
                    piece, result.slot.axis, 0
                )
    return totals


def peak_of(graph: Graph) -> int:
    """Bytes of the largest tensor that a graph makes outside of loops."""
    return max(
        t.size * item_bytes(t.dtype)
        for node in graph.nodes
        if not isinstance(node, Loop)
        for t in node.outputs
    )
