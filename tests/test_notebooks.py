"""What GPflow's users write, unchanged, prints the same numbers under `python -m tf_exla run`."""

from __future__ import annotations

import contextlib
import io
import runpy
from pathlib import Path

import numpy as np
import pytest
from samples import but

from tf_exla.run.script import optimized_functions

FOLDER = Path(__file__).parent / "notebooks"
LIMITS = {
    "classification": "6MB",
    "deep_and_noise": "8MB",
    "latent": "20MB",
    "minibatches": "3MB",
    "multi_output": "6MB",
    "optimizers": "20MB",
    "sampling": "20MB",
    "saving": "15MB",
    "sparse": "5MB",
}


def printed(name: str) -> list[float]:
    with contextlib.redirect_stdout(io.StringIO()) as output:
        runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    return [float(word) for word in output.getvalue().split()]


def test_each_notebook_has_a_limit() -> None:
    assert sorted(LIMITS) == sorted(path.stem for path in FOLDER.glob("*.py"))


OTHER_MODELS = ("classification", "latent", "sampling", "sparse")
"""Models of which each is trained as those of the other notebooks are."""


@pytest.mark.parametrize("name", but(OTHER_MODELS, sorted(LIMITS)))
def test_same_numbers(name: str) -> None:
    expected = printed(name)
    with optimized_functions(LIMITS[name]) as session:
        found = printed(name)
    assert not session.refused
    assert session.peaks
    assert max(before for before, _ in session.peaks.values()) > 0
    # float64; sums over chunks are in another order, a few steps of training carry that along.
    np.testing.assert_allclose(found, expected, rtol=1e-5)
