"""Shapes that are kept are those of the same op on the same operands only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tf_exla.frontends.tf.nodes import shape_inference
from tf_exla.frontends.tf.nodes.shape_inference import MisfitError, Operand, infer_shapes

X = Operand("float32", (2, 3))


def integers(*values: int) -> Operand:
    return Operand("int32", (len(values),), np.array(values, np.int32))


@pytest.mark.parametrize(
    ("op", "pairs"),
    [
        ("Reshape", [([X, integers(6)], {}, [6]), ([X, integers(3, 2)], {}, [3, 2])]),
        ("Tile", [([X, integers(1, 2)], {}, [2, 6]), ([X, integers(2, 1)], {}, [4, 3])]),
        (
            "MatMul",
            [
                ([X, Operand("float32", (3, 5))], {"transpose_b": False}, [2, 5]),
                ([X, Operand("float32", (5, 3))], {"transpose_b": True}, [2, 5]),
                ([X, Operand("float32", (None, 3))], {"transpose_b": True}, [2, None]),
            ],
        ),
        (
            "Fill",  # an object array's own bytes are addresses
            [
                ([integers(4), Operand("string", (), np.array(text, object))], {}, [4])
                for text in (b"one", b"other")
            ],
        ),
    ],
)  # fmt: skip
def test_values_and_attributes_count(
    op: str, pairs: Sequence[tuple[Sequence[Operand], Mapping[str, Any], Sequence[int | None]]]
) -> None:
    for _ in range(2):
        for operands, attrs, expected in pairs:
            (shape,) = infer_shapes(op, operands, attrs)
            assert shape.as_list() == list(expected)


def test_what_is_kept_is_not_inferred_again(monkeypatch: pytest.MonkeyPatch) -> None:
    operands = [Operand("float64", (7, 11)), Operand("float64", (11, 13))]
    first = infer_shapes("MatMul", operands, {})
    monkeypatch.setattr(shape_inference, "emit", None)
    assert infer_shapes("MatMul", operands, {"_device": "/CPU:0"}) == first


def test_operands_that_do_not_fit() -> None:
    for _ in range(2):
        with pytest.raises(MisfitError, match="Dimensions must be equal"):
            infer_shapes("MatMul", [X, X], {})


def test_shapes_of_variables_are_not_kept() -> None:
    """The handle of a variable has neither the shape nor the dtype of its values."""
    for size in (3, 5):
        with tf.Graph().as_default():
            handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[size])
        operand = Operand("resource", (), like=handle)
        (shape,) = infer_shapes("ReadVariableOp", [operand], {"dtype": "float32"})
        assert shape.as_list() == [size]
