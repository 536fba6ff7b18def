"""Rewrites are identities: each proposal is applied, whether or not it saves time."""

from __future__ import annotations

import dataclasses
import sys
from collections import Counter
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest

from core.random_algebra import draw_inputs, program
from tf_exla.frontends.numpy import evaluate, trace
from tf_exla.ir.check import check_graph
from tf_exla.ir.clean import clean
from tf_exla.ir.graph import Graph
from tf_exla.ir.rates import Rates
from tf_exla.ir.refusal import Refusal
from tf_exla.model.settings import SETTINGS
from tf_exla.moves.contracting_ops import ContractingOps
from tf_exla.rewrite import FAMILIES, chosen, driver, rewrite_graph
from tf_exla.rewrite.context import RewriteContext
from tf_exla.rewrite.mirroring import mirror
from tf_exla.rewrite.rewrite import Rewrite
from tf_exla.vocabulary.op_set import VocabularyOps

THOROUGH = pytest.mark.thorough


class FreeOps(VocabularyOps):
    """Ops that start in no time, so that small tensors are worth a rewrite."""

    def rates(self) -> Rates:
        return dataclasses.replace(super().rates(), launch=0.0)


OPS = ContractingOps(VocabularyOps())
WITHOUT_COST = dataclasses.replace(
    SETTINGS, small_operand=0, triangle_rows=2, triangle_block=1,
    triangle_long=0, mirrored=2, fewer_columns=0,
)  # fmt: skip
REFUSED = {"matrix-chain": 0.9, "scaling-leaves-reader": 0.8}
"""How often rewrites are refused that would hide the others, by name."""


def same_numbers(graph: Graph, made: Graph, arrays: list[np.ndarray]) -> None:
    check_graph(made, graph)
    with np.errstate(all="ignore"):
        pairs = zip(evaluate(made, *arrays), evaluate(graph, *arrays), strict=True)
    for found, expected in pairs:
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        scale = max(np.abs(expected[np.isfinite(expected)]).max(initial=0.0), 1.0)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * scale)


def accept(monkeypatch: pytest.MonkeyPatch, rng: Random) -> None:
    """Let `rng` accept and refuse what would be accepted for its time and memory."""
    judge = driver._Run._judge

    def judged(run: Any, site: Any, node: Any, rewrite: Rewrite, proposal: Any) -> Any:
        if not rewrite.normal and rng.random() < REFUSED.get(rewrite.name, 0.3):
            return Refusal("by chance")
        return judge(run, site, node, rewrite, proposal)

    monkeypatch.setattr(driver._Run, "_judge", judged)
    monkeypatch.setattr(driver, "largest", lambda nodes: 0)
    monkeypatch.setattr(RewriteContext, "seconds", lambda site, nodes: 0.0)
    for name, module in list(sys.modules.items()):
        if name.startswith("tf_exla.rewrite.") and hasattr(module, "SETTINGS"):
            monkeypatch.setattr(module, "SETTINGS", WITHOUT_COST)


@pytest.mark.parametrize(
    ("family", "cost"),
    [*((family, False) for family in FAMILIES), *product(("the defaults", "all"), (False, True))],
)
@pytest.mark.parametrize("seeds", [range(150), pytest.param(range(150, 5000), marks=THOROUGH)])
def test_rewrites(family: str, cost: bool, seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    if not cost:
        accept(monkeypatch, Random(family))
    switches = None if family == "the defaults" else dict.fromkeys(FAMILIES, family == "all")
    if family in FAMILIES:
        switches = {**dict.fromkeys(FAMILIES, False), family: True}
    ops = OPS if cost else ContractingOps(FreeOps())
    applied: Counter[str] = Counter()
    for seed in seeds:
        rng = Random(f"{family} {cost} {seed}")
        arrays = draw_inputs(rng)
        graph = clean(trace(program(rng), *arrays), ops)
        made = rewrite_graph(graph, ops, chosen(switches), rng.choice([None, None, 100]))
        applied.update(one.rewrite for one in made.applications)
        mirrored = mirror(made.graph, ops)
        for graph_after in {made.graph: None, mirrored.graph: None}:
            same_numbers(graph, graph_after, arrays)
    if family in ("the defaults", "all"):
        assert len(applied) > 12, applied
