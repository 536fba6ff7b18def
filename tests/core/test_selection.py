"""Elements of sorted tensors, found by a radix select."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from core.kernels import InPlaceOps
from core.rewritten import only, random, rewritten
from tf_exla.errors import MemoryLimitError
from tf_exla.frontends.numpy import NUMPY, evaluate, trace
from tf_exla.ir.graph import Array, Graph
from tf_exla.model.options import Options
from tf_exla.model.settings import SETTINGS
from tf_exla.pipeline.optimize import optimize_graph

SELECTION = only("selection")
N = 21_001
READ: dict[str, Callable[..., Any]] = {
    "an element": lambda xp, x: xp.sort(x)[N // 2],
    "the last": lambda xp, x: xp.sort(x)[-1],
    "a slice": lambda xp, x: xp.sort(x)[7:13:2],
    "given places": lambda xp, x: xp.take(xp.sort(x), np.array([[0, 5], [N - 1, 5]], "int32")),
    "two readers": lambda xp, x: xp.sort(x)[3] + xp.sort(x)[N - 4],
    "of all top k": lambda xp, x: xp.top_k(x, N)[0][10],
    "of many top k": lambda xp, x: xp.top_k(x, N // 2)[0][100:102],
    "rising by top k": lambda xp, x: (-xp.top_k(-x, N)[0])[10],
    "with the sign": lambda xp, x: xp.top_k(-x, N)[0][10],
    "falling by sort": lambda xp, x: (-xp.sort(-x))[10],
    "both signs": lambda xp, x: xp.stack([(-xp.sort(x))[10], xp.sort(x)[11]]),
    "computed places": lambda xp, x: xp.take(
        xp.sort(x),
        xp.minimum(xp.maximum(xp.astype(xp.round(1e4 * x[:3]), "int32"), 0), N - 1),
    ),
}


def arrays() -> dict[str, Array]:
    normal = random(N)
    return {
        "normal": normal,
        "ties": np.round(normal * 3),
        "equal": np.full(N, 0.5),
        "all magnitudes": np.sign(normal) * np.exp(80 * normal),
        "infinities": np.where(np.abs(normal) > 1.5, np.inf * normal, normal),
        "zeros": np.where(np.abs(normal) < 1, normal * 0.0, normal),
        "denormal": normal * 1e-310,
    }


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", READ)
def test_elements_are_those_of_the_sorted_tensor(name: str, dtype: str) -> None:
    for x in arrays().values():
        with np.errstate(all="ignore"):
            x = x.astype(dtype)
            want = READ[name](NUMPY, x)
        graph = rewritten(READ[name], x, families=SELECTION).result.graph
        assert not {"sort", "top_k"} & {node.op for node in graph.nodes}
        (got,) = evaluate(graph, x)
        assert got.dtype == dtype
        np.testing.assert_array_equal(got, want)


def test_nans_come_last() -> None:
    x = random(N)
    x[::7] = np.nan
    x[::21] = -x[::21]  # with the sign bit
    graph = rewritten(lambda xp, x: xp.sort(x)[N // 2 :: N // 3], x, families=SELECTION)
    np.testing.assert_array_equal(evaluate(graph.result.graph, x)[0], np.sort(x)[N // 2 :: N // 3])


@pytest.mark.parametrize(
    "fn",
    [
        lambda xp, x: [xp.sort(x)[5], xp.sort(x)],
        lambda xp, x: [xp.sort(x)[5], xp.sort(x) + 1.0],
        lambda xp, x: xp.sort(x)[: SETTINGS.selected + 1],
        lambda xp, x: xp.sort(x[:50])[5],
        lambda xp, x: xp.top_k(x, 1000)[0][5],
        lambda xp, x: [xp.top_k(x, N)[0][5], xp.top_k(x, N)[1][5]],
        lambda xp, x: xp.take(xp.sort(x), xp.astype(x[:3], "int32")),
        lambda xp, x: xp.take(xp.sort(x), xp.minimum(xp.astype(x[:3], "int32"), N - 1)),
        lambda xp, x: xp.sort(xp.reshape(x[:21_000], [100, 210]))[5],
        lambda xp, x: xp.sort(xp.astype(x, "int32"))[5],
    ],
)  # fmt: skip
def test_other_sorts_stay(fn: Callable[..., Any]) -> None:
    assert not rewritten(fn, random(N), families=SELECTION).names


def pairs(xp: Any, x: Any) -> Any:
    """Quantiles of the distances of pairs, and how many are below the median."""
    squares = xp.sum(x * x, axis=1)
    distances = squares[:, None] + squares[None] - 2.0 * xp.matmul(x, x, transpose_b=True)
    ordered = xp.sort(xp.reshape(distances, [ROWS * ROWS]))
    median = ordered[ROWS * ROWS // 2]
    below = xp.sum(xp.astype(xp.less_equal(distances, median), "int32"))
    return [median, ordered[3 * ROWS], xp.astype(below, "float64")]


OPTIONS = Options(chunk_bytes=1 << 16, body_bytes=3 << 15, cached=False, cores=2)
ROWS = 401


def smallest(graph: Graph) -> int:
    with pytest.raises(MemoryLimitError) as info:
        optimize_graph(graph, InPlaceOps(), limit=1, options=OPTIONS)
    return info.value.smallest_limit


def test_distances_are_not_held() -> None:
    x = random(ROWS, 3)
    graph = trace(pairs, x)
    expected = evaluate(graph, x)
    least = smallest(graph)
    assert least < (1 << 20) + 8 * ROWS**2 // 4
    for limit in (least, least + least // 10, 2 * least):
        plan = optimize_graph(graph, InPlaceOps(), limit=limit, options=OPTIONS)
        assert plan.projected_peak <= limit
        found = evaluate(plan.graph, x)
        np.testing.assert_allclose(found[:2], expected[:2], rtol=1e-12)
        assert found[2] == expected[2]
