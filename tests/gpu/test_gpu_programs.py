"""The promise and the numbers on a GPU: the programs of `programs.py`, and random ones."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf
from api_programs import API_CASES
from found_programs import FOUND_CASES
from gpu.on_gpu import needs_gpu, run_on_gpu
from programs import CASES, GPFLOW_CASES, Case
from programs_check import ALL, check_case
from random_check import check_program

import tf_exla

NAMES = [case.name for case in (*CASES, *GPFLOW_CASES, *FOUND_CASES, *API_CASES)]
SIZE = 16
SEEDS = 25


def in_float32(names: list[str]) -> list[dict[str, Any]]:
    """Check programs with float32 products of all digits: TF32 hides what a rewrite loses."""
    tf.config.experimental.enable_tensor_float_32_execution(False)
    return [_checked(ALL[name]) for name in names]


def _checked(case: Case) -> dict[str, Any]:
    """The limit of a case is a share of its peak on a CPU: take the least where that is too low."""
    try:
        return check_case(case)
    except tf_exla.MemoryLimitError as error:
        return check_case(case, given=error.smallest_limit)


@needs_gpu
@pytest.mark.parametrize("first", range(0, len(NAMES), SIZE))
def test_programs(first: int) -> None:
    for one in run_on_gpu(in_float32, NAMES[first : first + SIZE]):
        assert one["measured"] <= one["projected"] <= one["limit"], one
        assert one["worst"] <= 1, one
        assert one["loops"] or ALL[one["name"]].rewritten, one


def random_programs(first: int) -> list[dict[str, Any]]:
    tf.config.experimental.enable_tensor_float_32_execution(False)
    return [check_program(seed) for seed in range(first, first + SEEDS)]


@needs_gpu
@pytest.mark.parametrize("first", range(0, 8 * SEEDS, SEEDS))
def test_random_programs(first: int) -> None:
    for one in run_on_gpu(random_programs, first):
        assert one["measured"] <= one["projected"] <= one["limit"], one
        assert one["worst"] <= 1, one
