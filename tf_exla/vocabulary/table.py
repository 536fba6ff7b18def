"""The vocabulary: one record for each op that passes know, whatever the front end.

Ops are named as in the Python array API standard, else as in `jax.lax`, `jax.nn` or SciPy. A front
end adds the memory of its own kernels, and records of ops that no pass knows.
`tf_exla/frontends/numpy/kernels.py` defines what the ops compute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tf_exla.ir.graph import Combine, Node, Tensor
from tf_exla.vocabulary import flops, lookups, radix, rebuild, shapes
from tf_exla.vocabulary.meaning import Meaning, ResultShape
from tf_exla.vocabulary.rules.builders import (
    Rule,
    along,
    each_to_its_own,
    list_rule,
    made_whole,
    pointwise_list,
    random_rows,
    reduction,
    whole,
    words,
)
from tf_exla.vocabulary.rules.indexing import (
    gather,
    scatter_nd,
    scatter_rows,
    segments,
    tensor_scatter,
    update_rows,
)
from tf_exla.vocabulary.rules.movement import (
    concat,
    diagonal,
    fill,
    one_hot,
    pack,
    reshape,
    resized_axes,
    same_axes,
    split,
    strided_slice,
    strided_slice_grad,
    tile,
    transpose,
)
from tf_exla.vocabulary.rules.products import einsum, matmul


def _many(record: Meaning, names: str) -> Mapping[str, Meaning]:
    return dict.fromkeys(words(names), record)


_UNARY = Meaning("... -> ...", shape=shapes.same)
_BINARY = Meaning("..., ... -> ...", shape=shapes.broadcast)
_COMPARISON = replace(_BINARY, dtype_of="bool")


def _unary(cost: int = 1, compiled: int | None = None) -> Meaning:
    return replace(_UNARY, flops=cost, compiled=compiled)


def _binary(cost: int = 1, compiled: int | None = None) -> Meaning:
    return replace(_BINARY, flops=cost, compiled=compiled)


def _reducer(combine: Combine | None, dtype_of: int | str = 0) -> Meaning:
    return Meaning(
        reduction(combine), flops=flops.per_operand, shape=shapes.reduced,
        attrs={"keep_dims": False}, dtype_of=dtype_of,
    )  # fmt: skip


def _moved(rule: Rule, shape: ResultShape | None = None, **attrs: object) -> Meaning:
    return Meaning(rule, flops=0, shape=shape, attrs=attrs)


EXP_FLOPS = 12

VOCABULARY: Mapping[str, Meaning] = {
    **_many(_unary(), "abs astype ceil floor logical_not negative relu round sign square"),
    **_many(_unary(4, compiled=15), "reciprocal rsqrt sqrt"),
    **_many(_unary(EXP_FLOPS, compiled=20), "exp sigmoid tanh"),
    **_many(_unary(EXP_FLOPS, compiled=40), "expm1 log log1p"),
    **_many(_unary(25), "acos acosh asin asinh atan atanh cosh erf erfc sinh"),
    **_many(_unary(50, compiled=106), "cos sin tan"),
    "softplus": _unary(70, compiled=104),
    **_many(replace(_UNARY, dtype_of="bool"), "isfinite isinf isnan"),
    **_many(_unary(0), "identity ones_like prevent_gradient snapshot stop_gradient zeros_like"),
    "check_numerics": _unary(),
    "ensure_shape": Meaning("... -> ...", flops=0, rebuild=rebuild.declared_shape),
    **_many(_binary(), "add logical_and logical_or maximum minimum multiply subtract"),
    "squared_difference": _binary(3),
    **_many(_binary(4, compiled=10), "divide floor_divide remainder truncate_divide"),
    "atan2": _binary(16),
    "pow": _binary(280, compiled=165),
    **_many(_COMPARISON, "equal greater greater_equal less less_equal not_equal"),
    "where": Meaning("..., ..., ... -> ...", shape=shapes.broadcast, dtype_of=1),
    "add_n": Meaning(pointwise_list, flops=flops.sum_of_list, shape=shapes.same),
    "identity_n": Meaning(each_to_its_own, flops=0),
    # Reductions, searches, sorting.
    "all": _reducer("and", "bool"),
    "any": _reducer("or", "bool"),
    "max": _reducer("max"),
    "min": _reducer("min"),
    "prod": _reducer("mul"),
    "sum": _reducer("add"),
    **_many(_reducer(None), "mean vector_norm"),
    "max_with_position": Meaning(reduction("argmax"), flops=flops.searched),
    "min_with_position": Meaning(reduction("argmin"), flops=flops.searched),
    **_many(Meaning(along(1, keeps=False), flops=flops.searched), "argmax argmin"),
    **_many(Meaning(along(1, keeps=True), flops=flops.accumulated, work="serial",
        shape=shapes.same), "cumprod cumsum"),
    **_many(Meaning("... A -> ... A", flops=26, shape=shapes.same), "log_softmax softmax"),
    "cross_entropy": Meaning("a B, a B -> a, a B", flops=20),
    "radix_counts": Meaning(radix.counts_rule, flops=radix.counts_flops, chooses=True,
        shape=radix.counts_shape, dtype_of="int32"),
    "radix_step": Meaning("R B, S R -> S R", dtype_of=1,
        shape=lambda inputs, attrs: inputs[1].dims),
    "radix_values": Meaning("S R -> R", shape=lambda inputs, attrs: inputs[0].dims[1:]),
    "sort": Meaning("... A -> ... A", flops=16, work="serial", shape=shapes.same),
    "sparse_cross_entropy": Meaning("a B, a -> a, a B", flops=20),
    "top_k": Meaning("... a, _ -> ... B, ... B ; top_k a", work="serial", rebuild=rebuild.top_k),
    # Products, solves and decompositions.
    "batch_matmul": Meaning(matmul("adj_x", "adj_y", batch="... "), flops=flops.matmul,
        work="product", shape=shapes.product("adj_x", "adj_y"),
        attrs={"adj_x": False, "adj_y": False}),
    "cholesky": Meaning("... M M -> ... M M", flops=flops.cubic(1 / 3), work="product",
        shape=shapes.same),
    "einsum": Meaning(einsum, flops=flops.einsum, work="product"),
    "matmul": Meaning(matmul("transpose_a", "transpose_b"), flops=flops.matmul, work="product",
        shape=shapes.product("transpose_a", "transpose_b"),
        attrs={"transpose_a": False, "transpose_b": False}),
    "solve_triangular": Meaning("... M M, ... M n -> ... M n", flops=flops.solve(0), work="serial",
        shape=shapes.solved, attrs={"lower": True, "adjoint": False}),
    # Movement.
    "band_part": _moved("... A B, _, _ -> ... A B", shapes.same),
    "broadcast_to": _moved("..., = -> ...", shapes.held_by(1)),
    "concat": _moved(concat(-1), shapes.joined),
    **_many(_moved(same_axes), "expand_dims"),
    "squeeze": replace(_moved(same_axes), rebuild=rebuild.squeeze),
    "flip": _moved(along(1, keeps=True), shapes.same),
    "full": replace(_moved(fill, shapes.held_by(0)), dtype_of=1),
    "image_patches": _moved("n H W C -> n P Q K"),
    "matrix_diag": _moved(diagonal("result", 5), shapes.dense, align="RIGHT_LEFT"),
    "matrix_diag_part": _moved(diagonal("operand", 3), shapes.diagonal, align="RIGHT_LEFT"),
    "matrix_set_diag": _moved(diagonal("both", 3), shapes.same, align="RIGHT_LEFT"),
    **_many(_moved(resized_axes("_"), shapes.padded), "mirror_pad pad"),
    "one_hot": _moved(one_hot),
    "pad_with": _moved(resized_axes("_", ""), shapes.padded),
    "permute_dims": _moved(transpose, shapes.transposed),
    "reshape": _moved(reshape, shapes.reshaped),
    "roll": _moved(along(2, keeps=True, others=["_", "_"]), shapes.same),
    "slice": _moved(resized_axes("_", "="), shapes.sliced),
    "split": _moved(split(data_at=1, axis_at=0)),
    "stack": _moved(pack),
    "strided_slice": replace(_moved(strided_slice), rebuild=rebuild.strided_slice),
    "strided_slice_grad": replace(_moved(strided_slice_grad), rebuild=rebuild.strided_slice),
    "tile": replace(_moved(tile), rebuild=rebuild.tile),
    # Reading and writing by index.
    **_many(Meaning(tensor_scatter, lookups=lookups.written(1, 2)), """
        scatter_add scatter_max scatter_min scatter_subtract"""),
    "scatter_nd": Meaning(scatter_nd, lookups=lookups.written(0, 1), shape=shapes.held_by(2),
        dtype_of=1),
    "scatter_rows": Meaning(scatter_rows, lookups=lookups.written(0, 1)),
    "scatter_update": replace(_moved(tensor_scatter, shapes.same), lookups=lookups.written(1, 2)),
    "segment_sum": Meaning(segments("add"), flops=flops.per_operand, lookups=lookups.segments,
        shape=shapes.segmented),
    "take": replace(_moved(gather, shapes.taken, batch_dims=0), lookups=lookups.gathered),
    "update_rows": Meaning(update_rows, lookups=lookups.written(1, 2)),
    # Sources: ops that need no data.
    "arange": _moved(made_whole, shapes.counted),
    "constant": Meaning(reason="it is a constant; its readers take their chunks of it", flops=0),
    "no_op": Meaning(flops=0),
    "random_rows": Meaning(random_rows, flops=flops.random_rows),
    "read_variable": _moved(made_whole),
    **_many(_moved(whole), "shape size"),
    **_many(Meaning(made_whole), """
        stateless_normal stateless_truncated_normal stateless_uniform stateless_uniform_full_int
        stateless_uniform_int"""),
    # Lists of tensors, whose axes are those of each of their tensors.
    "list_empty": Meaning(list_rule("_, _ -> ...", 0), rebuild=rebuild.element_shape(0)),
    "list_from_tensor": Meaning(list_rule("T ..., _ -> ...", 1), rebuild=rebuild.element_shape(1)),
    "list_get": Meaning(list_rule("..., _, _ -> ...", 2), rebuild=rebuild.element_shape(2)),
    "list_pop": Meaning(list_rule("..., _ -> ..., ...", 1), rebuild=rebuild.element_shape(1)),
    "list_push": Meaning("..., ... -> ..."),
    "list_reserve": Meaning(list_rule("_, _ -> ...", 0), rebuild=rebuild.element_shape(0)),
    "list_set": Meaning("..., _, ... -> ..."),
    "list_stack": Meaning(list_rule("..., _ -> T ...", 1), rebuild=rebuild.element_shape(1)),
    # A value that one branch of a choice returns, and others do not.
    **_many(Meaning(reason="it is an optional, or its value"), "optional optional_value"),
    # Control flow.
    **_many(Meaning(reason="it holds sub-graphs, which are split one by one"), "cond switch"),
    "loop": Meaning(reason="it is split already"),
    "nonzero": Meaning(reason="its size depends on the values of its operands"),
    "running_top_k": Meaning(),
    "while": Meaning(reason="its iterations depend on each other"),
}  # fmt: skip

UNKNOWN = Meaning()
"""The meaning of an op that is in no table."""


def make(op: str, inputs: Sequence[Tensor], attrs: Mapping[str, object], name: str) -> Node | None:
    """Make a node; None if rewrites cannot make `op`. Shapes must be static."""
    record = VOCABULARY.get(op)
    if record is None or record.shape is None:
        return None
    merged = {**record.attrs, **attrs}
    kind = record.dtype_of
    dtype = str(attrs.get("dtype", kind if isinstance(kind, str) else inputs[kind].dtype))
    output = Tensor(record.shape(inputs, merged), dtype, name)
    return Node(op, tuple(inputs), (output,), merged, name=name)
