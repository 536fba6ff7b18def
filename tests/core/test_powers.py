"""Powers with known exponents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tf_exla.frontends.numpy import evaluate, trace
from tf_exla.ir.check import check_graph
from tf_exla.ir.traverse import walk


@pytest.mark.parametrize(
    ("exponent", "ops"),
    [
        (0, ["ones_like"]),
        (1, ["identity"]),
        (np.array([[1.0]]), ["identity"]),
        (np.full((3, 4), 2.0), ["square"]),
        (2, ["square"]),
        (3, ["square", "multiply"]),
        (-1, ["divide"]),
        (0.5, ["sqrt"]),
        (-0.5, ["rsqrt"]),
        (4, ["pow"]),
        (np.full((2, 3, 4), 2.0), ["pow"]),  # broadcasts
        (np.array([[1.0, 2.0, 2.0, 2.0]]), ["pow"]),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_power(exponent: Any, ops: list[str], dtype: str) -> None:
    x = np.random.default_rng(0).uniform(0.5, 2.0, (3, 4)).astype(dtype)
    if dtype == "complex128":
        x = x * (1 + 2j)
        ops = ["pow"] if ops == ["divide"] else ops
    exponent = np.asarray(exponent, dtype)
    graph = trace(lambda xp, x: x**exponent, x)
    check_graph(graph)
    assert [node.op for node in walk(graph) if node.op != "constant"] == ops
    (found,) = evaluate(graph, x)
    assert found.dtype == x.dtype
    np.testing.assert_allclose(found, x**exponent, rtol=1e-6 if dtype == "float32" else 1e-14)


def test_a_power_inside_a_loop() -> None:
    x = np.arange(3.0)
    graph = trace(
        lambda xp, x: xp.while_loop(
            lambda xp, k, y: k < 2, lambda xp, k, y: (k + 1, y**2), (np.int32(0), x)
        )[1],
        x,
    )
    ops = {node.op for node in walk(graph)}
    assert "square" in ops
    assert "pow" not in ops
    np.testing.assert_array_equal(evaluate(graph, x)[0], x**4)
