"""What a search has made is freed when it ends, without a collection of garbage."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from core.kernels import InPlaceOps
from tf_exla.errors import MemoryLimitError
from tf_exla.frontends.numpy import trace
from tf_exla.model.options import Options
from tf_exla.model.projection import Projector
from tf_exla.pipeline.collecting import rare_collections
from tf_exla.pipeline.optimize import optimize_graph

OPTIONS = Options(cores=2)


@pytest.fixture(name="alive")
def _alive(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[weakref.ref[Projector]]]:
    """The projectors of searches; each refers to all graphs that its search has made."""
    made: list[weakref.ref[Projector]] = []
    begin = Projector.__post_init__

    def recorded(self: Projector) -> None:
        begin(self)
        made.append(weakref.ref(self))

    monkeypatch.setattr(Projector, "__post_init__", recorded)
    gc.disable()
    yield made
    gc.enable()


def _softmax(xp: Any, q: Any, k: Any, v: Any) -> Any:
    s = q @ k.T
    e = xp.exp(s - xp.max(s, axis=1)[:, None])
    return e @ v, xp.top_k(xp.exp(q @ k.T), 3)[0]


def test_searches_are_freed(alive: list[weakref.ref[Projector]]) -> None:
    graph = trace(_softmax, (701, 3), (503, 3), (503, 2))
    with pytest.raises(MemoryLimitError) as info:
        optimize_graph(graph, InPlaceOps(), limit=1, options=OPTIONS)
    assert alive
    assert not any(one() for one in alive), "the error keeps the search alive"
    limits = info.value.smallest_limit, 10**12
    plans = [optimize_graph(graph, InPlaceOps(), limit=one, options=OPTIONS) for one in limits]
    assert plans[0].steps
    assert not any(one() for one in alive), "the plan keeps the search alive"


def test_thresholds_are_restored() -> None:
    before = gc.get_threshold()
    with rare_collections(), rare_collections():
        assert gc.get_threshold()[0] > before[0]
    assert gc.get_threshold() == before
