"""Places: whatever order the runtime chooses among nodes that may run, the peak is as projected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random

import pytest

from core.kernels import InPlaceOps
from tf_exla.frontends.numpy.trace import Array, Tracer
from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.model.concurrency import Place, places
from tf_exla.model.projection import Projector

OPS = InPlaceOps()


def drawn(rng: Random) -> Graph:
    """Return a random graph whose tensors differ in size, die at once or live long."""
    xp = Tracer()
    pool: list[Array] = [xp.input((rng.choice([8, 64]), 1024)) for _ in range(2)]
    for _ in range(rng.randint(4, 25)):
        a = rng.choice(pool[-4:])
        kind = rng.choice(["add", "exp", "exp", "view", "sum", "tile"])
        if kind == "add":
            pool.append(a + rng.choice([b for b in pool if b.shape == a.shape]))
        elif kind == "exp":
            pool.append(xp.exp(a))
        elif kind == "view":
            pool.append(xp.expand_dims(a, 0))
        elif kind == "sum" and len(a.shape) > 1:
            pool.append(xp.sum(a, axis=0))
        else:
            pool.append(xp.concat([a, a], axis=0))
    outputs = [*rng.sample(pool[2:], 2), pool[-1]]
    return xp.graph(*outputs)


class Runtime:
    """An executor that starts any node whose operands exist and whose place allows it."""

    def __init__(self, graph: Graph, where: Mapping[Node, Place], rng: Random) -> None:
        self.graph, self.where, self.rng = graph, where, rng
        self.uses = Counter(t for node in graph.nodes for t in node.inputs)
        self.uses.update(graph.outputs)
        self.buffer: dict[Tensor, Tensor] = {t: t for t in graph.inputs}
        self.holders = Counter({t: 1 + self.uses[t] for t in graph.inputs})  # the caller holds them
        self.size: dict[Tensor, int] = dict.fromkeys(graph.inputs, 0)
        self.peak = self.most = 0

    def run(self) -> int:
        """Return the largest sum of buffers."""
        waiting, running = list(self.graph.nodes), list[Node]()
        finished: set[Node] = set()
        while waiting or running:
            ready = [node for node in waiting if self._may_start(node, finished)]
            if ready and (not running or self.rng.random() < 0.6):
                node = self.rng.choice(ready)
                waiting.remove(node)
                running.append(node)
                self._start(node)
                self.most = max(self.most, len(running))
            else:
                node = running.pop(self.rng.randrange(len(running)))
                self._finish(node)
                finished.add(node)
        return self.peak

    def _may_start(self, node: Node, finished: set[Node]) -> bool:
        makers = (one for one in self.graph.nodes if set(one.outputs) & set(node.inputs))
        first = self.graph.nodes[: self.where[node].after]
        return all(one in finished for one in (*makers, *first))

    def _start(self, node: Node) -> None:
        (made,) = node.outputs
        source = self.buffer.get(node.inputs[0]) if node.inputs else None
        in_place = OPS.forwards(node) and source is not None and self.holders[source] == 1
        if source is not None and (OPS.aliases(node) or (in_place and self.size[source])):
            self.buffer[made] = source
        else:
            self.buffer[made] = made
            self.size[made] = 0 if node.op == "constant" else made.nbytes
        self.holders[self.buffer[made]] += self.uses[made] + 1  # the node, until it is finished
        alive = (size for one, size in self.size.items() if self.holders[one])
        self.peak = max(self.peak, sum(alive))

    def _finish(self, node: Node) -> None:
        for tensor in (*node.inputs, node.output):
            self.holders[self.buffer[tensor]] -= 1


@pytest.mark.parametrize("seed", range(40))
def test_any_order_of_free_nodes_needs_the_projected_peak(seed: int) -> None:
    graph = drawn(Random(seed))
    projector = Projector(OPS)
    where = places(projector, graph)
    peaks = [Runtime(graph, where, Random(k)).run() for k in range(12)]
    assert max(peaks) <= projector.project(graph).working_set


def test_the_runtime_exceeds_the_peak_without_places() -> None:
    exceeded = 0
    for seed in range(60):
        graph = drawn(Random(seed))
        free = {node: Place(k, 0) for k, node in enumerate(graph.nodes)}
        peaks = [Runtime(graph, free, Random(k)).run() for k in range(12)]
        exceeded += max(peaks) > Projector(OPS).project(graph).working_set
    assert exceeded > 20


def test_nodes_are_free_where_the_peak_has_room() -> None:
    xp = Tracer()
    x = xp.input((1024,))
    small = [xp.exp(x + float(k)) for k in range(4)]
    large = xp.concat([*small, *small], axis=0)
    graph = xp.graph(xp.sum(large))
    where = places(Projector(OPS), graph)
    first = [node for node in graph.nodes if node.op in ("add", "exp")]
    assert [where[node].after for node in first] == [0] * len(first)
    runtime = Runtime(graph, where, Random(0))
    runtime.run()
    assert runtime.most > 1
