"""Programs of users' libraries keep their numbers within a limit, measured in fresh processes."""

from __future__ import annotations

import pytest
from fresh_process import run_fresh
from jax_libraries import CASES
from jax_measured import measured

OFTEN = {
    "tinygp, prediction",
    "GPJax, posterior",
    "NumPyro, HSGP, log density and gradient",
    "Flax, transformer block",
    "optax, step of AdamW",
}
WHOLE = {"tinygp, log probability and gradient", "NumPyro, exact GP, log density and gradient"}
"""Decompositions of matrices, which must exist whole."""


def within(name: str) -> dict[str, float]:
    """Run a program of a library within its limit; return bytes."""
    import jax

    case = CASES[name]
    jax.config.update("jax_enable_x64", case.x64)
    # The gradient of attention's bias of keys is zero, but for rounding.
    return measured(*case.make(), case.limit, least=1e-3)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.thorough] * (name not in OFTEN)) for name in CASES],
)
def test_programs_of_libraries_run_unchanged(name: str) -> None:
    pytest.importorskip(CASES[name].library)
    found = run_fresh(within, name, env={"JAX_PLATFORMS": "cpu"})
    assert found["measured"] <= found["certified"] <= found["limit"], found
    assert name in WHOLE or 2 * found["limit"] < found["stock"], found
    assert found["error"] < CASES[name].tolerance, found
