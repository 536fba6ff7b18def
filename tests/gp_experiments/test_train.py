from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from gp_experiments.models import build_sgpr
from gp_experiments.train import BestParameters, load_parameters, train
from tf_exla.gpflow import Scipy

QUIET = Console(quiet=True)


def make_model():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(300, 2))
    y = np.sin(3 * X[:, :1]) + 0.1 * rng.normal(size=(300, 1))
    return build_sgpr((X, y), X[:10])


def test_model_ends_with_the_saved_parameters_of_the_lowest_loss(tmp_path: Path) -> None:
    model = make_model()
    best = BestParameters(model, tmp_path / "parameters.npz")
    before = model.training_loss().numpy()
    training = train(model, Scipy("1GB"), best, iterations=5, console=QUIET)
    assert len(training.losses) == 5
    assert training.losses == sorted(training.losses, reverse=True)
    assert training.losses[0] < before
    # The same parameters through another graph: rounding only.
    np.testing.assert_allclose(model.training_loss(), training.losses[-1], rtol=1e-9)
    fresh = make_model()
    load_parameters(fresh, best.path)
    np.testing.assert_allclose(fresh.training_loss(), training.losses[-1], rtol=1e-9)


def test_interrupted_training_keeps_the_best_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_model()
    best = BestParameters(model, tmp_path / "parameters.npz")
    update, losses = best.update, []

    def interrupted_at_the_third(loss: float) -> None:
        update(loss)
        losses.append(loss)
        if len(losses) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(best, "update", interrupted_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        train(model, Scipy("1GB"), best, iterations=50, console=QUIET)
    fresh = make_model()
    load_parameters(fresh, best.path)
    np.testing.assert_allclose(fresh.training_loss(), losses[-1], rtol=1e-9)
    assert [path.name for path in tmp_path.iterdir()] == ["parameters.npz"]


def test_a_worse_or_undefined_loss_is_not_saved(tmp_path: Path) -> None:
    model = make_model()
    best = BestParameters(model, tmp_path / "parameters.npz")
    best.update(2.0)
    kept = best.path.read_bytes()
    model.kernel.variance.assign(7.0)
    for loss in (2.0, 3.0, np.nan, np.inf):
        best.update(loss)
    assert best.path.read_bytes() == kept
    best.update(1.0)
    assert best.path.read_bytes() != kept
