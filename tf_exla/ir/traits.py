"""Properties of the ops of the vocabulary that passes rely on."""

from __future__ import annotations

from collections.abc import Mapping

IDENTITIES = frozenset({"identity", "identity_n", "prevent_gradient", "snapshot", "stop_gradient"})
"""Ops whose results are their operands."""
RESHAPES = frozenset({"expand_dims", "reshape", "squeeze"})
"""Ops whose result has the elements of operand 0 in the same order."""
MATRIX_PRODUCTS = frozenset({"batch_matmul", "matmul"})
REDUCTIONS = frozenset({"all", "any", "max", "mean", "min", "prod", "sum"})
"""Reductions of the axes that operand 1 holds."""
EXTREMES = frozenset(
    {"argmax", "argmin", "max", "max_with_position", "min", "min_with_position", "top_k"}
)
"""Ops whose results are chosen from the elements of operand 0, or are positions of these."""

COMMUTATIVE = frozenset(
    {
        "add", "equal", "logical_and", "logical_or", "maximum", "minimum", "multiply", "not_equal",
    }
)  # fmt: skip
"""f(a, b) = f(b, a)."""
EVEN = frozenset({"abs", "cos", "cosh"})
"""f(-x) = f(x). (Squares are products.)"""
ODD = frozenset({"asin", "asinh", "atan", "erf", "sign", "sin", "sinh", "tan", "tanh"})
"""f(-x) = -f(x)."""

EQUALITY = frozenset({"equal", "not_equal"})
ORDER = frozenset({"greater", "greater_equal", "less", "less_equal"})

LINEAR: Mapping[str, tuple[int, ...]] = {
    "astype": (0,),
    "batch_matmul": (0, 1),
    "broadcast_to": (0,),
    "divide": (0,),
    "einsum": (0, 1),
    "expand_dims": (0,),
    "identity": (0,),
    "matmul": (0, 1),
    "multiply": (0, 1),
    "negative": (0,),
    "permute_dims": (0,),
    "reshape": (0,),
    "slice": (0,),
    "squeeze": (0,),
    "stop_gradient": (0,),
    "strided_slice": (0,),
    "sum": (0,),
    "where": (1, 2),
    "zeros_like": (0,),
}
"""Ops that are linear in each of these operands if the others are fixed."""
ADDITIVE = frozenset({"add", "add_n", "subtract", "where"})
"""Ops that are linear in all their data operands together."""
