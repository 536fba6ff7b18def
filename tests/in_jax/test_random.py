"""Random programs, planned, against their primitives one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest
from jax_x64 import enable_x64
from random_jax import program
from random_jax_steps import program as steps

import tf_exla.jax
from tf_exla import MemoryLimitError
from tf_exla.frontends.jax.restore import restore

RECOMPUTED = (54, 113, 10156)
"""XLA computes what is compared twice, to other bits: `jax.jit` loses their gradients."""


@pytest.fixture(autouse=True)
def _x64() -> Iterator[None]:
    with enable_x64(True):
        yield


def _leaves(tree: Any) -> list[np.ndarray]:
    return [np.asarray(one) for one in jax.tree.leaves(tree)]


# Seed 5 takes the cosine of 1e13: no digits are left to compare.
@pytest.mark.parametrize("seed", [*range(5), *range(6, 9), *RECOMPUTED])
def test_random_program(seed: int) -> None:
    function, arguments = program(seed)
    with jax.disable_jit():
        expected = _leaves(function(*arguments))
    _check(function, arguments, expected, 2)


@pytest.mark.parametrize("seed", [2, 3, 5, 6, 8, 15, 20, 26])
def test_random_steps(seed: int) -> None:
    function, arguments = steps(seed)
    _check(function, arguments, _leaves(jax.jit(function)(*arguments)), 1)


def _check(function: Any, arguments: Any, expected: list[np.ndarray], limits: int) -> None:
    """Compare the results of plans within the smallest limit, and within one for twice as much."""
    call = tf_exla.jax.jit(function, "1GB").call(*arguments)
    with pytest.raises(MemoryLimitError) as error:
        call.program.plan_within(1)
    smallest = error.value.smallest_limit
    twice = smallest + call.program.plan_within(smallest).working_set
    for limit in (smallest, twice)[:limits]:
        plan = call.program.plan_within(limit)
        made = jax.jit(restore(plan.graph))(*call.operands, *call.program.constants)
        found = [np.asarray(one) for one in made]
        for one, other in zip(found, expected, strict=True):
            assert (one.shape, one.dtype) == (other.shape, other.dtype)
            close = 1e-8 if one.dtype == np.float64 else 2e-3
            scale = np.abs(other[np.isfinite(other)]).max(initial=0) if one.dtype.kind == "f" else 0
            np.testing.assert_allclose(one, other, rtol=0, atol=close * scale)
