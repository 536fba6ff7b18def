"""The work of planning: what is spent on speed alone is bounded, by a count and not by time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tf_exla.frontends.numpy import evaluate, trace
from tf_exla.model.cost import graph_seconds
from tf_exla.model.effort import Effort, OutOfEffortError
from tf_exla.model.options import Options
from tf_exla.model.projection import Projector
from tf_exla.split.search import split
from tf_exla.vocabulary.op_set import VocabularyOps

ROWS, COLUMNS, WIDTH = 1501, 1203, 40


def normalized_twice(xp: Any, x: Any, y: Any) -> Any:
    """Three passes over one kernel matrix, each of which needs the sums of the one before."""
    k = xp.exp(xp.tanh(xp.sin(xp.matmul(x, y))))
    k = k / xp.sum(k, 1, keepdims=True)
    k = k / xp.sum(k, 0, keepdims=True)
    return xp.sum(k * k, 1)


def test_only_work_for_speed_is_bounded() -> None:
    effort = Effort(left=10)
    effort.walk(1000)
    effort.tick()
    with effort.for_speed():
        effort.walk(10)
        effort.tick()
        with effort.for_speed():
            effort.walk(1)
        with pytest.raises(OutOfEffortError):  # the outer context is for speed as well
            effort.tick()
        effort.tick()
        raise AssertionError("nothing is left, so the context has ended")
    effort.tick()


def test_without_effort_a_plan_is_within_the_limit_and_may_be_slower() -> None:
    ops, shapes = VocabularyOps(), [(ROWS, WIDTH), (WIDTH, COLUMNS)]
    graph = trace(normalized_twice, *shapes)
    budget = int(0.8 * Projector(ops).working_set(graph))

    def planned(effort: Effort) -> Any:
        projector = Projector(ops, effort)
        made = split(projector, graph, budget, Options(cores=2)).graph
        assert projector.working_set(made) <= budget
        return made

    fast, slow = planned(Effort()), planned(Effort(left=-1))
    assert graph_seconds(ops, fast) < graph_seconds(ops, slow)
    values = [np.random.default_rng(k).standard_normal(one) for k, one in enumerate(shapes)]
    for made in (fast, slow):
        np.testing.assert_allclose(
            evaluate(made, *values)[0], evaluate(graph, *values)[0], rtol=1e-12
        )


def test_plans_for_speed_are_found_with_what_is_left() -> None:
    ops = VocabularyOps()
    graph = trace(normalized_twice, (ROWS, WIDTH), (WIDTH, COLUMNS))
    effort = Effort(left=100_000)
    budget = int(0.8 * Projector(ops).working_set(graph))
    split(Projector(ops, effort), graph, budget, Options(cores=2))
    assert 0 < effort.left < 100_000
