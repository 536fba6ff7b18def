"""Hyperparameters and latent functions sampled by HMC, of full and of sparse models."""

import gpflow
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from gpflow.utilities import to_default_float as number

tf.random.set_seed(0)
rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, (250, 1))
Y = np.sin(3 * X) + 0.1 * rng.standard_t(3, size=X.shape)


def with_priors(kernel):
    kernel.lengthscales.prior = tfp.distributions.Gamma(number(2.0), number(3.0))
    kernel.variance.prior = tfp.distributions.Gamma(number(2.0), number(2.0))
    return kernel


exact = gpflow.models.GPR((X, Y), with_priors(gpflow.kernels.Matern32()), noise_variance=0.1)
exact.likelihood.variance.prior = tfp.distributions.Gamma(number(1.0), number(5.0))
heavy = gpflow.models.GPMC(
    (X[:100], Y[:100]), with_priors(gpflow.kernels.Matern52()), gpflow.likelihoods.StudentT()
)
gpflow.set_trainable(heavy.likelihood, False)
inputs = rng.uniform(-2, 2, (8009, 1))
sparse = gpflow.models.SGPMC(
    (inputs, (np.sin(3 * inputs) > 0).astype(float)),
    with_priors(gpflow.kernels.SquaredExponential()),
    gpflow.likelihoods.Bernoulli(),
    inducing_variable=X[:30].copy(),
)
gpflow.set_trainable(sparse.inducing_variable, False)
for model in (exact, heavy, sparse):
    helper = gpflow.optimizers.SamplingHelper(
        model.log_posterior_density, model.trainable_parameters
    )
    hmc = tfp.mcmc.HamiltonianMonteCarlo(
        helper.target_log_prob_fn, num_leapfrog_steps=2, step_size=0.01
    )

    @tf.function
    def sample(helper=helper, kernel=hmc):
        return tfp.mcmc.sample_chain(
            2, helper.current_state, kernel=kernel, num_burnin_steps=1, trace_fn=None, seed=(1, 2)
        )

    states = sample()
    for state, parameter in zip(states, model.trainable_parameters, strict=True):
        parameter.unconstrained_variable.assign(state[-1])
        print(float(tf.reduce_sum(parameter)))
    print(float(model.log_posterior_density()), float(tf.reduce_sum(model.predict_f(X[:50])[1])))
