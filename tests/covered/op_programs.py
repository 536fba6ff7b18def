"""Programs that apply one op with an axis rule to a large tensor between small ones.

The cases of `tests/frontends/op_cases.py` are made long along one label: every operand that carries
it is gathered from the case's own values by an index, so that a program reads small inputs. What
the op makes is multiplied with weights of the index and summed over the label. Inputs and sums are
in double precision, so that the rounding of short floats is that of the op alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tensorflow as tf
from frontends.op_cases import Case
from frontends.run_node import complete_attrs
from frontends.test_op_rules import CASES, OPS, cut_shape, operand, run_op
from tensorflow.python.framework import kernels, op_def_library, op_def_registry

from tf_exla.frontends.tf.nodes.names import graph_name, tensorflow_name
from tf_exla.ir.axis_rule import AxisRule
from tf_exla.ir.graph import Array, Node, Tensor

DTYPES = ("float64", "float32", "bfloat16", "complex128", "int32", "bool")
DOUBLE = 2.0**-53
UNITS = {
    "bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 2.0**-24, "complex64": 2.0**-24,
}  # fmt: skip
"""Half a unit in the last place, of 1."""
SUM = 256.0
"""Of the weights, about: a gradient's sum of them is a float16."""
ELEMENTS = 400_000
"""Of the largest operand or result: large beside what is chained, small enough to be quick."""

# Searches in rows that are sorted: the index may not change the order.
_SORTED = {"LowerBound", "UpperBound"}
_PARTNERS = {
    "float32": {"float64": "float32", "complex128": "complex64"},
    "float64": {"float32": "float64", "complex64": "complex128"},
    "complex64": {"float64": "float32", "complex128": "complex64"},
    "complex128": {"float32": "float64", "complex64": "complex128"},
}


@dataclass(frozen=True)
class OpProgram:
    """An op, applied along one label. `function` takes `arguments` and returns a list of tensors.

    `watched`: positions of the arguments by which there can be a gradient. `count`: the elements of
    the long axis. `unit`: of the op's rounding. `exact`: the function with the op in double
    precision, where it can be.
    """

    op: str
    dtype: str
    rule: str
    label: str
    function: Callable[..., list[tf.Tensor]]
    arguments: Sequence[tf.Tensor]
    watched: Sequence[int]
    count: int
    unit: float
    exact: Callable[..., list[tf.Tensor]] | None = None

    def with_gradient(self) -> OpProgram:
        """Return the program with its gradients by `watched`; LookupError where there are none."""

        def differentiated(function: Callable[..., list[tf.Tensor]]) -> Callable[..., Any]:
            def both(*arguments: tf.Tensor) -> list[tf.Tensor]:
                watched = [arguments[k] for k in self.watched]
                made = function(*arguments)
                smooth = [y for y in made if is_real_or_complex(y)]
                found = tf.gradients(smooth, watched) if smooth and watched else []
                if all(one is None for one in found):
                    raise LookupError(f"{self.op} has no gradient")
                return [*made, *(tf.convert_to_tensor(one) for one in found if one is not None)]

            return both

        exact = differentiated(self.exact) if self.exact else None
        return replace(self, function=differentiated(self.function), exact=exact)


def is_real_or_complex(tensor: tf.Tensor) -> bool:
    return bool(tensor.dtype.is_floating or tensor.dtype.is_complex)


def doubled(dtype: tf.DType) -> tf.DType:
    """Return the dtype in double precision."""
    if dtype.is_complex:
        return tf.complex128
    return tf.float64 if dtype.is_floating else dtype


def type_attribute(op: str) -> str | None:
    """Return the attribute that is the dtype of an op's data; None where that is fixed."""
    definition = op_def_registry.get(op)
    known = {attr.name for attr in definition.attr if attr.type == "type"}
    first = [arg.type_attr for arg in definition.input_arg][:1]
    return next((n for n in ("dtype", "Tparams", "T", *first) if n in known), None)


def dtypes(op: str) -> list[str]:
    """Return the dtypes of `DTYPES` that an op has a CPU kernel for; [""] where it is fixed."""
    name = type_attribute(op)
    if name is None:
        return [""]
    (attribute,) = [attr for attr in op_def_registry.get(op).attr if attr.name == name]
    listed = attribute.allowed_values.list.type
    allowed = {tf.as_dtype(t).name for t in listed} if listed else set(DTYPES)
    registered: set[str] = set()
    for kernel in kernels.get_registered_kernels_for_op(op).kernel:
        if kernel.device_type == "CPU":
            types = [c.allowed_values.list.type for c in kernel.constraint if c.name == name]
            registered |= {tf.as_dtype(t).name for t in types[0]} if types else set(DTYPES)
    return [dtype for dtype in DTYPES if dtype in allowed & registered]


