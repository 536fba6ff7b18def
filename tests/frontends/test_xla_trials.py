"""XLA tries no kernels on a GPU, unless the user wants it."""

from __future__ import annotations

import os

import pytest

from tf_exla.frontends.tf.planning import environment
from tf_exla.frontends.tf.planning.environment import VARIABLE, without_trials


@pytest.fixture(autouse=True)
def _flags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "device", lambda: "GPU")
    monkeypatch.setenv(VARIABLE, "--xla_dump_to=/tmp/x")  # so that it is as before at the end


def test_other_flags_stay() -> None:
    without_trials()
    made = os.environ[VARIABLE].split()
    assert made[0] == "--xla_dump_to=/tmp/x"
    assert made[1:] == ["--xla_gpu_autotune_level=0", "--xla_gpu_enable_triton_gemm=false"]
    without_trials()
    assert os.environ[VARIABLE].split() == made


def test_the_users_level_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "--xla_gpu_autotune_level=2")
    without_trials()
    assert os.environ[VARIABLE] == "--xla_gpu_autotune_level=2"


def test_a_cpu_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "device", lambda: "CPU")
    without_trials()
    assert os.environ[VARIABLE] == "--xla_dump_to=/tmp/x"
