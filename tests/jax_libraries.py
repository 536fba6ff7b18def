"""Unchanged programs of users' libraries, each with a limit within which it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax_programs import normal

X = Any
Made = tuple[Callable[..., Any], tuple[Any, ...]]


def _points(n: int, d: int = 2) -> tuple[X, X]:
    x = normal(n, d)
    return x, jnp.sin(x.sum(1))


def _log_marginal_likelihood() -> Made:
    from tinygp import GaussianProcess, kernels

    x, y = _points(1500, 3)

    def loss(log: X) -> X:
        kernel = jnp.exp(log["variance"]) * kernels.ExpSquared(scale=jnp.exp(log["scale"]))
        process = GaussianProcess(kernel, x, diag=jnp.exp(log["noise"]))
        return -process.log_probability(y)

    return jax.value_and_grad(loss), ({"variance": 0.0, "scale": 0.0, "noise": -2.0},)


def _prediction() -> Made:
    from tinygp import GaussianProcess, kernels

    def predicted(x: X, y: X, new: X) -> X:
        kernel = kernels.Matern52(scale=1.5, distance=kernels.distance.L2Distance())
        return GaussianProcess(kernel, x, diag=0.1).predict(y, new, return_var=True)

    return predicted, (*_points(400, 3), normal(30_000, 3, seed=1))


def _model() -> Any:
    import gpjax

    mean, kernel = gpjax.mean_functions.Constant(), gpjax.kernels.Matern32()
    return gpjax.gps.Prior(mean_function=mean, kernel=kernel) * gpjax.likelihoods.Gaussian()


def _collapsed_bound() -> Made:
    import equinox
    import gpjax

    x, y = _points(20_000)
    family = gpjax.variational_families.CollapsedVariationalGaussian(_model(), x[:100])
    parameters, rest = equinox.partition(family, equinox.is_inexact_array)

    def loss(parameters: X, x: X, y: X) -> X:
        data = gpjax.Dataset(x, y)
        return -gpjax.objectives.collapsed_elbo(equinox.combine(parameters, rest), data)

    return jax.value_and_grad(loss), (parameters, x, y[:, None])


def _fit() -> Made:
    import equinox
    import gpjax
    import optax

    x, y = _points(10_000)
    family = gpjax.variational_families.CollapsedVariationalGaussian(_model(), x[:50])

    def fitted(x: X, y: X) -> X:
        model, history = gpjax.fit(
            model=family,
            objective=lambda model, data: -gpjax.objectives.collapsed_elbo(model, data),
            train_data=gpjax.Dataset(x, y),
            optim=optax.adam(0.01),
            num_iters=3,
            verbose=False,
        )
        return equinox.filter(model, equinox.is_array), history

    return fitted, (x, y[:, None])


def _posterior() -> Made:
    import gpjax

    x, y = _points(400)
    model = _model()

    def predicted(x: X, y: X, new: X) -> X:
        made = model.predict(new, gpjax.Dataset(x, y), covariance="diagonal")
        return made.mean, made.variance

    return predicted, (x, y[:, None], normal(20_000, 2, seed=1))


def _hilbert_space() -> Any:
    import numpyro
    import numpyro.distributions as dist
    from numpyro.contrib.hsgp.approximation import hsgp_squared_exponential

    def model(x: X, y: X) -> None:
        scale = numpyro.sample("scale", dist.LogNormal(0, 1))
        noise = numpyro.sample("noise", dist.LogNormal(0, 1))
        f = hsgp_squared_exponential(
            x, alpha=1.0, length=scale, ell=[5.0, 5.0], m=[15, 15], non_centered=True
        )
        numpyro.sample("y", dist.Normal(f, noise), obs=y)

    return model


def _log_density() -> Made:
    from numpyro.infer.util import log_density

    model = _hilbert_space()

    def value(sites: X, x: X, y: X) -> X:
        return log_density(model, (x, y), {}, sites)[0]

    sites = {"scale": jnp.asarray(1.3), "noise": jnp.asarray(0.2), "beta": normal(225, seed=2)}
    return jax.value_and_grad(value), (sites, *_points(20_000))


def _mcmc_step() -> Made:
    from numpyro.infer import NUTS

    x, y = _points(20_000)
    kernel = NUTS(_hilbert_space(), max_tree_depth=3)
    state = kernel.init(jax.random.key(0), 10, None, (x, y), {})
    return lambda state, x, y: kernel.sample(state, (x, y), {}), (state, x, y)


def _exact_density() -> Made:
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer.util import log_density

    def model(x: X, y: X) -> None:
        scale = numpyro.sample("scale", dist.LogNormal(0, 1))
        noise = numpyro.sample("noise", dist.LogNormal(0, 1))
        distance = ((x[:, None] - x[None]) ** 2).sum(-1)
        k = jnp.exp(-0.5 * distance / scale**2) + (noise + 1e-3) * jnp.eye(len(x))
        numpyro.sample("y", dist.MultivariateNormal(covariance_matrix=k), obs=y)

    sites = {"scale": jnp.asarray(1.3), "noise": jnp.asarray(0.2)}
    return jax.value_and_grad(lambda s, *a: log_density(model, a, {}, s)[0]), (sites, *_points(800))


def _block() -> Any:
    import flax.linen as nn

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x: X) -> X:
            mixed = nn.MultiHeadDotProductAttention(num_heads=4)(nn.LayerNorm()(x))
            x = x + nn.Dropout(0.1, deterministic=False)(mixed)
            wide = nn.gelu(nn.Dense(256)(nn.LayerNorm()(x)))
            return x + nn.Dense(x.shape[-1])(wide)

    return Block()


def _transformer() -> Made:
    block = _block()
    x = normal(2, 1024, 64, dtype="float32")
    variables = block.init({"params": jax.random.key(0), "dropout": jax.random.key(1)}, x)
    return lambda v, x, key: block.apply(v, x, rngs={"dropout": key}), (
        variables,
        x,
        jax.random.key(2),
    )


def _transformer_gradient() -> Made:
    forward, arguments = _transformer()
    return jax.value_and_grad(lambda *a: jnp.mean(forward(*a) ** 3)), arguments


def _nnx_attention() -> Made:
    from flax import nnx

    model = nnx.MultiHeadAttention(4, 64, decode=False, rngs=nnx.Rngs(0))
    definition, state = nnx.split(model)

    def loss(state: X, x: X) -> X:
        return jnp.mean(nnx.merge(definition, state)(x) ** 2)

    return jax.value_and_grad(loss), (state, normal(2, 1024, 64, dtype="float32"))


def _training_step() -> Made:
    import flax.linen as nn
    import optax

    class Layers(nn.Module):
        @nn.compact
        def __call__(self, x: X) -> X:
            for width in (256, 256):
                x = nn.relu(nn.Dense(width)(x))
            return nn.Dense(1)(x)

    model = Layers()
    x = normal(20_000, 16, dtype="float32")
    parameters = model.init(jax.random.key(0), x)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))

    def step(state: X, x: X, y: X) -> X:
        def loss(p: X) -> X:
            return jnp.mean(optax.huber_loss(model.apply(p, x), y))

        parameters, moments = state
        value, gradient = jax.value_and_grad(loss)(parameters)
        updates, moments = optimizer.update(gradient, moments, parameters)
        return (optax.apply_updates(parameters, updates), moments), value

    return step, ((parameters, optimizer.init(parameters)), x, x[:, :1])


def _lbfgs_step() -> Made:
    import optax

    x, y = _points(3000)
    solver = optax.lbfgs()

    def loss(w: X) -> X:
        k = jnp.exp(-0.5 * ((x[:, None] - x[None]) ** 2).sum(-1))
        return jnp.mean((k @ w / len(x) - y) ** 2)

    def step(w: X, state: X) -> X:
        value, gradient = optax.value_and_grad_from_state(loss)(w, state=state)
        updates, state = solver.update(
            gradient, state, w, value=value, grad=gradient, value_fn=loss
        )
        return optax.apply_updates(w, updates), state

    w = jnp.zeros(len(x))
    return step, (w, solver.init(w))


@dataclass(frozen=True)
class Case:
    """A program of a library, and the limit within which it runs, in MB."""

    library: str
    make: Callable[[], Made]
    limit: float
    x64: bool = True
    tolerance: float = 1e-9


CASES: Mapping[str, Case] = {
    "tinygp, log probability and gradient": Case("tinygp", _log_marginal_likelihood, 110),
    "tinygp, prediction": Case("tinygp", _prediction, 15),
    "GPJax, collapsed bound and gradient": Case("gpjax", _collapsed_bound, 15),
    "GPJax, three steps of Adam": Case("gpjax", _fit, 15),
    "GPJax, posterior": Case("gpjax", _posterior, 15),
    "NumPyro, HSGP, log density and gradient": Case("numpyro", _log_density, 15),
    "NumPyro, HSGP, a step of NUTS": Case("numpyro", _mcmc_step, 15),
    "NumPyro, exact GP, log density and gradient": Case("numpyro", _exact_density, 40),
    "Flax, transformer block": Case("flax", _transformer, 15, False, 1e-5),
    "Flax, transformer block, gradient": Case("flax", _transformer_gradient, 15, False, 1e-5),
    "Flax nnx, attention, gradient": Case("flax", _nnx_attention, 15, False, 1e-5),
    "optax, step of AdamW": Case("optax", _training_step, 15, False, 1e-5),
    "optax, step of L-BFGS": Case("optax", _lbfgs_step, 15, True, 1e-6),
}