def cast(value: Array, dtype: str, real: bool) -> Array:
    """Return values in a dtype: fractions become digits, and complex numbers have both parts."""
    target = tf.as_dtype(dtype)
    if value.dtype == target.as_numpy_dtype:
        return value
    if value.dtype.kind == "c" and not target.is_complex:
        value = value.real
    if target == tf.bool:
        return value.astype(np.float64) > (0.5 if value.dtype.kind == "f" else 0)
    if target.is_complex and value.dtype.kind not in "c" and not real:
        value = value * (1 + 0.5j)
    if target.is_integer and value.dtype.kind == "f":
        value = 10 * value
    return np.asarray(value.astype(target.as_numpy_dtype))


def converted(case: Case, dtype: str, real: bool = False) -> Case:
    """Return a case with its data in another dtype; `real`: imaginary parts are zero."""
    name = type_attribute(case.op)
    if name is None or not dtype:
        return case
    operands: list[Any] = []
    positions = _arguments(case)
    for arg, spec in zip(positions, case.operands, strict=True):
        value, static = _operand(spec)
        if arg.type_attr == name:
            value = cast(value, dtype, real)
            operands.append(_Static(value) if static else value)
        else:
            operands.append(spec)
    partners = _PARTNERS.get(dtype, {})
    attrs = {
        key: partners.get(value, value) if isinstance(value, str) else value
        for key, value in case.attrs.items()
    }
    if name in attrs:
        attrs[name] = dtype
    return Case(case.op, operands, case.rule, attrs, case.unset)


def _arguments(case: Case) -> list[Any]:
    """Return the definition of each operand's argument; that of a list comes several times."""
    args = op_def_registry.get(case.op).input_arg
    lists = [k for k, arg in enumerate(args) if arg.number_attr or arg.type_list_attr]
    spare = (len(case.operands) - len(args) + len(lists)) // max(len(lists), 1)
    return [arg for k, arg in enumerate(args) for _ in range(spare if k in lists else 1)]


class _Static(list[Any]):
    """A static operand that keeps its dtype."""

    def __init__(self, value: Array) -> None:
        super().__init__(value.ravel().tolist())
        self.value = value


def _operand(spec: Any) -> tuple[Array, bool]:
    return (spec.value, True) if isinstance(spec, _Static) else operand(spec)


@dataclass(frozen=True)
class _Built:
    """A case as a node: the values of its operands, which are static, and its results."""

    node: Node
    values: Sequence[Array]
    static: Sequence[bool]
    results: Sequence[Array]


def _build(case: Case) -> _Built:
    values, static = zip(*map(_operand, case.operands), strict=True)
    attrs = complete_attrs(case.op, [value.dtype.name for value in values], case.attrs)
    results = run_op(case.op, values, attrs)
    inputs = tuple(
        Tensor(value.shape, value.dtype.name, f"x{k}", value if known else None)
        for k, (value, known) in enumerate(zip(values, static, strict=True))
    )
    outputs = tuple(Tensor(r.shape, r.dtype.name, f"y{k}") for k, r in enumerate(results))
    node = Node(graph_name(case.op, outputs[0].dtype), inputs, outputs, attrs, name=case.op)
    return _Built(node, values, static, results)


def programs(op: str, dtype: str) -> Iterator[OpProgram]:
    """Yield programs of an op, one for each label of each rule that its cases print.

    An op of which no axis may be split is applied to its case as it is.
    """
    seen = set()
    for case in CASES:
        if case.op != op:
            continue
        built = _finite(case, dtype)
        if built is None:
            continue
        rule = OPS.rule(built[0].node)
        if not isinstance(rule, AxisRule):
            continue
        labels = [label for label in rule.labels() if rule.sizes[label]]
        for label in labels or [""]:
            if (str(rule), label) not in seen:
                seen.add((str(rule), label))
                yield _program(case, dtype, rule, label, *built)


def _finite(case: Case, dtype: str) -> tuple[_Built, _Built | None] | None:
    """Return a case in a dtype, and in double precision; None where it has no meaning there."""
    for real in (False, True):
        try:
            short = converted(case, dtype, real)
            built = _build(short)
        except (tf.errors.OpError, TypeError, ValueError):
            continue
        if all(np.isfinite(np.asarray(r, complex)).all() for r in built.results):
            break
    else:
        return None
    try:
        return built, _build(converted(short, doubled(tf.as_dtype(dtype)).name)) if dtype else built
    except (tf.errors.OpError, TypeError, ValueError):
        return built, None


