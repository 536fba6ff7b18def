import numpy as np
from scipy import stats

from gp_experiments.evaluate import nlpd, predict, rmse
from gp_experiments.models import build_sgpr


def test_rmse_of_known_errors() -> None:
    assert rmse(np.array([[1.0], [2.0]]), np.array([[4.0], [-2.0]])) == np.sqrt((9 + 16) / 2)


def test_nlpd_is_the_gaussian_density() -> None:
    rng = np.random.default_rng(0)
    y, mean = rng.normal(size=(2, 50, 1))
    variance = rng.uniform(0.1, 2, size=(50, 1))
    expected = -stats.norm(mean, np.sqrt(variance)).logpdf(y).mean()
    np.testing.assert_allclose(nlpd(y, mean, variance), expected, rtol=1e-12)


def test_predictions_under_a_limit_are_those_of_gpflow() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(4000, 2))
    y = np.sin(3 * X[:, :1]) + 0.1 * rng.normal(size=(4000, 1))
    model = build_sgpr((X, y), X[:20])
    Xnew = rng.uniform(-2, 2, size=(3000, 2))
    mean, variance = predict(model, Xnew, "2MB")  # stock: 3.3 MB
    expected_mean, expected_variance = model.predict_y(Xnew)
    # Sums over chunks are in another order.
    np.testing.assert_allclose(mean, expected_mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(variance, expected_variance, rtol=1e-9)
    log_density = model.predict_log_density((Xnew, mean))
    np.testing.assert_allclose(nlpd(mean, mean, variance), -log_density.numpy().mean(), rtol=1e-9)
