"""What XLA is said to compile it compiles, to the numbers of TensorFlow's kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from frontends.op_cases import Case
from frontends.test_op_rules import CASES, build

from tf_exla.frontends.tf.nodes.names import graph_name
from tf_exla.frontends.tf.op_set import TensorFlowOps
from tf_exla.frontends.tf.ops.table import KINDS
from tf_exla.frontends.tf.ops.table import OPS as TABLE
from tf_exla.frontends.tf.restore import restore
from tf_exla.ir.check import check_graph
from tf_exla.ir.graph import Array, Graph, Node, Tensor, const
from tf_exla.late.fusing import fusible, matrix_of

OPS = TensorFlowOps()
COMPILED = [case for case in CASES if TABLE[case.op].xla or TABLE[case.op].form]
RNG = np.random.default_rng(0)


def cluster(nodes: Sequence[Node], inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Graph:
    """A graph that calls the nodes as one cluster."""
    outer = tuple(Tensor(t.shape, t.dtype, t.name) for t in inputs)
    made = tuple(Tensor(t.shape, t.dtype, t.name) for t in outputs)
    inner = Graph(tuple(inputs), tuple(nodes), tuple(outputs))
    return Graph(outer, (Node("xla_cluster", outer, made, {"cluster": inner}),), made)


def run(graph: Graph, values: Sequence[Array]) -> list[Array]:
    import tensorflow as tf

    check_graph(graph)
    return [tensor.numpy() for tensor in restore(graph)([tf.constant(v) for v in values])]


@pytest.mark.one_of(3)
@pytest.mark.parametrize("case", COMPILED, ids=str)
def test_op_compiles(case: Case) -> None:
    node, values, want = build(case)
    if not OPS.compiles(node):
        pytest.skip("not compiled with these dtypes")
    constants = [const(t.value, t.name) for t in node.inputs if t.value is not None]
    made = {one.name: one.output for one in constants}
    inputs = tuple(made.get(t.name, t) for t in node.inputs)
    node = Node(node.op, inputs, node.outputs, node.attrs, name=node.name)
    free = [k for k, t in enumerate(inputs) if t.name not in made]
    graph = cluster([*constants, node], [inputs[k] for k in free], node.outputs)
    for position, got in enumerate(run(graph, [values[k] for k in free])):
        if position in case.unset:
            continue
        assert got.dtype == want[position].dtype
        if got.dtype.kind in "fc":
            # XLA of TensorFlow 2.18 adds float32 in another order than TensorFlow: a last bit.
            rtol = max(1e-10, 2 * float(np.finfo(got.dtype).eps))
            np.testing.assert_allclose(got, want[position], rtol=rtol, atol=1e-12)
        else:
            np.testing.assert_array_equal(got, want[position])


SPECIAL = np.array([[0.0, -0.0, np.nan, np.inf, -np.inf, 0.25, 1e300, -2.0]])


NOT_OF_NUMBERS = ("BiasAdd", "Cast", "Complex", "Select")
FLOATING = [
    case for case in COMPILED if case.op in KINDS["pointwise"] and case.op not in NOT_OF_NUMBERS
]


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("case", FLOATING, ids=lambda case: case.op)
def test_special_numbers(case: Case, dtype: str) -> None:
    """NaNs, infinities and zeros of either sign go through a pointwise op as they did."""
    node, values, _ = build(case)
    if any(value.dtype != np.float64 for value in values) or len(values) > 2:
        pytest.skip("not of real numbers alone")
    with np.errstate(over="ignore"):
        special = SPECIAL.astype(dtype)
    pairs = np.meshgrid(special, special)
    operands = [special] if len(values) == 1 else pairs
    attrs = {key: dtype if value == "float64" else value for key, value in node.attrs.items()}
    compare_special(case.op, operands, attrs)


@pytest.mark.parametrize("op", ["Max", "Min", "Sum"])
def test_special_numbers_reduced(op: str) -> None:
    rows = np.concatenate([SPECIAL[:, :1] + SPECIAL.T, SPECIAL.T], axis=1)
    compare_special(op, [rows], {"T": "float64", "Tidx": "int32", "keep_dims": False}, [1])


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint32"])
@pytest.mark.parametrize("op", ["Max", "Mean", "Min", "Prod", "Sum"])
def test_extreme_integers_reduced(op: str, dtype: str) -> None:
    """Sums of integers overflow where they did; those of a mean do not."""
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    rows = np.array([[most, most, most - 3], [least, least, 2]], dtype)
    compare_special(op, [rows], {"T": dtype, "Tidx": "int32", "keep_dims": False}, [1])


@pytest.mark.parametrize("op", ["ClipByValue", "Round"])
def test_ops_of_integers(op: str) -> None:
    bounds = [np.int32(2), np.int32(1)] if op == "ClipByValue" else []  # they exclude each other
    compare_special(op, [np.array([[-7, 0, 1, 2, 9]], np.int32), *bounds], {"T": "int32"})


def compare_special(
    op: str, values: list[Array], attrs: dict[str, object], axes: list[int] | None = None
) -> None:
    from frontends.run_node import run_op

    inputs = [Tensor(v.shape, str(v.dtype), f"x{k}") for k, v in enumerate(values)]
    extra = [] if axes is None else [const(np.array(axes, np.int32), "axes")]
    known = [np.array(axes, np.int32)] if axes is not None else []
    (want,) = run_op(op, [*values, *known], attrs)
    output = Tensor(want.shape, want.dtype.name, "y")
    node = Node(
        graph_name(op, output.dtype),
        (*inputs, *(one.output for one in extra)),
        (output,),
        attrs,
        name=op,
    )
    if not OPS.compiles(node):
        pytest.skip("not compiled with these dtypes")
    (got,) = run(cluster([*extra, node], inputs, [output]), values)
    rtol = 1e-5 if want.dtype == np.float32 else 1e-13
    np.testing.assert_allclose(got, want, rtol=rtol, atol=1e-300)


def product(a: Tensor, b: Tensor, name: str, **transposed: bool) -> Node:
    attrs = {"transpose_a": False, "transpose_b": False, **transposed}
    made = OPS.make("matmul", (a, b), attrs, name)
    assert made is not None
    return made


def test_a_product_of_vectors_has_a_form_that_fuses() -> None:
    a, b = Tensor((5, 1), "float64", "a"), Tensor((1, 7), "float64", "b")
    outer = product(a, b, "outer")
    forms = fusible(outer, {}, OPS)
    assert "multiply" in [node.op for node in forms]
    x, y = RNG.normal(size=(5, 1)), RNG.normal(size=(1, 7))
    x[2] = np.inf
    (got,) = run(cluster(forms, [a, b], [outer.output]), [x, y])
    np.testing.assert_allclose(got, x * y, rtol=1e-15)


@pytest.mark.parametrize("first", [True, False])
def test_a_vector_times_rows_that_are_made_beside_it_is_a_sum(first: bool) -> None:
    """In XLA's code of the product each column of the matrix would be made on its own."""
    m = Tensor((5, 7), "float64", "m")
    square = OPS.make("square", (m,), {}, "square")
    exp = OPS.make("exp", (m,), {}, "exp")
    assert square is not None
    assert exp is not None
    v = Tensor((1, 5) if first else (5, 1), "float64", "v")
    sides = (v, square.output) if first else (square.output, v)
    node = product(*sides, "product", transpose_a=not first)
    assert matrix_of(node) is square.output
    forms = fusible(node, {square.output: square}, OPS)
    assert [form.op for form in forms if form.op not in ("constant", "reshape")] == [
        "multiply",
        "sum",
    ]
    x, y = RNG.normal(size=(5, 7)), RNG.normal(size=v.dims)
    (got,) = run(cluster([square, *forms], [m, v], node.outputs), [x, y])
    np.testing.assert_allclose(got.ravel(), y.ravel() @ x**2, rtol=1e-13)
    assert fusible(node, {}, OPS) == [node]  # the matrix is there already
    # XLA makes an exponential once, beside the product.
    assert fusible(node, {square.output: exp}, OPS) == [node]


