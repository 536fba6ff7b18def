"""Arguments of the works, and how far a contender's results are from what they should be.

    matvec               K v: X [n, d], v [n, 1] -> product [n, 1]
    quadratic            v' K v, arguments alike -> value [], and its gradients: X [n, d], v [n, 1],
                         lengthscales [d], variance []
    sgpr                 X [n, d], Y [n, 1], Z [m, d] -> loss [], and its gradients: variance [],
                         lengthscales [d], noise [], Z [m, d]
    knn                  data [n, d], queries [q, d] -> indices [q, k], the nearest first
    attention            q, k, v [batch, heads, length, d] -> output, shaped alike
    attention-gradients  and upstream, shaped alike -> output, and q, k, v: gradients of
                         sum(upstream output)

K is the squared exponential, SGPR's kernel Matern 3/2. Gradients of positive parameters are those
of GPflow's unconstrained variables: value = softplus(variable), plus 1e-6 for the noise variance.
References are float64, by the definition of each work (sums of squared differences, no expanded
squares), of a sample where the whole would take minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.spatial.distance import cdist

from gp_experiments.peers.cases import Case

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]

VARIANCE, NOISE, NOISE_FLOOR, JITTER = 1.0, 0.1, 1e-6, 1e-6
SAMPLE = 64


def lengthscales(case: Case) -> Array:
    """Return one lengthscale per input [d]; larger for many, so that K is not the unit matrix."""
    d = case.sizes["d"]
    scale: Array = np.sqrt(d / 3) * np.linspace(0.9, 1.2, d)
    return scale


def arguments(case: Case) -> dict[str, Array]:
    """Return the arguments of a case; the same in every process."""
    rng = np.random.default_rng(0)
    made = _ARGUMENTS[case.work](rng, case.sizes)
    return {name: np.ascontiguousarray(value, case.dtype) for name, value in made.items()}


def _kernel(rng: np.random.Generator, sizes: Mapping[str, int]) -> dict[str, Array]:
    n = sizes["n"]
    return {"X": rng.standard_normal((n, sizes["d"])), "v": rng.standard_normal((n, 1))}


def _sgpr(rng: np.random.Generator, sizes: Mapping[str, int]) -> dict[str, Array]:
    X = rng.standard_normal((sizes["n"], sizes["d"]))
    Y = np.sin(X[:, :1]) + 0.1 * rng.standard_normal((len(X), 1))
    return {"X": X, "Y": Y, "Z": X[: sizes["m"]].copy()}


def _knn(rng: np.random.Generator, sizes: Mapping[str, int]) -> dict[str, Array]:
    data = rng.standard_normal((sizes["n"], sizes["d"]), np.float32)
    return {
        "data": data,
        "queries": rng.standard_normal((sizes["queries"], sizes["d"]), np.float32),
    }


def _attention(rng: np.random.Generator, sizes: Mapping[str, int]) -> dict[str, Array]:
    return _attended(rng, sizes, ("q", "k", "v"))


def _attention_gradients(rng: np.random.Generator, sizes: Mapping[str, int]) -> dict[str, Array]:
    return _attended(rng, sizes, ("q", "k", "v", "upstream"))


def _attended(
    rng: np.random.Generator, sizes: Mapping[str, int], names: Sequence[str]
) -> dict[str, Array]:
    shape = tuple(sizes[name] for name in ("batch", "heads", "length", "d"))
    return {name: rng.standard_normal(shape, np.float32) for name in names}


_ARGUMENTS: dict[str, Callable[[np.random.Generator, Mapping[str, int]], dict[str, Array]]] = {
    "matvec": _kernel,
    "quadratic": _kernel,
    "sgpr": _sgpr,
    "knn": _knn,
    "attention": _attention,
    "attention-gradients": _attention_gradients,
}


# References.


def reference(case: Case) -> dict[str, Array]:
    """Return what `compare` needs to know of the right results."""
    given = {name: value.astype(np.float64) for name, value in arguments(case).items()}
    return _REFERENCES[case.work](case, given)


def compare(case: Case, results: Arrays, right: Arrays) -> float:
    """Return the largest relative error of the results; inf for what is not finite.

    Of an array: the largest difference over the largest element. Of neighbours: how much farther
    than the right one of that rank, over the distance; so ties are no errors.
    """
    seen = _SEEN[case.work](case, results)
    errors = [_relative(np.asarray(seen[name]), value) for name, value in right.items()]
    return max(errors)


def _relative(given: Array, right: Array) -> float:
    if given.shape != right.shape:
        raise ValueError(f"shape {given.shape} where {right.shape} is right")
    error = np.max(np.abs(given.astype(np.float64) - right)) / np.max(np.abs(right))
    return float(error) if np.isfinite(error) else float("inf")


def _rows(total: int) -> Array:
    return np.random.default_rng(1).choice(total, min(SAMPLE, total), replace=False)


def _squared_exponential(case: Case, A: Array, B: Array) -> Array:
    scale = lengthscales(case)
    K: Array = VARIANCE * np.exp(-0.5 * cdist(A / scale, B / scale, "sqeuclidean"))
    return K


def _matvec_reference(case: Case, given: Arrays) -> dict[str, Array]:
    X = given["X"]
    return {"product": _squared_exponential(case, X[_rows(len(X))], X) @ given["v"]}


def _matvec_seen(case: Case, results: Arrays) -> Arrays:
    product = results["product"]
    return {"product": product[_rows(len(product))]}


def _quadratic_reference(case: Case, given: Arrays) -> dict[str, Array]:
    X, v = given["X"], given["v"]
    scale, rows = lengthscales(case), _rows(len(X))
    value, by_scale = 0.0, np.zeros(len(scale))
    for start in range(0, len(X), 500):
        part = slice(start, start + 500)
        W = v[part] * _squared_exponential(case, X[part], X) * v[:, 0]
        value += W.sum()
        for k, ell in enumerate(scale):
            by_scale[k] += (W * (X[part, k, None] - X[None, :, k]) ** 2).sum() / ell**3
    K = _squared_exponential(case, X[rows], X)
    W = v[rows] * K * v[:, 0]
    by_x = [-2 * (W * (X[rows, k, None] - X[None, :, k])).sum(1) for k in range(len(scale))]
    return {
        "value": np.array(value),
        "X": np.stack(by_x, -1) / scale**2,
        "v": 2 * K @ v,
        "lengthscales": by_scale * softplus_slope(scale),
        "variance": np.array(value / VARIANCE * softplus_slope(VARIANCE)),
    }


def _quadratic_seen(case: Case, results: Arrays) -> Arrays:
    rows = _rows(case.sizes["n"])
    return {**results, "X": results["X"][rows], "v": results["v"][rows]}


def softplus_slope(value: Any) -> Any:
    """The derivative of softplus where it has this value."""
    return -np.expm1(-np.asarray(value))


def _sgpr_loss(X: Array, Y: Array, Z: Array, scale: Array, variance: float, noise: float) -> float:
    """Minus the bound of Titsias 2009, equation 9, as log N(y; 0, Q + noise 1) - trace term."""
    M = len(Z)

    def kernel(A: Array, B: Array) -> Array:
        r = np.sqrt(3) * cdist(A / scale, B / scale)
        K: Array = variance * (1 + r) * np.exp(-r)
        return K

    L = cholesky(kernel(Z, Z) + JITTER * np.eye(M), lower=True)
    AAt, Ay = np.zeros((M, M)), np.zeros((M, 1))
    for start in range(0, len(X), 4000):
        part = slice(start, start + 4000)
        A = solve_triangular(L, kernel(Z, X[part]), lower=True, check_finite=False)
        AAt += A @ A.T
        Ay += A @ Y[part]
    LB = cholesky(np.eye(M) + AAt / noise, lower=True)
    fit = (Y**2).sum() / noise - (Ay * cho_solve((LB, True), Ay)).sum() / noise**2
    log_det = 2 * np.log(np.diag(LB)).sum() + len(X) * np.log(2 * np.pi * noise)
    return float(0.5 * (fit + log_det + (len(X) * variance - np.trace(AAt)) / noise))


def _direction(Z: Array) -> Array:
    return np.random.default_rng(2).standard_normal(Z.shape)


def _sgpr_reference(case: Case, given: Arrays) -> dict[str, Array]:
    """The loss, and central differences of it along one direction per group of parameters."""
    X, Y, Z = given["X"], given["Y"], given["Z"]
    scale, step = lengthscales(case), 1e-4

    def slope(change: Callable[[float], float]) -> Array:
        # Fourth order: rounding of a sum over n points leaves no room for a smaller step.
        near, far = change(step) - change(-step), change(2 * step) - change(-2 * step)
        return np.array((8 * near - far) / (12 * step))

    return {
        "loss": np.array(_sgpr_loss(X, Y, Z, scale, VARIANCE, NOISE)),
        "variance": softplus_slope(VARIANCE)
        * slope(lambda h: _sgpr_loss(X, Y, Z, scale, VARIANCE + h, NOISE)),
        "lengthscales": slope(
            lambda h: _sgpr_loss(X, Y, Z, scale + h * softplus_slope(scale), VARIANCE, NOISE)
        ),
        "noise": softplus_slope(NOISE - NOISE_FLOOR)
        * slope(lambda h: _sgpr_loss(X, Y, Z, scale, VARIANCE, NOISE + h)),
        "Z": slope(lambda h: _sgpr_loss(X, Y, Z + h * _direction(Z), scale, VARIANCE, NOISE)),
    }


def _sgpr_seen(case: Case, results: Arrays) -> Arrays:
    Z = results["Z"]
    return {
        **results,
        "lengthscales": results["lengthscales"].sum(),
        "Z": (Z * _direction(Z)).sum(),
    }


_METRICS = {"l2": "sqeuclidean", "l1": "cityblock", "cosine": "cosine"}


def _knn_reference(case: Case, given: Arrays) -> dict[str, Array]:
    queries = given["queries"][_rows(len(given["queries"]))]
    distances = cdist(queries, given["data"], _METRICS[case.metric])
    return {"distances": np.sort(np.partition(distances, case.sizes["k"])[:, : case.sizes["k"]])}


def _knn_seen(case: Case, results: Arrays) -> Arrays:
    given = arguments(case)
    rows = _rows(len(given["queries"]))
    pairs = zip(given["queries"][rows], results["indices"][rows], strict=True)
    distances = [
        cdist(query[None].astype(float), given["data"][chosen].astype(float), _METRICS[case.metric])
        for query, chosen in pairs
    ]
    return {"distances": np.concatenate(distances)}


def _attention_reference(case: Case, given: Arrays) -> dict[str, Array]:
    q, k, v = (given[name][-1, -1] for name in ("q", "k", "v"))
    scores = q @ k.T / np.sqrt(q.shape[-1])
    P = np.exp(scores - scores.max(1, keepdims=True))
    P /= P.sum(1, keepdims=True)
    output = P @ v
    if case.work == "attention":
        return {"output": output}
    upstream = given["upstream"][-1, -1]
    dP = upstream @ v.T
    dS = P * (dP - (P * dP).sum(1, keepdims=True)) / np.sqrt(q.shape[-1])
    return {"output": output, "q": dS @ k, "k": dS.T @ q, "v": P.T @ upstream}


def _attention_seen(case: Case, results: Arrays) -> Arrays:
    return {name: value[-1, -1] for name, value in results.items()}


_REFERENCES: dict[str, Callable[[Case, Arrays], dict[str, Array]]] = {
    "matvec": _matvec_reference,
    "quadratic": _quadratic_reference,
    "sgpr": _sgpr_reference,
    "knn": _knn_reference,
    "attention": _attention_reference,
    "attention-gradients": _attention_reference,
}
_SEEN: dict[str, Callable[[Case, Arrays], Arrays]] = {
    "matvec": _matvec_seen,
    "quadratic": _quadratic_seen,
    "sgpr": _sgpr_seen,
    "knn": _knn_seen,
    "attention": _attention_seen,
    "attention-gradients": _attention_seen,
}
