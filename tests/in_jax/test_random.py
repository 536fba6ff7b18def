"""Random programs, planned, against their primitives one by one."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import numpy as np
import pytest
from jax_compared import compare, leaves, nudged, planned_results, primitive_by_primitive
from jax_x64 import enable_x64
from random_jax import program
from random_jax_steps import program as steps

RECOMPUTED = (54, 113, 10156)
"""XLA computes what is compared twice, to other bits: `jax.jit` loses their gradients."""
ROUNDED = (20547, 20792)
"""Gradients that are small differences of large numbers: JAX compiled and not differ as well."""


@pytest.fixture(autouse=True)
def _x64() -> Iterator[None]:
    with enable_x64(True):
        yield


# Seed 5 takes the cosine of 1e13: no digits are left to compare.
@pytest.mark.parametrize("seed", [*range(5), *range(6, 9), *RECOMPUTED, *ROUNDED])
def test_random_program(seed: int) -> None:
    function, arguments = program(seed)
    expected = primitive_by_primitive(function, arguments)
    for found in planned_results(function, arguments):
        compare(found, expected, lambda: primitive_by_primitive(function, nudged(arguments)))


@pytest.mark.parametrize("seed", [2, 3, 5, 6, 8, 15, 20, 26])
def test_random_steps(seed: int) -> None:
    function, arguments = steps(seed)
    compiled = jax.jit(function)
    expected = leaves(compiled(*arguments))
    for found in planned_results(function, arguments, limits=1):
        compare(found, expected, lambda: leaves(compiled(*nudged(arguments))))


def test_comparison_allows_rounding_only() -> None:
    expected = [np.array([1.0, 2.0])]
    compare([np.array([1.0, 2.1])], expected, lambda: [np.array([1.0, 2.01])])
    with pytest.raises(AssertionError):
        compare([np.array([1.0, 2.1])], expected, lambda: [np.array([1.0, 2.001])])
    with pytest.raises(AssertionError):
        compare([np.array([1.0, np.nan])], expected, lambda: [np.array([1.0, 3.0])])