def test_a_product_along_rows_or_with_a_long_vector_stays() -> None:
    m, v = Tensor((5, 7), "float64", "m"), Tensor((7, 1), "float64", "v")
    square = OPS.make("square", (m,), {}, "square")
    assert square is not None
    assert matrix_of(product(square.output, v, "along")) is None
    long, w = Tensor((5_000, 7), "float64", "long"), Tensor((1, 5_000), "float64", "w")
    square = OPS.make("square", (long,), {}, "square")
    assert square is not None
    node = product(w, square.output, "product")
    assert fusible(node, {square.output: square}, OPS) == [node]


def test_long_sums_of_float32_stay_with_tensorflow() -> None:
    """XLA adds one number after the other, and loses digits that pairwise sums keep."""
    axes = const(np.array([1], np.int32), "axes")
    for size, dtype, expected in ((100, "float32", "well"), (200_000, "float32", "")):
        x = Tensor((4, size), dtype, "x")
        total = OPS.make("sum", (x, axes.output), {"keep_dims": False}, "total")
        assert total is not None
        assert OPS.compiles(total) == expected


@pytest.mark.parametrize("op", ["Maximum", "Minimum"])
@pytest.mark.parametrize("position", [0, 1])
@pytest.mark.parametrize("bound", [1e-36, np.nan])
def test_an_extreme_with_a_constant_keeps_nans(op: str, position: int, bound: float) -> None:
    from frontends.run_node import run_op

    x = Tensor(SPECIAL.shape, "float64", "x")
    limit = const(np.float64(bound), "bound")
    operands = [x, limit.output] if position else [limit.output, x]
    values = [SPECIAL, np.float64(bound)] if position else [np.float64(bound), SPECIAL]
    (want,) = run_op(op, values, {"T": "float64"})
    node = Node(
        graph_name(op, "float64"),
        tuple(operands),
        (Tensor(want.shape, "float64", "y"),),
        {"T": "float64"},
    )
    assert OPS.compiles(node) == "well"
    (got,) = run(cluster([limit, node], [x], node.outputs), [SPECIAL])
    np.testing.assert_array_equal(got, want)
