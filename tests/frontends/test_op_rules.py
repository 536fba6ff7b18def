"""Every rule of the table: how it prints, and the law that makes it true.

The law: for every lower-case label of every op, cut the inputs unevenly along the label, apply the
op to the pieces, combine: equal to the op on the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
from frontends.image_cases import IMAGES
from frontends.movement_cases import INDEXING, MOVEMENT, RESHAPES
from frontends.op_cases import (
    ALGEBRA,
    MORE_POINTWISE,
    REDUCTIONS,
    Case,
    Operand,
    pointwise_cases,
    reals,
    source_cases,
)
from frontends.run_node import complete_attrs, run_nodes, run_op

from tf_exla.frontends.tf.nodes.names import graph_name
from tf_exla.frontends.tf.op_set import TensorFlowOps
from tf_exla.frontends.tf.ops.lists import OPS as LISTS
from tf_exla.frontends.tf.ops.table import RULED
from tf_exla.ir.axis_rule import AxisRule
from tf_exla.ir.graph import Array, Node, Tensor
from tf_exla.ir.refusal import Refusal

OPS = TensorFlowOps()
CASES = [
    *pointwise_cases(),
    *MORE_POINTWISE,
    *REDUCTIONS,
    *ALGEBRA,
    *IMAGES,
    *MOVEMENT,
    *(Case("Reshape", [before, after], rule) for before, after, rule in RESHAPES),
    *INDEXING,
    *source_cases(),
]

WITHOUT_CASE = {
    **dict.fromkeys(
        LISTS.keys() & RULED.keys(), "there are no parts of a list: tests/test_row_loops.py"
    ),
    "max_with_position": "it is no op of TensorFlow: tests/frontends/test_lowering.py",
    "min_with_position": "it is no op of TensorFlow: tests/frontends/test_lowering.py",
    **dict.fromkeys(
        ("radix_counts", "radix_step", "radix_values"),
        "it is no op of TensorFlow: tests/frontends/test_selection.py",
    ),
    "random_rows": "it is no op of TensorFlow: tests/frontends/test_random_rows.py",
    "ReadVariableOp": "its operand is a handle, which has no value to cut",
    "ResourceGather": "its operand is a handle, which has no value to cut",
    "ResourceGatherNd": "its operand is a handle, which has no value to cut",
    "scatter_rows": "it is no op of TensorFlow: tests/frontends/test_scattering.py",
    "update_rows": "it is no op of TensorFlow: tests/frontends/test_scattering.py",
}

NOT_SINGLE = {
    "BatchMatMulV2": "oneDNN's float32 kernel is wrong on small broadcast batches of changing size",
    "BatchMatMulV3": "the dtype of the result is an attribute of the case",
    "Eig": "the dtype of the result is an attribute of the case",
    "IRFFT": "the dtype of the result is an attribute of the case",
    "IRFFT2D": "the dtype of the result is an attribute of the case",
    "IRFFT3D": "the dtype of the result is an attribute of the case",
    "IsotonicRegression": "the dtype of the result is an attribute of the case",
    "MatrixSolveLs": "the regularizer is float64 always",
}

# Chunks reorder the additions of float64 and float32 sums, and take other paths of vectorized code.
TOLERANCE = {"float64": 1e-11, "complex128": 1e-11, "float32": 2e-5, "complex64": 2e-5}
COMBINE = {
    "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum,
    "and": np.logical_and, "or": np.logical_or,
}  # fmt: skip


def operand(spec: Operand) -> tuple[Array, bool]:
    """Return an operand's value, and whether it is static."""
    if isinstance(spec, tuple):
        return reals(*spec), False
    if isinstance(spec, np.ndarray):
        return spec, False
    value = np.asarray(spec)
    return value if value.dtype == bool else value.astype(np.int32), True


