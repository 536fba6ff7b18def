"""The model of evaluations on many devices, beside what was measured."""

from __future__ import annotations

import dataclasses

import pytest

from gp_experiments.scale import H100, WORKS, Machine, Work, matvec, seconds, sgpr, simulate

CORE = Machine(
    name="one core",
    flops=3.92e10,
    short_flops=7.84e10,
    pointwise=5.4e8,
    link=0.4e9,
    network=0.4e9,
    latency=1.3e-3,
)
"""A core of the machine that docs/scale.md was measured on, fitted to one worker's seconds."""


MEASURED = [(sgpr(200_000, 500), 16.48, 8.90), (matvec(60_000, 3), 3.99, 2.21)]
"""Seconds of one and of two workers there."""


@pytest.mark.parametrize(("work", "one", "two"), MEASURED)
def test_it_tells_what_was_measured(work: Work, one: float, two: float) -> None:
    """Two constants are fitted to one worker; two workers are what the model says of it."""
    assert simulate(work, CORE, 1).total == pytest.approx(one, rel=0.02)
    assert simulate(work, CORE, 2, tree=False).total == pytest.approx(two, rel=0.12)


def test_devices_divide_computing() -> None:
    for work in WORKS:
        one, eight = simulate(work, H100, 1), simulate(work, H100, 8)
        assert eight.computing == pytest.approx(one.computing / 8)
        assert one.sending == 0
        assert 1 < one.total / eight.total <= 8


def test_a_tree_sends_less_than_one_driver_takes() -> None:
    for work in WORKS:
        tree = simulate(work, H100, 8, 64)
        star = simulate(work, H100, 8, 64, tree=False)
        assert tree.computing == star.computing
        assert tree.sending <= star.sending


def test_partial_sums_bind_where_there_are_many_devices() -> None:
    assert simulate(sgpr(2e6, 10_000), H100, 8).binds == "computing"
    assert simulate(sgpr(2e6, 10_000), H100, 8, 64, tree=False).binds == "sending"
    slow = dataclasses.replace(H100, network=1.25e9)
    assert simulate(sgpr(2e6, 5_000), slow, 8, 64).binds == "sending"


def test_times_are_printed_with_two_digits() -> None:
    assert [seconds(value) for value in (2.4e-4, 0.0123, 1.6, 250, 7300)] == [
        "240 µs",
        "12 ms",
        "1.6 s",
        "250 s",
        "2 h",
    ]
    assert matvec(1e6).name == "K v, N = 1e+06"
