"""How a plan is made smaller until its module holds the limit; nothing is compiled here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tf_exla.errors import MemoryLimitError
from tf_exla.frontends.tf.restore import whole
from tf_exla.ir.graph import Graph
from tf_exla.model.allocator import EXACT
from tf_exla.pipeline.tightening import TRIES, Try, between

RESIDENT, LIMIT, STEP = 8_000_000, 300_000_000, 1_300_000
ROOM = LIMIT - RESIDENT
EMPTY = Graph((), (), ())


@dataclass(frozen=True)
class Planned:
    """A plan whose working set is a multiple of STEP; `graph` stands for it where it is emitted."""

    working_set: int
    graph: Any = EMPTY
    resident: int = RESIDENT


@dataclass(frozen=True)
class Made:
    module: Any = None


def planned(limit: int) -> Planned:
    chunks = (limit - RESIDENT) // STEP
    if chunks < 1:
        least = RESIDENT + STEP
        raise MemoryLimitError(
            "f", limit=limit, resident=RESIDENT, projected_peak=LIMIT, smallest_limit=least
        )
    return Planned(chunks * STEP)


@pytest.mark.parametrize("fixed", [0, 60_000_000, 200_000_000])
@pytest.mark.parametrize("factor", [0.3, 1.0, 1.9, 6.0])
def test_most_of_the_limit_is_used(
    fixed: int, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans: list[Planned] = []

    def plan_within(limit: int, _: Any) -> Any:
        plans.append(planned(limit))
        return plans[-1]

    def needed(*_: Any) -> int:
        return int(fixed + factor * plans[-1].working_set)

    monkeypatch.setattr(whole, "buffers", needed)
    operands = whole.Operands((), ())
    found: Any = whole.compile_whole(plan_within, lambda *_: Made(), operands, LIMIT, EXACT)  # type: ignore[arg-type,return-value]
    assert found.module.working_set == needed() <= ROOM
    assert len(plans) <= TRIES
    if len(plans) > 1:
        assert needed() > 0.85 * ROOM - factor * STEP


@pytest.mark.parametrize("fixed", [0, 40_000_000])
def test_between_two_tries(fixed: int) -> None:
    """What a module needs is taken to grow evenly between a try that holds and one that fails."""
    small, large = Try(10_000_000, 20_000_000), Try(50_000_000, 150_000_000 + fixed)
    found = between(100_000_000, small, large)
    needed = 20_000_000 + (130_000_000 + fixed) * (found - 10_000_000) / 40_000_000
    assert 96_000_000 < needed <= 97_000_001
    assert between(100_000_000, small, Try(50_000_000, 20_000_000)) == 10_000_000
    assert between(10_000_000, small, large) == 10_000_000
