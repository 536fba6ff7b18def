"""Finishing: which plan is taken where the late passes need more memory than there is."""

from __future__ import annotations

import pytest

from tf_exla.ir.graph import Graph
from tf_exla.model.options import Options
from tf_exla.model.projection import Projector
from tf_exla.pipeline import finishing
from tf_exla.vocabulary.op_set import VocabularyOps

BUDGET = 100
SPLIT, SMALL, LATE, SMALL_LATE = (Graph((), (), ()) for _ in range(4))
BYTES = {SPLIT: 90, SMALL: 50, LATE: 120, SMALL_LATE: 70}


@pytest.mark.parametrize(
    ("seconds", "jit_compile", "taken"),
    [(0.5, None, SMALL_LATE), (30.0, None, SPLIT), (30.0, True, SMALL_LATE)],
)
def test_smaller_chunks_must_not_cost_more_than_late_passes_save(
    monkeypatch: pytest.MonkeyPatch, seconds: float, jit_compile: bool | None, taken: Graph
) -> None:
    late = {SPLIT: LATE, SMALL: SMALL_LATE}
    costs = {SPLIT: 1.0, LATE: 0.1, SMALL_LATE: seconds}
    monkeypatch.setattr(finishing, "LATE_PASSES", (lambda _, graph, __: late[graph],))
    monkeypatch.setattr(finishing, "OPTIONAL", ())
    monkeypatch.setattr(finishing, "fit_loops", lambda *_: SMALL)
    monkeypatch.setattr(finishing, "graph_seconds", lambda _, graph, promises: costs[graph])
    monkeypatch.setattr(Projector, "working_set", lambda _, graph: BYTES[graph])
    options = Options(jit_compile=jit_compile)
    assert finishing.finish(Projector(VocabularyOps()), SPLIT, BUDGET, options) is taken
