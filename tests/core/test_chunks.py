"""Sizes of chunks: even, aligned, and never more than asked for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.kernels import InPlaceOps
from tf_exla.frontends.numpy import trace
from tf_exla.ir.graph import Graph, Loop, Tensor
from tf_exla.model.options import Options
from tf_exla.model.projection import Projector
from tf_exla.split.loops.chunks import even_chunk, fit_loops, has_loops
from tf_exla.split.search import split


@pytest.mark.parametrize(
    ("extent", "most", "dtype", "chunk"),
    [
        (60_000, 1023, "float64", 1000),
        (60_000, 1024, "float64", 1024),  # 58 full ones and 608 more
        (60_000, 1449, "float32", 1440),
        (100, 30, "float64", 25),  # too short for rows that are aligned
        (100, 100, "float64", 100),
        (101, 1000, "float64", 101),
        (7, 1, "float64", 1),
    ],
)
def test_even_chunk(extent: int, most: int, dtype: str, chunk: int) -> None:
    assert even_chunk(extent, most, Tensor((extent, 10), dtype, "x")) == chunk


@given(st.integers(1, 10**7), st.integers(1, 10**5), st.sampled_from(["bool", "float64", "int32"]))
def test_a_chunk_takes_no_more_iterations_than_the_largest_aligned_one(
    extent: int, most: int, dtype: str
) -> None:
    tensor = Tensor((extent,), dtype, "x")
    chunk = even_chunk(extent, most, tensor)
    assert 1 <= chunk <= most
    assert chunk <= extent
    aligned = 64 // {"bool": 1, "float64": 8, "int32": 4}[dtype]
    if 4 * aligned <= most < extent:
        assert chunk % aligned == 0
        most -= most % aligned
    assert -(-extent // chunk) <= -(-extent // most)


def test_loops_in_loops_take_the_room_that_there_is() -> None:
    graph = trace(lambda xp, x, y: xp.sum(xp.exp(x @ y), axis=1), (3000, 3), (3, 2000))
    projector, options = Projector(InPlaceOps()), Options(chunk_bytes=1 << 20, body_bytes=3 << 19)
    smallest = split(projector, graph, 0, options).graph
    assert chunk_inside(smallest) == 1
    room = projector.working_set(smallest) + 400_000
    fitted = fit_loops(projector, smallest, room, options)
    assert chunk_inside(fitted) > 100
    assert projector.working_set(fitted) <= room


def chunk_inside(graph: Graph) -> int:
    outer = next(node for node in graph.nodes if isinstance(node, Loop) and has_loops(node))
    return max(node.chunk for node in outer.body.nodes if isinstance(node, Loop))


def test_chunks_made_smaller_for_the_cache_hold_the_room_too() -> None:
    """More iterations of a smaller chunk run side by side than of one that fits alone."""

    def fn(xp: Any, x: Any, y: Any) -> Any:
        scores = x @ y
        return xp.sum(scores * xp.exp(scores), axis=1)

    graph = trace(fn, (901, 3), (3, 2500))
    projector = Projector(InPlaceOps())
    options = Options(chunk_bytes=16 << 20, body_bytes=24 << 20, cores=2)
    for budget in (25 << 20, 28 << 20, 30 << 20):
        made = fit_loops(projector, split(projector, graph, budget, options).graph, budget, options)
        assert projector.working_set(made) <= budget


def test_chunks_are_contiguous_where_they_can_be() -> None:
    """Slices of the last axis would copy number by number."""

    def fn(xp: Any, x: Any) -> Any:
        made = xp.exp(x)
        return made / xp.sum(made, 1, keepdims=True)

    graph = trace(fn, (3, 20_000, 16))
    projector = Projector(InPlaceOps())
    made = split(projector, graph, int(0.7 * projector.working_set(graph)), Options()).graph
    loops = [node for node in made.nodes if isinstance(node, Loop)]
    assert loops
    assert 2 not in {slot.axis for loop in loops for slot in loop.slots if slot}
