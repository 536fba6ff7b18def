"""docs/coverage.md shows all that was recorded, nothing is missing, and a part is measured again.

With TF_EXLA_COVERAGE=all everything is measured, which takes half an hour of an idle core.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from fresh_process import run_fresh

pytest.importorskip("gpflow")

from covered import gpflow_cases, gpflow_check, op_check, page

AGAIN, AGAIN_OF_GPFLOW = ["Exp", "Sum", "Conv3D"], ["kernel Matern32"]
EVERYTHING = os.environ.get("TF_EXLA_COVERAGE") == "all"
NO_CASE = {
    "model": "BayesianModel ExternalDataTrainingLossMixin GPModel InternalDataTrainingLossMixin",
    "likelihood": "Likelihood MonteCarloLikelihood MultiLatentLikelihood QuadratureLikelihood"
    " RobustMax ScalarLikelihood",
    "kernel": "ActivityCondition AnisotropicStationary AxiomCheck AxiomReport Bias Combination"
    " HierarchicalEmbeddingKernel HierarchyNode IndependentLatent IsotropicStationary Kernel"
    " MultioutputKernel RBF Static Stationary",
}
"""Public classes that are bases, parts or aliases of those that have a case."""


def failed(rows: list[Any]) -> list[Any]:
    return [row for row in rows if "failure" in row]


def test_the_page_is_what_was_recorded() -> None:
    assert page.PAGE.read_text() == page.render(), "run: python tests/make_coverage.py"


def test_every_op_with_an_axis_rule_has_a_row() -> None:
    rows = page.load(op_check.DATA)
    assert not [row for row in (*rows, *page.load(gpflow_check.DATA)) if "pending" in row]
    assert {row["op"] for row in rows} == set(op_check.covered())


def test_what_was_recorded_holds() -> None:
    assert not failed([*page.load(op_check.DATA), *page.load(gpflow_check.DATA)])


@pytest.mark.parametrize("part", gpflow_cases.PARTS)
def test_every_public_class_of_gpflow_has_a_case(part: str) -> None:
    makers, calls = gpflow_cases.PARTS[part]
    assert gpflow_cases.public(part) - set(NO_CASE[part].split()) == set(makers)
    recorded = {(row["name"], row["call"]) for row in page.load(gpflow_check.DATA)}
    assert {(f"{part} {name}", call) for name in makers for call in calls} <= recorded


def test_ops_are_checked_again() -> None:
    ops = op_check.covered() if EVERYTHING else AGAIN
    rows = run_fresh(op_check.check_ops, ops, timeout=3600)
    assert rows
    assert not failed(rows)


def test_gpflow_is_checked_again() -> None:
    cases = list(gpflow_cases.names()) if EVERYTHING else AGAIN_OF_GPFLOW
    rows = run_fresh(gpflow_check.check, cases, timeout=3600)
    assert rows
    assert not failed(rows)
