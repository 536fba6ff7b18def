"""Programs in shards: the same numbers for any number of devices, each within the limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from core.kernels import InPlaceOps
from core.test_split import gram, matvec, softmax
from tf_exla.errors import MemoryLimitError
from tf_exla.frontends.numpy import evaluate, trace
from tf_exla.ir.graph import Graph, Loop
from tf_exla.model.options import Options
from tf_exla.pipeline.optimize import optimize_graph
from tf_exla.pipeline.plan import Plan
from tf_exla.shard.by_chunks import shard_chunks
from tf_exla.shard.by_rows import shard_rows
from tf_exla.shard.choose import shard_graph
from tf_exla.shard.link import GRPC, LOCAL, Link
from tf_exla.shard.loops import Fleet
from tf_exla.shard.parts import ShardedPart, parts_of
from tf_exla.shard.plan import PlannedLoop, ShardedPlan

OPTIONS = Options(cores=2, chunk_bytes=1 << 24, body_bytes=3 << 23)
FREE = Link(0.0, 0.0)
MB = 10**6


def extremes() -> Graph:
    """Largest and smallest numbers of rows and columns, and whether any is above 9."""

    def fn(xp: Any, x: Any, y: Any) -> Any:
        s = xp.exp(x @ y.T)
        return xp.max(s, axis=0), xp.min(s, axis=0), xp.sum(s * s, axis=0), xp.max(s, axis=1)

    return trace(fn, (3001, 8), (1009, 8))


def two_kernels() -> Graph:
    """Two regions that have nothing in common, and a constant as a result."""

    def fn(xp: Any, x: Any, y: Any) -> Any:
        def mean(a: Any) -> Any:
            return xp.sum(xp.exp(a @ a.T * 0.1)) / a.shape[0] ** 2

        return mean(x) + mean(y), np.float64(3.0) * xp.sum(x, axis=0) * 0.0 + 2.0

    return trace(fn, (2003, 4), (1999, 4))


PROGRAMS: list[Callable[[], Graph]] = [
    lambda: matvec(9973),
    lambda: gram(12007),
    lambda: softmax(3001),
    extremes,
    two_kernels,
]


def fleet(devices: int, shards: int | None = None, link: Link = FREE, **more: Any) -> Fleet:
    return Fleet(devices, shards or devices, link, **more)


def planned(graph: Graph, devices: Fleet, limit: int = 400 * MB) -> Plan:
    return shard_graph(graph, InPlaceOps(), devices, limit=limit, options=OPTIONS)


def rows(graph: Graph, devices: Fleet, limit: int = 400 * MB) -> ShardedPlan:
    made = shard_rows(graph, InPlaceOps(), devices, limit, OPTIONS, "function")
    assert made is not None
    return made


def arrays(graph: Graph) -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=tensor.dims) * 0.3 for tensor in graph.inputs]


def loops(plan: Plan) -> list[Loop]:
    assert isinstance(plan, ShardedPlan)
    return [part.loop for part in plan.parts if isinstance(part, PlannedLoop)]


@pytest.mark.parametrize("make", PROGRAMS)
@pytest.mark.parametrize("devices", [2, 3, 7])
def test_the_same_numbers(make: Callable[[], Graph], devices: int) -> None:
    graph = make()
    plan = rows(graph, fleet(devices))
    assert loops(plan)
    assert all(2 <= loop.iterations <= devices for loop in loops(plan))
    inputs = arrays(graph)
    for got, want in zip(evaluate(plan.graph, *inputs), evaluate(graph, *inputs), strict=True):
        scale = np.abs(want).max()
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12 * scale)


@pytest.mark.parametrize("make", PROGRAMS)
def test_parts_make_what_others_read(make: Callable[[], Graph]) -> None:
    """Parts, run one after the other on what earlier ones made, are the program."""
    graph = make()
    plan = rows(graph, fleet(3))
    inputs = arrays(graph)
    values = dict(zip(plan.graph.inputs, inputs, strict=True))
    for part in plan.parts:
        if isinstance(part, PlannedLoop):
            one = Graph(part.loop.inputs, (part.loop,), part.loop.outputs)
        else:
            one = part.graph
        made = evaluate(one, *(values[tensor] for tensor in one.inputs))
        values.update(zip(part.outputs, made, strict=True))
    want = evaluate(graph, *inputs)
    for tensor, expected in zip(plan.graph.outputs, want, strict=True):
        np.testing.assert_allclose(values[tensor], expected, rtol=1e-9, atol=1e-9)


def test_shards_are_of_one_size() -> None:
    plan = rows(matvec(9973), fleet(4))
    (loop,) = loops(plan)
    (part,) = [
        part
        for part in parts_of(Graph(loop.inputs, (loop,), loop.outputs))
        if isinstance(part, ShardedPart)
    ]
    assert part.loop is loop
    assert loop.chunk == -(-9973 // 4)
    (one,) = plan.parts
    assert isinstance(one, PlannedLoop)
    sizes = list(map(len, one.shards))
    assert sum(sizes) == 9973
    assert max(sizes) - min(sizes) <= 3


def test_more_shards_than_devices() -> None:
    (loop,) = loops(rows(matvec(9973), fleet(2, 6)))
    assert loop.iterations == 6


def test_each_device_holds_the_limit() -> None:
    graph = gram(12007)
    for limit in (40 * MB, 8 * MB, 4 * MB):
        plan = planned(graph, fleet(3), limit)
        assert isinstance(plan, ShardedPlan)
        assert len(plan.uses) == 3
        assert all(0 < use.projected_peak <= limit for use in plan.uses)
        assert plan.projected_peak == max(use.projected_peak for use in plan.uses)
    whole = planned(graph, fleet(3), 4 * MB)
    assert any(isinstance(node, Loop) for loop in loops(whole) for node in _body(whole, loop).nodes)


def _body(plan: Plan, loop: Loop) -> Graph:
    return next(
        node.body for node in plan.graph.nodes if isinstance(node, Loop) and node.name == loop.name
    )


def test_a_limit_that_a_device_cannot_hold_is_told() -> None:
    with pytest.raises(MemoryLimitError) as caught:
        planned(gram(12007), fleet(3), 100_000)
    assert caught.value.smallest_limit > 100_000
    holding = planned(gram(12007), fleet(3), 8 * MB)
    assert holding.projected_peak <= 8 * MB


def test_a_driver_apart_holds_no_shard() -> None:
    plan = rows(matvec(9973), fleet(2, 4, GRPC, remote=True))
    assert [use.name for use in plan.uses] == ["driver", "device 0", "device 1"]
    driver, *devices = plan.uses
    assert driver.projected_peak < min(one.projected_peak for one in devices) + 2 * MB


def test_one_device_is_one_plan() -> None:
    assert not isinstance(planned(matvec(9973), fleet(1)), ShardedPlan)


def test_what_is_sent_costs() -> None:
    """A product that takes less time than its operands need on the way stays where it is."""
    graph = trace(lambda xp, x, y: xp.sum(xp.exp(x) * y, axis=0), (2003, 997), (2003, 997))
    slow = Link(1.0, 1e-6)
    assert not isinstance(planned(graph, fleet(4, link=slow)), ShardedPlan)
    assert isinstance(planned(graph, fleet(4)), ShardedPlan)


def test_the_estimate_divides_the_work() -> None:
    for devices in (2, 4):
        plan = planned(matvec(9973), fleet(devices, link=LOCAL))
        assert isinstance(plan, ShardedPlan)
        assert 0.8 * devices < plan.seconds_on_one / plan.seconds_sharded <= devices


def test_numbers_that_are_compared_to_the_bit_stay_on_one_device() -> None:
    """The gradient of a maximum looks for what is equal to it in another stage."""

    def fn(xp: Any, x: Any, y: Any) -> Any:
        s = xp.exp(x @ y.T)
        top = xp.max(s, axis=0)
        return xp.sum(xp.where(s == xp.expand_dims(top, 0), s, s * 0.0) @ y, axis=0), top

    graph = trace(fn, (4001, 6), (1009, 6))
    plan = planned(graph, fleet(3))
    inputs = arrays(graph)
    for got, want in zip(evaluate(plan.graph, *inputs), evaluate(graph, *inputs), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10)


def symmetric(n: int = 2003) -> Graph:
    """K(X, X) v, of which tiles below the diagonal are enough."""

    def fn(xp: Any, x: Any, v: Any) -> Any:
        return xp.exp(x @ x.T * 0.1) @ v

    return trace(fn, (n, 3), (n, 2))


CHUNKED: list[Callable[[], Graph]] = [
    symmetric,
    lambda: symmetric(2048),
    lambda: matvec(9973),
    extremes,
]


@pytest.mark.parametrize("make", CHUNKED)
@pytest.mark.parametrize("devices", [2, 3, 5])
def test_shards_of_chunks_have_the_numbers_of_one_device(
    make: Callable[[], Graph], devices: int
) -> None:
    graph = make()
    ops = InPlaceOps()
    options = Options(cores=2, chunk_bytes=1 << 18, body_bytes=3 << 17)
    alone = optimize_graph(graph, ops, limit=3 * MB, options=options)
    plan = shard_chunks(alone, ops, fleet(devices), 3 * MB, options, "function")
    assert plan is not None
    inputs = arrays(graph)
    want = evaluate(graph, *inputs)
    values = dict(zip(plan.graph.inputs, inputs, strict=True))
    for part in plan.parts:
        if not isinstance(part, PlannedLoop):
            one = Graph(part.inputs, part.graph.nodes, part.outputs)
            made = evaluate(one, *(values[tensor] for tensor in part.inputs))
            values.update(zip(part.outputs, made, strict=True))
            continue
        assert len(part.shards) == devices
        assert part.shards[0].start == 0
        assert part.shards[-1].stop == part.loop.extent
        operands = [values[tensor] for tensor in part.inputs]
        made = [evaluate(graph, *operands) for graph in part.graphs]
        for k, (tensor, result) in enumerate(zip(part.outputs, part.loop.results, strict=True)):
            column = [results[k] for results in made]
            if result.slot is not None:
                values[tensor] = np.concatenate(column, result.slot.axis)
            else:
                values[tensor] = {"add": np.add, "max": np.maximum, "min": np.minimum}[
                    result.combine
                ].reduce(column)
    for tensor, expected in zip(plan.graph.outputs, want, strict=True):
        scale = np.abs(expected).max()
        np.testing.assert_allclose(values[tensor], expected, rtol=1e-10, atol=1e-12 * scale)
    assert all(use.projected_peak <= 3 * MB for use in plan.uses)


def test_symmetric_tiles_are_divided_by_their_work() -> None:
    """The k-th chunk has k tiles: the first shard has more chunks than the last."""
    plan = planned(symmetric(12007), fleet(2), 60 * MB)
    assert isinstance(plan, ShardedPlan)
    (part,) = [part for part in plan.parts if isinstance(part, PlannedLoop)]
    first, last = map(len, part.shards)
    assert first == pytest.approx(12007 / 2**0.5, rel=0.1)
    assert first + last == 12007
    assert plan.seconds_on_one is not None
    assert plan.seconds_on_one / plan.seconds_sharded == pytest.approx(2, rel=0.1)


def test_local_parts_take_constants_along() -> None:
    plan = planned(two_kernels(), fleet(2))
    assert isinstance(plan, ShardedPlan)
    made = set(plan.graph.inputs)
    for part in parts_of(plan.graph):
        assert made.issuperset(part.inputs)
        made.update(part.outputs)
    assert made.issuperset(plan.graph.outputs)