def _program(
    case: Case, dtype: str, rule: AxisRule, label: str, built: _Built, wide: _Built | None
) -> OpProgram:
    size = rule.sizes.get(label, 1)
    at = [
        None if axes is None else rule.operand_axis(k, label)
        for k, axes in enumerate(rule.operands)
    ]
    made = [rule.result_axis(k, label) for k in range(len(rule.results))]
    pairs = [*zip(built.values, at, strict=True), *zip(built.results, made, strict=True)]
    count = 1
    if label:
        each = max(one.size for one, axis in pairs if axis is not None)
        count = max(2 * size, ELEMENTS * size // each)
    index = np.random.default_rng(3).integers(0, size, count).astype(np.uint8)
    if case.op in _SORTED:
        index.sort()
    indices = {
        k
        for k, arg in enumerate(_arguments(case))
        if at[k] is None
        and arg.type_attr != type_attribute(case.op)
        and built.values[k].dtype.kind in "iu"
    }
    data = [k for k, static in enumerate(built.static) if not static and k not in indices]
    small = [tf.constant(built.values[k]) for k in data]
    small = [tf.cast(one, doubled(one.dtype)) for one in small]
    if rule.combine.get(label) == "mul":  # else a product of so many is zero
        small = [one ** (size / count) if is_real_or_complex(one) else one for one in small]

    def function_of(given: _Built) -> Callable[..., list[tf.Tensor]]:
        return lambda index, *small: _function(
            given, rule, label, count, index, dict(zip(data, small, strict=True)), case.unset
        )

    arguments = [tf.constant(index), *small]
    watched = [k for k, one in enumerate(arguments) if is_real_or_complex(one)]
    exact = function_of(wide) if wide else None
    function = function_of(built)
    kinds = [value.dtype.name for value in (*built.values, *built.results)]
    unit = max(UNITS.get(kind, DOUBLE) for kind in kinds)
    if wide and any(value.dtype.name in UNITS for value in (*wide.values, *wide.results)):
        exact = None
    return OpProgram(
        case.op, dtype, str(rule), label, function, arguments, watched, count, unit, exact
    )


def _function(
    built: _Built,
    rule: AxisRule,
    label: str,
    count: int,
    index: tf.Tensor,
    small: Mapping[int, tf.Tensor],
    unset: Sequence[int],
) -> list[tf.Tensor]:
    """Add a program to the graph: the op on operands that are long along a label."""
    inputs, operands = [], []
    rows = tf.cast(index, tf.int32)
    for k, tensor in enumerate(built.node.inputs):
        at = None if rule.operands[k] is None else rule.operand_axis(k, label)
        value = small.get(k)
        shape = list(tensor.shape or ())
        if at is not None:
            axis, carried = at
            shape[axis] = count * carried.block
            value = tf.gather(value, _places(rows, carried.block), axis=axis)
        inputs.append(Tensor(tuple(shape), tensor.dtype, tensor.name, tensor.value))
        operands.append(value if value is None else tf.cast(value, tensor.dtype))
    shapes = [cut_shape(rule, k, label, r.shape, count) for k, r in enumerate(built.results)]
    *constants, last = OPS.resized(built.node, inputs, shapes)
    known = {one.output: one.attrs["value"] for one in constants}
    for k, tensor in enumerate(last.inputs):
        if operands[k] is None:
            operands[k] = tf.constant(known.get(tensor, built.values[k]))
    weights = (tf.cast(index, tf.float64) + 1) * (SUM / count)
    return [
        _summed(result, rule.result_axis(k, label), weights)
        for k, result in enumerate(_apply(last, operands))
        if k not in unset
    ]


def _places(rows: tf.Tensor, block: int) -> tf.Tensor:
    """Return the elements of blocks of an axis that merges several."""
    if block == 1:
        return rows
    return tf.reshape(rows[:, None] * block + tf.range(block), [-1])


def _summed(result: tf.Tensor, at: Any, weights: tf.Tensor) -> tf.Tensor:
    """Return a result, summed with weights along the axis that is long."""
    if at is None:
        return result
    axis, carried = at
    wide = tf.cast(result, tf.complex128 if result.dtype.is_complex else tf.float64)
    if carried.block > 1:
        shape = result.shape.as_list()
        shape[axis : axis + 1] = [shape[axis] // carried.block, carried.block]
        wide = tf.reshape(wide, shape)
    shape = [1] * len(wide.shape)
    shape[axis] = -1
    return tf.reduce_sum(wide * tf.cast(tf.reshape(weights, shape), wide.dtype), axis)


def _apply(node: Node, operands: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Add an op to the graph by its name."""
    definition = op_def_registry.get(tensorflow_name(node.op))
    lists = [arg for arg in definition.input_arg if arg.number_attr or arg.type_list_attr]
    spare = (len(operands) - len(definition.input_arg) + len(lists)) // max(len(lists), 1)
    keywords: dict[str, Any] = {}
    rest = list(operands)
    for arg in definition.input_arg:
        if arg in lists:
            keywords[arg.name], rest = rest[:spare], rest[spare:]
        else:
            keywords[arg.name], rest = rest[0], rest[1:]
    inferred = {arg.type_attr or arg.type_list_attr for arg in definition.input_arg}
    inferred |= {arg.number_attr for arg in definition.input_arg}
    types = {attr.name: attr.type for attr in definition.attr}
    for key, value in node.attrs.items():
        if key not in inferred:
            keywords[key] = tf.as_dtype(value) if types[key] == "type" else value
    made = op_def_library._apply_op_helper(tensorflow_name(node.op), **keywords)[2]
    return list(made.outputs)