def single(case: Case) -> Case:
    """The case in single precision."""
    kinds = {"f": np.float32, "c": np.complex64}
    values = [operand(spec)[0] for spec in case.operands]
    operands = [
        value.astype(kinds[value.dtype.kind]) if value.dtype.kind in kinds else spec
        for value, spec in zip(values, case.operands, strict=True)
    ]
    return Case(case.op, operands, case.rule, case.attrs, case.unset)


def build(case: Case) -> tuple[Node, list[Array], list[Array]]:
    """Return a case as a node, the values of its operands, and its results."""
    values, static = zip(*map(operand, case.operands), strict=True)
    attrs = complete_attrs(case.op, [value.dtype.name for value in values], case.attrs)
    results = run_op(case.op, values, attrs)
    inputs = tuple(
        Tensor(value.shape, value.dtype.name, f"x{k}", value if known else None)
        for k, (value, known) in enumerate(zip(values, static, strict=True))
    )
    outputs = tuple(Tensor(r.shape, r.dtype.name, f"y{k}") for k, r in enumerate(results))
    return (
        Node(graph_name(case.op, outputs[0].dtype), inputs, outputs, attrs, name=case.op),
        list(values),
        results,
    )


def bound(node: Node) -> AxisRule:
    rule = OPS.rule(node)
    assert isinstance(rule, AxisRule), rule
    return rule


