import numpy as np
import pytest

from gp_experiments.data import Array
from gp_experiments.models import build_sgpr, matern32, select_inducing_points


def squared_exponential(A: Array, B: Array) -> Array:
    return np.exp(-0.5 * np.square(A[:, None] - B[None]).sum(axis=-1))  # [n, m]


def select(X: Array, num: int, seed: int = 0, **options: int) -> Array:
    rng = np.random.default_rng(seed)
    return select_inducing_points(X, num, squared_exponential, rng=rng, **options)


def conditional_variance(X: Array, Z: Array) -> Array:
    """The prior variance at X [N, D] given the values at Z [M, D], by the textbook formula."""
    cross = squared_exponential(Z, X)  # [M, N]
    return 1 - (cross * np.linalg.solve(squared_exponential(Z, Z), cross)).sum(axis=0)


@pytest.fixture
def X() -> Array:
    return np.random.default_rng(2).uniform(-3, 3, size=(200, 2))


def test_each_point_has_the_largest_variance_given_those_before(X: Array) -> None:
    Z = select(X, 15)
    for m in range(1, len(Z)):
        variance = conditional_variance(X, Z[:m])
        chosen = (X == Z[m]).all(axis=1)
        assert chosen.sum() == 1
        np.testing.assert_allclose(variance[chosen], variance.max(), rtol=1e-6)


def test_worst_explained_row_is_better_explained_than_by_random_rows(X: Array) -> None:
    greedy = conditional_variance(X, select(X, 20)).max()
    rows = np.random.default_rng(0).permutation(200)[:20]
    assert greedy < 0.7 * conditional_variance(X, X[rows]).max()


def test_fewer_points_than_asked_where_rows_repeat(X: Array) -> None:
    Z = select(np.repeat(X[:5], 10, axis=0), 12)
    assert sorted(map(tuple, Z)) == sorted(map(tuple, X[:5]))


def test_candidates_are_a_random_subset(X: Array) -> None:
    Z = select(X, 50, subset=30)
    assert len(Z) <= 30
    assert {tuple(z) for z in Z} != {tuple(z) for z in select(X, 50, seed=1, subset=30)}


def test_numpy_kernel_is_that_of_gpflow(X: Array) -> None:
    expected = build_sgpr((X, X[:, :1]), X[:7], lengthscale=0.5).kernel(X, X[:7])
    np.testing.assert_allclose(matern32(0.5)(X, X[:7]), expected, rtol=1e-10, atol=1e-12)


def test_sgpr_is_as_described(X: Array) -> None:
    model = build_sgpr((X, X[:, :1]), X[:7], lengthscale=0.5)
    assert type(model.kernel).__name__ == "Matern32"
    np.testing.assert_allclose(model.kernel.lengthscales.numpy(), [0.5, 0.5])
    np.testing.assert_allclose(model.likelihood.variance.numpy(), 0.1)
    assert model.inducing_variable.Z.shape == (7, 2)
    assert {v.dtype.name for v in model.trainable_variables} == {"float64"}
    assert len(model.trainable_variables) == 5  # mean, variance, lengthscales, noise, Z
