"""The programs of the experiments in JAX compute what those in TensorFlow do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fresh_process import run_fresh

pytest.importorskip("jaxlib")

from gp_experiments import models
from gp_experiments.calls import FRONTENDS, measuring, programs
from gp_experiments.data import Dataset

RUN = SimpleNamespace(
    arm="stock", limit="1GB", jit_compile=False, rows=50, size=60, distance="", k=4,
    noise=0.5, rank=20, iterations=300, tolerance=1e-8, train_inducing=True,
)  # fmt: skip
RNG = np.random.default_rng(0)
X, COLUMN = RNG.standard_normal((60, 2)), RNG.standard_normal((60, 1))


def both(name: str, arguments: list[Any], **settings: Any) -> list[list[Any]]:
    run = SimpleNamespace(**{**vars(RUN), **settings})
    found = []
    for frontend in FRONTENDS:
        made = programs(frontend)
        inner = (made.matern32(1.3),) if name == "conjugate_gradients" else ()
        program = measuring(frontend).build(
            getattr(made, name)(*inner, run), arguments, "stock", "1GB"
        )
        found.append([np.asarray(one) for one in program.call(*program.arguments)])
    return found


@pytest.mark.parametrize("rows", [50, 60])
def test_matvec(rows: int) -> None:
    (ours, theirs) = both("matvec", [COLUMN, COLUMN], rows=rows)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-9)


@pytest.mark.parametrize("distance", ["L2", "L1", "cosine"])
def test_knn(distance: str) -> None:
    ours, theirs = both("knn", [X[:7], X], distance=distance)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-7, atol=1e-7)
    np.testing.assert_array_equal(ours[1], theirs[1])


def test_conjugate_gradients() -> None:
    B = RNG.standard_normal((60, 20)) / 10
    ours, theirs = both("conjugate_gradients", [X, COLUMN[:, 0], B])
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-5, atol=1e-6)
    assert abs(int(ours[1]) - int(theirs[1])) <= 1


@pytest.mark.parametrize("train_inducing", [False, True])
def test_sgpr(train_inducing: bool) -> None:
    split = Dataset("", X, COLUMN, "").split(1)
    run = SimpleNamespace(**{**vars(RUN), "train_inducing": train_inducing})
    Z = models.select_inducing_points(
        split.train[0], 9, models.matern32(1.0), rng=np.random.default_rng(0)
    )
    ours, theirs = (programs(name).sgpr(run, split, Z, 1.0) for name in FRONTENDS)
    for one, other in zip(ours.evaluate(ours.parameters), theirs.evaluate(theirs.parameters),
                          strict=True):  # fmt: skip
        # The parameters are in another order.
        np.testing.assert_allclose(np.sort(np.ravel(one)), np.sort(np.ravel(other)), rtol=1e-7)
    for one, other in zip(ours.predict(ours.parameters), theirs.predict(theirs.parameters),
                          strict=True):  # fmt: skip
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9)


def test_programs_in_jax_need_no_tensorflow() -> None:
    code = """
    import sys
    from gp_experiments import with_jax
    from gp_experiments.experiments import attention, cg, knn, matvec, sgpr
    send("tensorflow" in sys.modules)
    """
    assert not run_fresh(code, env={"LANG": "C"})
