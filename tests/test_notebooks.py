"""Unchanged scripts of GPflow users under `python -m tf_exla run`.

They print the same numbers, and measured <= projected <= limit for all plans that run.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from needs import GPFLOW
from samples import but
from script_checks import printed, printed_within

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


def test_each_notebook_has_a_limit() -> None:
    assert sorted(LIMITS) == sorted(path.stem for path in FOLDER.glob("*.py"))


SELDOM = (
    "classification", "deep_and_noise", "latent", "optimizers", "sampling", "saving", "sparse",
)  # fmt: skip
"""Notebooks whose models are trained in the same way as those of the others, and two whose trainers
and saved models `test_gpflow_scipy.py`, `test_keras.py` and `test_saved_model.py` have, too."""


@GPFLOW
@pytest.mark.parametrize("name", but(SELDOM, sorted(LIMITS)))
def test_same_numbers_within_the_limit(name: str) -> None:
    path = str(FOLDER / f"{name}.py")
    found = printed_within(path, LIMITS[name])
    # float64: sums over chunks add in another order, which a few training steps amplify.
    np.testing.assert_allclose(found, printed(path), rtol=1e-5)
