"""Every public model, likelihood and kernel of GPflow in a small program, and what it is asked.

A case makes a model and its data afresh, since calls may change it (CGLB keeps its solution).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from gpflow import inducing_variables as inducing
from gpflow import kernels, likelihoods, models

DENSE, SPARSE, INDUCING, NEW, JOINT = 400, 4000, 40, 3000, 400
"""Rows: of models with a matrix of all rows by all rows, of sparse ones, and of new points; of
`JOINT` new points the full covariance is predicted."""
SHORT = {"lengthscales": 0.2}
"""Points of the unit square are told apart: else rounding is amplified by the Cholesky factor."""


@dataclass(frozen=True)
class Data:
    """Inputs [N, 2] in the unit square, outputs [N, 1], inducing points, and new data."""

    x: np.ndarray
    y: np.ndarray
    z: np.ndarray
    new: tuple[np.ndarray, np.ndarray]


def draw(rows: int, kind: str = "real", columns: int = 2) -> Data:
    rng = np.random.default_rng(5)
    made = []
    for count in (rows, NEW):
        x = rng.uniform(0, 1, (count, columns))
        f = np.sin(9 * x[:, :1]) + 0.1 * rng.normal(size=(count, 1))
        made.append((x, OUTPUTS[kind](f)))
    (x, y), new = made
    return Data(x, y, x[:INDUCING].copy(), new)


OUTPUTS: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "real": lambda f: f,
    "positive": np.exp,
    "fraction": lambda f: 1 / (1 + np.exp(-f)),
    "sign": lambda f: np.where(f > 0, 1.0, -1.0),
    "binary": lambda f: np.where(f > 0, 1.0, 0.0),
    "class": lambda f: np.digitize(f, [-0.4, 0.4]),
    "count": lambda f: np.floor(np.exp(f)),
    "switched": lambda f: np.concatenate([f, f > 0], 1),
    "three": lambda f: np.concatenate([f, -f, 2 * f], 1),
}

Model = Any
Maker = Callable[[], tuple[Model, Data]]


def _dense(build: Callable[..., Model], kind: str = "real") -> Maker:
    def make() -> tuple[Model, Data]:
        data = draw(DENSE, kind)
        return build((data.x, data.y), kernels.Matern52(**SHORT)), data

    return make


def _sparse(build: Callable[..., Model], kind: str = "real", rows: int = SPARSE) -> Maker:
    def make() -> tuple[Model, Data]:
        data = draw(rows, kind)
        return build((data.x, data.y), kernels.Matern52(**SHORT), data.z), data

    return make


def _bernoulli(build: Callable[..., Model]) -> Callable[..., Model]:
    return lambda data, kernel, *z: build(data, kernel, likelihoods.Bernoulli(), **(
        {"inducing_variable": z[0]} if z else {}
    ))  # fmt: skip


def _svgp(data: Any, kernel: Any, z: Any, likelihood: Any = None, latent: int = 1) -> Model:
    likelihood = likelihood or likelihoods.Gaussian()
    return models.SVGP(kernel, likelihood, z, num_latent_gps=latent, num_data=SPARSE)


def _latent() -> tuple[Model, Data]:
    data = draw(DENSE, "three")
    kernel = kernels.SquaredExponential(**SHORT)
    return models.GPLVM(data.y, 2, X_data_mean=tf.constant(data.x), kernel=kernel), data


def _bayesian_latent() -> tuple[Model, Data]:
    data = draw(SPARSE // 4, "three")  # it has a matrix of inducing points for each row
    variance = tf.constant(np.full_like(data.x, 0.1))
    model = models.BayesianGPLVM(
        data.y, tf.constant(data.x), variance, kernels.SquaredExponential(**SHORT),
        inducing_variable=data.z,
    )  # fmt: skip
    return model, data


MODELS: Mapping[str, Maker] = {
    "BayesianGPLVM": _bayesian_latent,
    # Else only eager code can train it: a loop of conjugate gradients whose state is a variable.
    "CGLB": _sparse(functools.partial(models.CGLB, v_grad_optimization=True), rows=SPARSE // 4),
    "GPLVM": _latent,
    "GPMC": _dense(_bernoulli(models.GPMC), "binary"),
    "GPR": _dense(models.GPR),
    "GPRFITC": _sparse(models.GPRFITC),
    "SGPMC": _sparse(_bernoulli(models.SGPMC), "binary"),
    "SGPR": _sparse(models.SGPR),
    "SVGP": _sparse(_svgp),
    "VGP": _dense(_bernoulli(models.VGP), "binary"),
    "VGPOpperArchambeau": _dense(_bernoulli(models.VGPOpperArchambeau), "binary"),
}


def _with_likelihood(build: Callable[[], Any], kind: str, latent: int = 1) -> Maker:
    return _sparse(lambda data, kernel, z: _svgp(data, kernel, z, build(), latent), kind)


LIKELIHOODS: Mapping[str, Maker] = {
    "Bernoulli": _with_likelihood(likelihoods.Bernoulli, "binary"),
    "Beta": _with_likelihood(likelihoods.Beta, "fraction"),
    "Exponential": _with_likelihood(likelihoods.Exponential, "positive"),
    "Gamma": _with_likelihood(likelihoods.Gamma, "positive"),
    "Gaussian": _with_likelihood(likelihoods.Gaussian, "real"),
    "GaussianMC": _with_likelihood(likelihoods.GaussianMC, "real"),
    "HeteroskedasticTFPConditional": _with_likelihood(
        likelihoods.HeteroskedasticTFPConditional, "real", 2
    ),
    "MultiClass": _with_likelihood(lambda: likelihoods.MultiClass(3), "class", 3),
    "MultiLatentTFPConditional": _with_likelihood(
        lambda: likelihoods.MultiLatentTFPConditional(
            2, lambda f: tfp.distributions.Laplace(f[..., :1], tf.exp(f[..., 1:]))
        ),
        "real",
        2,
    ),
    "Ordinal": _with_likelihood(lambda: likelihoods.Ordinal(np.array([-0.4, 0.4])), "class"),
    "Poisson": _with_likelihood(likelihoods.Poisson, "count"),
    "Softmax": _with_likelihood(lambda: likelihoods.Softmax(3), "class", 3),
    "StudentT": _with_likelihood(likelihoods.StudentT, "real"),
    "SwitchedLikelihood": _with_likelihood(
        lambda: likelihoods.SwitchedLikelihood([likelihoods.Gaussian(), likelihoods.StudentT()]),
        "switched",
    ),
}


def _with_kernel(build: Callable[[], Any], whole: bool = False, columns: int = 2) -> Maker:
    """SGPR with a kernel; with the second column whole numbers where it is a label."""

    def make() -> tuple[Model, Data]:
        data = draw(SPARSE, columns=columns)
        for x in (data.x, data.z, data.new[0]):
            if whole:
                x[:, 1] = np.floor(3 * x[:, 1])
        return models.SGPR((data.x, data.y), build(), data.z), data

    return make


def _multi_output(build: Callable[[], Any]) -> Maker:
    def make() -> tuple[Model, Data]:
        data = draw(SPARSE, "three")
        points = inducing.SharedIndependentInducingVariables(inducing.InducingPoints(data.z))
        return _svgp((data.x, data.y), build(), points, latent=3), data

    return make


def _convolutional() -> tuple[Model, Data]:
    data = draw(SPARSE // 4, columns=16)
    kernel = kernels.Convolutional(kernels.SquaredExponential(), [4, 4], [3, 3])
    patches = inducing.InducingPatches(kernel.get_patches(data.x[:10]).numpy().reshape(-1, 9))
    return _svgp((data.x, data.y), kernel, patches), data


def _hierarchy() -> list[Any]:
    bounds = tf.constant([[0.0, 1.0]], tf.float64)
    condition = kernels.ActivityCondition({1: 1})
    return [kernels.HierarchyNode("inner", [0], bounds, condition)]


def _three() -> list[Any]:
    return [MATERN() for _ in range(3)]


RBF = functools.partial(kernels.SquaredExponential, **SHORT)
MATERN = functools.partial(kernels.Matern32, **SHORT)
KERNELS: Mapping[str, Maker] = {
    "ArcCosine": _with_kernel(kernels.ArcCosine),
    "ArcHierarchical": _with_kernel(
        lambda: kernels.ArcHierarchical(_hierarchy(), active_dims=[0, 1]), whole=True
    ),
    "ChangePoints": _with_kernel(
        lambda: kernels.ChangePoints([RBF(), kernels.Matern12(**SHORT)], [0.5]), columns=1
    ),
    "Constant": _with_kernel(lambda: kernels.Constant() + RBF()),
    "Convolutional": _convolutional,
    "Coregion": _with_kernel(
        lambda: RBF(active_dims=[0]) * kernels.Coregion(3, 2, active_dims=[1]), whole=True
    ),
    "Cosine": _with_kernel(lambda: kernels.Cosine() + kernels.White()),
    "Exponential": _with_kernel(lambda: kernels.Exponential(**SHORT)),
    "Linear": _with_kernel(lambda: kernels.Linear() + kernels.White()),
    "LinearCoregionalization": _multi_output(
        lambda: kernels.LinearCoregionalization(_three(), W=np.eye(3) + 0.1)
    ),
    "Matern12": _with_kernel(lambda: kernels.Matern12(**SHORT)),
    "Matern32": _with_kernel(MATERN),
    "Matern52": _with_kernel(lambda: kernels.Matern52(**SHORT)),
    "Periodic": _with_kernel(lambda: kernels.Periodic(RBF())),
    "Polynomial": _with_kernel(lambda: kernels.Polynomial() + kernels.White()),
    "Product": _with_kernel(lambda: RBF() * MATERN()),
    "RationalQuadratic": _with_kernel(lambda: kernels.RationalQuadratic(**SHORT)),
    "SeparateIndependent": _multi_output(lambda: kernels.SeparateIndependent(_three())),
    "SharedIndependent": _multi_output(lambda: kernels.SharedIndependent(RBF(), 3)),
    "SquaredExponential": _with_kernel(RBF),
    "Sum": _with_kernel(lambda: RBF(active_dims=[0]) + MATERN(active_dims=[1])),
    "WedgeHierarchical": _with_kernel(
        lambda: kernels.WedgeHierarchical(_hierarchy(), active_dims=[0, 1]), whole=True
    ),
    "White": _with_kernel(lambda: kernels.White() + RBF()),
}


def _train(model: Model, data: Data) -> Any:
    arguments = () if isinstance(model, models.InternalDataTrainingLossMixin) else (
        (data.x, data.y),
    )  # fmt: skip
    with tf.GradientTape() as tape:
        loss = model.training_loss(*arguments)
    found = tape.gradient(loss, model.trainable_variables)
    return loss, [one for one in found if one is not None]


Call = Callable[[Model, Data], Any]
CALLS: Mapping[str, Call] = {
    "training": _train,
    "predict_f": lambda model, data: model.predict_f(data.new[0]),
    "predict_f, full": lambda model, data: model.predict_f(data.new[0][:JOINT], full_cov=True),
    "predict_y": lambda model, data: model.predict_y(data.new[0]),
    "density": lambda model, data: model.predict_log_density(data.new),
    "posterior": lambda model, data: model.predict_f(data.new[0]),
}
PARTS: Mapping[str, tuple[Mapping[str, Maker], tuple[str, ...]]] = {
    "model": (MODELS, tuple(CALLS)),
    "likelihood": (LIKELIHOODS, ("training", "predict_y", "density")),
    "kernel": (KERNELS, ("training", "predict_f")),
}


def names() -> Iterator[str]:
    """Yield "model GPR" and so on."""
    for part, (makers, _) in PARTS.items():
        yield from (f"{part} {name}" for name in makers)


def public(part: str) -> set[str]:
    """Return the public classes of a part of GPflow that are no base classes of others."""
    module = getattr(gpflow, f"{part}s")
    return {name for name in module.__all__ if isinstance(getattr(module, name, None), type)}