def pieces(size: int) -> list[tuple[int, int]]:
    """Cut an extent into one index, a third of the rest, and what remains."""
    ends = sorted({0, 1, 1 + (size - 1) // 3, size})
    return list(pairwise(ends))


def check_law(
    node: Node,
    values: Sequence[Array],
    whole: Sequence[Array],
    unset: Sequence[int] = (),
    depth: int = 1,
) -> None:
    """Check every label of a node; pieces are cut again along their own labels, as tiles are."""
    rule = bound(node)
    for label in rule.labels():
        if rule.sizes[label] == 0:
            continue
        parts = []
        for start, stop in pieces(rule.sizes[label]):
            cut = [cut_operand(rule, k, label, v, start, stop) for k, v in enumerate(values)]
            tensors = [
                old if new is value else Tensor(new.shape, old.dtype, old.name)
                for old, new, value in zip(node.inputs, cut, values, strict=True)
            ]
            shapes = [
                cut_shape(rule, k, label, result.shape, stop - start)
                for k, result in enumerate(whole)
            ]
            nodes = OPS.resized(node, tensors, shapes)
            results = run_nodes(nodes, dict(zip(tensors, cut, strict=True)))
            parts.append(results)
            if depth and stop == rule.sizes[label]:
                constants = {n.output: n.attrs["value"] for n in nodes[:-1]}
                known = {**dict(zip(tensors, cut, strict=True)), **constants}
                again = [np.asarray(known[tensor]) for tensor in nodes[-1].inputs]
                check_law(nodes[-1], again, results, unset, depth - 1)
        if rule.combine.get(label) == "top_k":
            parts = [merged_top_k(parts, whole[0].shape[-1], pieces(rule.sizes[label]))]
        for k, result in enumerate(whole):
            if k in unset:
                continue
            found = combined(rule, k, label, [part[k] for part in parts])
            same(found, result, f"{rule} along {label}, result {k}")


def cut_operand(
    rule: AxisRule, position: int, label: str, value: Array, start: int, stop: int
) -> Array:
    at = None if rule.operands[position] is None else rule.operand_axis(position, label)
    if at is None:
        return value
    axis, carried = at
    index = [slice(None)] * value.ndim
    index[axis] = slice(start * carried.block, stop * carried.block)
    return value[tuple(index)]


def cut_shape(
    rule: AxisRule, position: int, label: str, shape: Sequence[int], count: int
) -> tuple[int, ...]:
    at = rule.result_axis(position, label)
    sizes = list(shape)
    if at is not None:
        sizes[at[0]] = count * at[1].block
    return tuple(sizes)


def merged_top_k(
    parts: Sequence[Sequence[Array]], k: int, cuts: Sequence[tuple[int, int]]
) -> list[Array]:
    """The largest of the parts' largest values; of equal ones those that come first."""
    values = np.concatenate([part[0] for part in parts], -1)
    shifted = [part[1] + start for part, (start, _) in zip(parts, cuts, strict=True)]
    places = np.concatenate(shifted, -1).astype(parts[0][1].dtype)
    order = np.argsort(-values, -1, kind="stable")[..., :k]
    return [np.take_along_axis(values, order, -1), np.take_along_axis(places, order, -1)]


def combined(rule: AxisRule, position: int, label: str, parts: Sequence[Array]) -> Array:
    at = rule.result_axis(position, label)
    if at is not None:
        return np.concatenate(parts, axis=at[0])
    if label in rule.combine and rule.combine[label] != "top_k":
        return reduce(COMBINE[rule.combine[label]], parts)
    for part in parts[1:]:
        same(part, parts[0], f"{rule}: result {position} without {label}")
    return parts[0]


def same(found: Array, expected: Array, what: str) -> None:
    assert found.dtype == expected.dtype, what
    tolerance = TOLERANCE.get(expected.dtype.name, 2e-3 if expected.dtype.kind == "f" else 0)
    np.testing.assert_allclose(found, expected, tolerance, tolerance, err_msg=what)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule(case: Case) -> None:
    node, values, results = build(case)
    rule = bound(node)
    if case.rule:
        assert str(rule) == case.rule.strip()
    for axes in (*rule.operands, *rule.results):
        labels = [axis.label for axis in axes or () if axis is not None and axis.splittable]
        assert len(labels) == len(set(labels)), f"{rule} carries one label on two axes"
    check_law(node, values, results, case.unset)


@pytest.mark.parametrize("case", [*REDUCTIONS, *ALGEBRA, *IMAGES], ids=str)
def test_law_in_single_precision(case: Case) -> None:
    if case.op in NOT_SINGLE:
        pytest.skip(NOT_SINGLE[case.op])
    node, values, results = build(single(case))
    check_law(node, values, results, case.unset)


def test_a_variable_is_whole() -> None:
    handle = Tensor((), "resource", "handle", held=120)
    indices, value = Tensor((7,), "int32", "i"), Tensor((5, 3), "float64", "v")
    read = Node("read_variable", (handle,), (value,))
    assert str(bound(read)) == "_ -> A B"
    rows = Node("ResourceGather", (handle, indices), (Tensor((7, 3), "float64", "y"),))
    assert str(bound(rows)) == "_, a -> a A"
    points = Tensor((7, 2), "int32", "i")
    numbers = Node("ResourceGatherNd", (handle, points), (Tensor((7, 4), "float64", "y"),))
    assert str(bound(numbers)) == "_, a A -> a B"


def test_a_chunk_is_named_after_the_whole() -> None:
    data, shape = Tensor((6, 35), "float64", "x"), Tensor((3,), "int64", "s")
    node = Node("reshape", (data, shape), (Tensor((6, 5, 7), "float64", "y"),), name="reshape")
    assert bound(node).shape_operands == {1}
    constant, again = OPS.resized(node, [Tensor((2, 35), "float64", "x"), shape], [(2, 5, 7)])
    assert constant.output.value is not None
    assert constant.output.value.tolist() == [2, 5, 7]
    assert constant.output.dtype == "int64"
    assert str(again) == "y/chunk f64[2, 5, 7] = reshape(x, reshape/chunk/1)"
    assert again.output.value is None


def test_shapes_that_are_right_already_need_no_constant() -> None:
    shape = Tensor((2,), "int32", "s", np.asarray([5, 3], np.int32))
    node = Node("full", (shape, Tensor((), "float64", "x")), (Tensor((5, 3), "float64", "y"),))
    (again,) = OPS.resized(node, node.inputs, [(5, 3)])
    assert again.inputs == node.inputs


def test_a_tensor_of_unknown_shape_has_no_scratch() -> None:
    unknown = Tensor((None,), "float64", "x")
    assert OPS.scratch(Node("add", (unknown, unknown), (unknown,))) == 0


@pytest.mark.parametrize(
    ("op", "shapes", "result", "attrs", "expected"),
    [
        ("MatMul", [(5, 3), (3, 7)], (5, 7), {}, 2 * 5 * 3 * 7),
        ("MatMul", [(3, 5), (3, 7)], (5, 7), {"transpose_a": True}, 2 * 5 * 3 * 7),
        ("Einsum", [(2, 5, 3), (3, 7)], (2, 5, 7), {"equation": "...ik,kj->...ij"}, 420),
        ("Cholesky", [(2, 6, 6)], (2, 6, 6), {}, 2 * 6**3 // 3),
        ("MatrixTriangularSolve", [(6, 6), (6, 7)], (6, 7), {}, 6 * 6 * 7),
        ("Conv2D", [(5, 4, 4, 2), (3, 3, 2, 6)], (5, 4, 4, 6), {}, 2 * 480 * 18),
        ("Exp", [(5, 3)], (5, 3), {}, 12 * 15),
        ("Sum", [(5, 3), (1,)], (5,), {}, 15),
        ("Reshape", [(5, 3), (1,)], (15,), {}, 0),
    ],
)
def test_flops(
    op: str,
    shapes: list[tuple[int, ...]],
    result: tuple[int, ...],
    attrs: dict[str, object],
    expected: int,
) -> None:
    inputs = tuple(Tensor(shape, "float64") for shape in shapes)
    assert OPS.flops(Node(op, inputs, (Tensor(result, "float64"),), attrs)) == expected
    outputs = (Tensor(result, "complex128"),)
    assert OPS.flops(Node(op, inputs, outputs, attrs)) == 4 * expected


def test_every_op_has_a_case() -> None:
    covered = {case.op for case in CASES}
    assert set(RULED) - covered == set(WITHOUT_CASE)


@pytest.mark.parametrize(
    ("op", "inputs", "outputs", "attrs", "reason"),
    [
        ("Where", [(5,)], [(None, 1)], {}, "depends on the values of its operands"),
        ("RandomUniform", [(2,)], [(5, 3)], {}, "never split nor computed twice"),
        ("Const", [], [(5,)], {}, "its readers take their chunks"),
        ("NoSuchOp", [(5,)], [(5,)], {}, "not in the table"),
        ("Exp", [(None, 3)], [(None, 3)], {}, "unknown shape"),
        ("Reshape", [(None, 3), (1,)], [(None,)], {}, "x0 f64[?, 3] is not known"),
        ("Sum", [(5, 3), (1,)], [(5,)], {}, "does not know its axes"),
        ("Transpose", [(5, 3), (2,)], [(3, 5)], {}, "does not know its permutation"),
        ("Einsum", [(5, 3)], [()], {"equation": "...->"}, "adds over its leading axes"),
        ("Conv2D", [(1,) * 4, (1,) * 4], [(1,) * 4], {"data_format": "NCHW_VECT_C"}, "format"),
        ("MatMul", [(5, 3), (4, 7)], [(5, 7)], {}, "'k' is 3 and 4"),
    ],
)
def test_refusals_say_why(
    op: str,
    inputs: list[tuple[int | None, ...]],
    outputs: list[tuple[int | None, ...]],
    attrs: dict[str, object],
    reason: str,
) -> None:
    node = Node(
        op,
        tuple(Tensor(shape, "float64", f"x{k}") for k, shape in enumerate(inputs)),
        tuple(Tensor(shape, "float64", f"y{k}") for k, shape in enumerate(outputs)),
        attrs,
        name=op,
    )
    refusal = OPS.rule(node)
    assert isinstance(refusal, Refusal)
    assert reason in refusal.reason
    assert not OPS.resizable(node)
