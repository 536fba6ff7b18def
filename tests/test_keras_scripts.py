"""What Keras's users write, unchanged, under `python -m tf_exla run`, as for GPflow's notebooks."""

from __future__ import annotations

import contextlib
import io
import runpy
from pathlib import Path

import notebook_peaks
import numpy as np
import pytest
from fresh_process import run_fresh
from samples import but

FOLDER = Path(__file__).parent / "keras_scripts"
LIMITS = {
    "gan": "40MB",
    "recurrent": "4MB",
    "siamese": "4MB",
    "training_loop": "2.2MB",
    "transformer": "10MB",
    "vae": "12MB",
}
OTHERS = ("gan", "recurrent", "transformer", "vae")


def test_each_script_has_a_limit() -> None:
    assert sorted(LIMITS) == sorted(path.stem for path in FOLDER.glob("*.py"))


def run_as_it_is(path: str) -> str:
    """Run a script without a limit; return what it prints. Its seeds are those of the process."""
    with contextlib.redirect_stdout(io.StringIO()) as output:
        runpy.run_path(path, run_name="__main__")
    return output.getvalue()


def numbers(text: str) -> list[float]:
    return [float(word) for word in text.split()]


@pytest.mark.parametrize("name", but(OTHERS, sorted(LIMITS)))
def test_same_numbers_within_the_limit(name: str) -> None:
    path = str(FOLDER / f"{name}.py")
    found = run_fresh(notebook_peaks.run, path, LIMITS[name])
    assert not found["refused"]
    for peak in found["peaks"]:
        assert not peak["failure"]
        assert peak["measured"] <= peak["projected"] <= peak["limit"], peak
    limit = found["peaks"][0]["limit"]
    assert max(peak["before"] for peak in found["peaks"]) > limit
    assert max(peak["measured"] for peak in found["peaks"]) > limit / 4
    # float32, and optimizers divide by gradients that are nearly zero.
    stock = run_fresh(run_as_it_is, path)
    np.testing.assert_allclose(numbers(found["printed"]), numbers(stock), rtol=1e-3, atol=1e-4)
