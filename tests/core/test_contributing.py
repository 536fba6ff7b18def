"""The examples of CONTRIBUTING.md work as they stand there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from core.kernels import InPlaceOps
from tf_exla.frontends.numpy import trace
from tf_exla.ir.traverse import walk
from tf_exla.pipeline import finishing
from tf_exla.pipeline.optimize import optimize_graph
from tf_exla.rewrite import rewrite_graph

PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"


def example(start: str) -> str:
    """The one block of Python that begins so."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (found,) = (block for block in blocks if block.startswith(start))
    return found


def test_the_rewrite() -> None:
    names: dict[str, Any] = {}
    exec(example("# tf_exla/rewrite/"), names)
    graph = trace(lambda xp, x: xp.abs(-x), (30, 40))
    made = rewrite_graph(graph, InPlaceOps(), names["REWRITES"])
    assert [node.op for node in made.graph.nodes] == ["abs"]


def test_the_late_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, Any] = {}
    exec(example("# tf_exla/late/"), names)
    test = example("graph = trace")
    known = {
        "trace": trace,
        "optimize_graph": optimize_graph,
        "InPlaceOps": InPlaceOps,
        "walk": walk,
    }
    with pytest.raises(AssertionError):
        exec(test, dict(known))
    passes = (names["use_squares"], *finishing.LATE_PASSES)
    monkeypatch.setattr(finishing, "LATE_PASSES", passes)
    exec(test, dict(known))
