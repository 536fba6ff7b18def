"""Products with a short axis in a module for a GPU; here XLA compiles it for the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tf_exla.frontends.tf.capture import capture
from tf_exla.frontends.tf.restore import narrow_products, restore


def normal(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).normal(size=shape)


def restored(function: Any, *arrays: Any) -> tuple[list[Any], list[Any], set[str]]:
    """Return the results of a module and of TensorFlow, and the ops of the module."""
    arguments = [tf.constant(one) for one in arrays]
    captured = capture(tf.function(function).get_concrete_function(*arguments))
    made = restore(captured.graph, compiled=True)
    found = made([*arguments, *captured.constants])
    ops = {op.type for op in made.graph.get_operations()}
    return found, tf.nest.flatten(function(*arguments)), ops


@pytest.fixture(autouse=True)
def _gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(narrow_products, "device", lambda: "GPU")


@pytest.mark.parametrize("flips", [(a, b) for a in (False, True) for b in (False, True)], ids=str)
@pytest.mark.parametrize("sizes", [(40, 3, 37), (40, 8, 37), (1, 50, 9), (9, 50, 1), (1, 50, 1),
                                   (17, 1, 18), (40, 3, 1), (2, 2, 2)], ids=str)  # fmt: skip
@pytest.mark.parametrize("batches", [((), ()), ((2,), (2,)), ((4, 1), (5,)), ((), (3,))], ids=str)
def test_numbers(flips: Any, sizes: Any, batches: Any) -> None:
    m, k, n = sizes
    a = normal(*batches[0], *((k, m) if flips[0] else (m, k)))
    b = normal(*batches[1], *((n, k) if flips[1] else (k, n)))

    def function(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        return tf.exp(tf.matmul(a, b, transpose_a=flips[0], transpose_b=flips[1]) / 9)

    found, expected, ops = restored(function, a, b)
    np.testing.assert_allclose(found[0], expected[0], 1e-13)
    narrow = (k <= 8 and k < min(m, n)) or 1 in (m, n)
    assert narrow == (not ops & {"MatMul", "BatchMatMulV2"})


def test_other_products_stay() -> None:
    a, b = normal(40, 9), normal(9, 30)
    assert "MatMul" in restored(tf.matmul, a, b)[2]
    assert "MatMul" in restored(tf.matmul, normal(40, 0), normal(0, 30))[2]
    short = normal(40, 3).astype(np.float32)
    assert "MatMul" in restored(lambda a: tf.matmul(a, a, transpose_b=True), short)[2]


def test_other_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(narrow_products, "device", lambda: "CPU")
    assert "MatMul" in restored(lambda a: tf.matmul(a, a, transpose_b=True), normal(40, 3))[2]
