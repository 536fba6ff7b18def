"""Unchanged scripts of Keras users under `python -m tf_exla run`, as for GPflow's notebooks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fresh_process import run_fresh
from samples import but
from script_checks import printed, printed_within

FOLDER = Path(__file__).parent / "keras_scripts"
LIMITS = {
    "gan": "40MB",
    "recurrent": "4MB",
    "siamese": "4MB",
    "training_loop": "2.2MB",
    "transformer": "10MB",
    "vae": "12MB",
}
OTHERS = ("gan", "recurrent", "siamese", "transformer", "vae")


def test_each_script_has_a_limit() -> None:
    assert sorted(LIMITS) == sorted(path.stem for path in FOLDER.glob("*.py"))


@pytest.mark.parametrize("name", but(OTHERS, sorted(LIMITS)))
def test_same_numbers_within_the_limit(name: str) -> None:
    path = str(FOLDER / f"{name}.py")
    found = printed_within(path, LIMITS[name])
    # float32, and optimizers divide by gradients that are nearly zero. Seeds are per process.
    np.testing.assert_allclose(found, run_fresh(printed, path), rtol=1e-3, atol=1e-4)
