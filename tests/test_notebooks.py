"""What GPflow's users write, unchanged, under `python -m tf_exla run`.

It prints the same numbers, and measured <= projected <= limit for all that runs.
"""

from __future__ import annotations

import contextlib
import io
import runpy
from pathlib import Path

import notebook_peaks
import numpy as np
import pytest
from fresh_process import run_fresh
from needs import GPFLOW
from samples import but

FOLDER = Path(__file__).parent / "notebooks"
LIMITS = {
    "classification": "7MB",
    "deep_and_noise": "8MB",
    "latent": "20MB",
    "minibatches": "2MB",
    "multi_output": "3MB",
    "optimizers": "20MB",
    "sampling": "8MB",
    "saving": "15MB",
    "sparse": "5MB",
}


def printed(name: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as output:
        runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    return output.getvalue()


def numbers(text: str) -> list[float]:
    return [float(word) for word in text.split()]


def test_each_notebook_has_a_limit() -> None:
    assert sorted(LIMITS) == sorted(path.stem for path in FOLDER.glob("*.py"))


OTHER_MODELS = ("classification", "latent", "sampling", "sparse")
"""Models of which each is trained as those of the other notebooks are."""


@GPFLOW
@pytest.mark.parametrize("name", but(OTHER_MODELS, sorted(LIMITS)))
def test_same_numbers_within_the_limit(name: str) -> None:
    found = run_fresh(notebook_peaks.run, str(FOLDER / f"{name}.py"), LIMITS[name])
    assert not found["refused"]
    for peak in found["peaks"]:
        assert not peak["failure"]
        assert peak["measured"] <= peak["projected"] <= peak["limit"], peak
    # The limit asks for something, and what is measured is not nothing.
    limit = found["peaks"][0]["limit"]
    assert max(peak["before"] for peak in found["peaks"]) > limit
    assert max(peak["measured"] for peak in found["peaks"]) > limit / 4
    # float64; sums over chunks are in another order, a few steps of training carry that along.
    np.testing.assert_allclose(numbers(found["printed"]), numbers(printed(name)), rtol=1e-5)
