"""NumPy written by hand for each formula: what a specialist would do, one thread per core.

Work is cut into tiles that stay in cache; each thread takes the next one, with BLAS on one thread
(`OPENBLAS_NUM_THREADS=1`, set by the contender's environment), and NumPy releases the interpreter
lock in products and in ufuncs. Distances are one augmented product,

    -1/2 |x - y|^2 = [x, -1/2 |x|^2, 1] . [y, 1, -1/2 |y|^2],

functions are applied in place, and gradients are derived on paper (see each).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from gp_experiments.peers.cases import Case
from gp_experiments.peers.data import (
    JITTER,
    NOISE,
    NOISE_FLOOR,
    VARIANCE,
    Array,
    lengthscales,
    softplus_slope,
)
from gp_experiments.peers.program import Build, Program

_pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)))
ROWS, TILE = 256, 1 << 19  # rows of a tile, and its bytes


def _parts(total: int, size: int) -> Iterable[slice]:
    return (slice(start, min(start + size, total)) for start in range(0, total, size))


def _augmented(x: Array, y: Array) -> tuple[Array, Array]:
    """Return A [n, d + 2], B [d + 2, m] with A B = -1/2 |x - y|^2 for x [n, d], y [m, d]."""
    half = [-0.5 * np.einsum("nd,nd->n", z, z)[:, None] for z in (x, y)]
    ones = [np.ones_like(z) for z in half]
    A = np.concatenate([x, half[0], ones[0]], 1)
    B = np.concatenate([y, ones[1], half[1]], 1)
    return A, np.ascontiguousarray(B.T)


def _kernel_times(z: Array, W: Array) -> Array:
    """Return K W [n, p] for the squared exponential of scaled inputs z [n, d] and W [n, p]."""
    n, columns = len(z), max(256, TILE // (ROWS * z.itemsize))
    A, B = _augmented(z, z)
    result = np.empty_like(W)

    def rows(part: slice) -> None:
        buffer = np.empty((ROWS, columns), z.dtype)
        total = np.zeros((part.stop - part.start, W.shape[1]), z.dtype)
        for across in _parts(n, columns):
            K = buffer[: len(total), : across.stop - across.start]
            np.matmul(A[part], B[:, across], out=K)
            np.exp(K, out=K)
            total += K @ W[across]
        result[part] = VARIANCE * total

    list(_pool.map(rows, _parts(n, ROWS)))
    return result


def _matvec(case: Case, data: Mapping[str, Array]) -> Program:
    scale = lengthscales(case).astype(case.dtype)
    return Program(lambda: {"product": _kernel_times(data["X"] / scale, data["v"])})


def _quadratic(case: Case, data: Mapping[str, Array]) -> Program:
    """K [v, v z] holds everything: df/dz_i = -2 v_i (z_i (K v)_i - (K (v z))_i), with z = x / l,
    and df/dl = -sum_i df/dz_i z_i / l; df/dv = 2 K v, df/ds = f / s.
    """
    X, v = data["X"], data["v"]
    scale = lengthscales(case)

    def call() -> Mapping[str, Any]:
        z = X / scale
        T = _kernel_times(z, np.concatenate([v, v * z], 1))
        Kv = T[:, :1]
        value = np.vdot(v, Kv)
        by_z = -2 * v * (z * Kv - T[:, 1:])
        return {
            "value": value,
            "X": by_z / scale,
            "v": 2 * Kv,
            "lengthscales": -(by_z * z).sum(0) / scale * softplus_slope(scale),
            "variance": value / VARIANCE * softplus_slope(VARIANCE),
        }

    return Program(call)


# SGPR.

COLUMNS = 1_024
BLOCK = 128


def _sgpr(case: Case, data: Mapping[str, Array]) -> Program:
    """Two passes over the data, after Gal, van der Wilk and Rasmussen 2014.

    With A = L^-1 Kuf, P = A A', b = A y, B = 1 + P / s2: the first pass adds up P and b; then
    dloss/dA = 2 G A + g y' with G, g of size m, so dloss/dKuf = Q Kuf + q y' with
    Q = 2 L^-T G L^-1, which the second pass multiplies with dKuf/dr^2 and sums over the data
    against [1, x, x^2]. Kuu's part is -1/2 L^-T (2 G P + g b') L^-1.
    """
    X, Y, Z, scale = data["X"], data["Y"], data["Z"], lengthscales(case)
    return Program(lambda: _bound(X / scale, Y, Z / scale, scale))


def _bound(x: Array, Y: Array, z: Array, scale: Array) -> Mapping[str, Any]:
    n, m = len(x), len(z)
    left, right = _augmented(np.sqrt(6) * z, np.sqrt(6) * x)  # their product is -3 r^2
    Kuu, slope_uu = _matern(*_augmented(np.sqrt(6) * z, np.sqrt(6) * z))
    L = np.linalg.cholesky(Kuu + JITTER * np.eye(m))
    L_inverse = np.linalg.inv(L)
    solve = _blocked_solve(L)

    def forward(part: slice) -> tuple[Array, Array]:
        A = solve(_matern(left, right[:, part])[0])
        return A @ A.T, A @ Y[part]

    P, b = (np.sum(terms, 0) for terms in zip(*_pool.map(forward, _parts(n, COLUMNS)), strict=True))
    B_inverse = np.linalg.inv(np.eye(m) + P / NOISE)
    B_inverse = (B_inverse + B_inverse.T) / 2
    beta = B_inverse @ b
    yy, fit = np.vdot(Y, Y), np.vdot(b, beta)
    _, log_det = np.linalg.slogdet(np.eye(m) + P / NOISE)
    trace = n * VARIANCE - np.trace(P)
    loss = 0.5 * (yy / NOISE + log_det + n * np.log(2 * np.pi * NOISE) + trace / NOISE)
    loss -= 0.5 * fit / NOISE**2

    G = 0.5 * ((B_inverse - np.eye(m)) / NOISE + beta @ beta.T / NOISE**3)
    g = -beta / NOISE**2
    S = 2 * G @ P + g @ b.T
    Q, q = 2 * L_inverse.T @ G @ L_inverse, L_inverse.T @ g
    moments = np.concatenate([np.ones((n, 1)), x, x**2], 1)

    def backward(part: slice) -> Array:
        K, slope = _matern(left, right[:, part])
        W = Q @ K
        W += q * Y[part, 0]
        W *= slope
        sums: Array = W @ moments[part]
        return sums

    T = np.sum(list(_pool.map(backward, _parts(n, COLUMNS))), 0)  # [m, 1 + 2 d]
    Kuu_bar = -0.5 * L_inverse.T @ (S + S.T) / 2 @ L_inverse
    T_uu = (Kuu_bar * slope_uu) @ np.concatenate([np.ones((m, 1)), z, z**2], 1)
    by_z, by_scale = np.zeros_like(z), np.zeros(len(scale))
    d = len(scale)
    for moment, times in ((T, 1), (T_uu, 2)):  # in Kuu, z is on both sides
        by_z += times * 2 * (z * moment[:, :1] - moment[:, 1 : d + 1])
        squares = z**2 * moment[:, :1] - 2 * z * moment[:, 1 : d + 1] + moment[:, d + 1 :]
        by_scale -= 2 / scale * squares.sum(0)
    by_variance = (n / (2 * NOISE)) + (np.trace(S) + np.vdot(Kuu_bar, Kuu)) / VARIANCE
    by_noise = (
        (n * NOISE - yy - trace) / (2 * NOISE**2)
        - np.vdot(B_inverse, P) / (2 * NOISE**2)
        + fit / NOISE**3
        - np.vdot(beta, P @ beta) / (2 * NOISE**4)
    )
    return {
        "loss": loss,
        "variance": by_variance * softplus_slope(VARIANCE),
        "lengthscales": by_scale * softplus_slope(scale),
        "noise": by_noise * softplus_slope(NOISE - NOISE_FLOOR),
        "Z": by_z / scale,
    }


def _matern(A: Array, B: Array) -> tuple[Array, Array]:
    """Return Matern 3/2 and its derivative by r^2, where A B = -3 r^2."""
    root: Array = A @ B
    np.negative(root, out=root)
    np.maximum(root, 0, out=root)
    np.sqrt(root, out=root)
    decay: Array = np.negative(root)
    np.exp(decay, out=decay)
    decay *= np.float64(VARIANCE)
    root += np.float64(1)
    root *= decay
    decay *= np.float64(-1.5)
    return root, decay


def _blocked_solve(L: Array) -> Callable[[Array], Array]:
    """Return B -> L^-1 B, in place, in blocks: SciPy's solve holds the interpreter lock."""
    parts = list(_parts(len(L), BLOCK))
    inverses = [np.linalg.inv(L[part, part]) for part in parts]

    def solve(B: Array) -> Array:
        for part, inverse in zip(parts, inverses, strict=True):
            if part.start:
                B[part] -= L[part, : part.start] @ B[: part.start]
            B[part] = inverse @ B[part]
        return B

    return solve


# Nearest neighbours.

QUERIES, POINTS = 128, 4_096


def _knn(case: Case, data: Mapping[str, Array]) -> Program:
    """A running top-k: of a chunk, only what is nearer than the k-th so far is looked at."""
    k, distances = case.sizes["k"], _DISTANCES[case.metric]
    queries = data["queries"]

    def call() -> Mapping[str, Any]:
        within = distances(queries, data["data"])
        indices = np.empty((len(queries), k), np.int64)

        def block(part: slice) -> None:
            best: tuple[Array, Array] | None = None
            for across in _parts(len(data["data"]), POINTS):
                best = _nearer(within(part, across), across.start, best, k)
            assert best is not None
            indices[part] = best[1]

        list(_pool.map(block, _parts(len(queries), QUERIES)))
        return {"indices": indices}

    return Program(call)


def _nearer(D: Array, start: int, best: tuple[Array, Array] | None, k: int) -> tuple[Array, Array]:
    """Return distances [q, k], sorted, and indices, of the best so far and those in D [q, c]."""
    if best is None:
        near = np.argpartition(D, min(k, D.shape[1] - 1), 1)[:, :k]
        found = np.take_along_axis(D, near, 1)
        order = np.argsort(found, 1)
        return np.take_along_axis(found, order, 1), np.take_along_axis(near, order, 1) + start
    flat = np.flatnonzero(D < best[0][:, -1:])
    if not len(flat):
        return best
    row, column = np.divmod(flat, D.shape[1])
    rows = np.concatenate([np.repeat(np.arange(len(D)), k), row])
    found = np.concatenate([best[0].ravel(), D.ravel()[flat]])
    index = np.concatenate([best[1].ravel(), column + start])
    order = np.lexsort((found, rows))
    counts = np.bincount(rows, minlength=len(D))
    first = np.cumsum(counts) - counts
    chosen = order[first[:, None] + np.arange(k)]
    return found[chosen], index[chosen]


Distances = Callable[[slice, slice], Array]


def _square_distances(queries: Array, data: Array) -> Distances:
    """Without |query|^2, which changes no order."""
    A = np.concatenate([-2 * queries, np.ones((len(queries), 1), queries.dtype)], 1)
    norms = np.einsum("nd,nd->n", data, data)
    if data.shape[1] < 64:
        B = np.concatenate([data, norms[:, None]], 1)
        return lambda part, across: A[part] @ B[across].T

    def within(part: slice, across: slice) -> Array:
        D: Array = A[part, :-1] @ data[across].T
        D += norms[across]
        return D

    return within


def _manhattan(queries: Array, data: Array) -> Distances:
    columns = np.ascontiguousarray(data.T)

    def within(part: slice, across: slice) -> Array:
        total = np.zeros((part.stop - part.start, across.stop - across.start), data.dtype)
        buffer = np.empty_like(total[:16])
        for few in _parts(len(total), 16):
            sums = total[few]
            difference = buffer[: len(sums)]
            for query, column in zip(queries[part][few].T, columns[:, across], strict=True):
                np.subtract(query[:, None], column, out=difference)
                np.abs(difference, out=difference)
                sums += difference
        return total

    return within


def _cosine(queries: Array, data: Array) -> Distances:
    """Minus the cosine; of the queries no norm is needed."""
    points = data / np.sqrt(np.einsum("nd,nd->n", data, data))[:, None]

    def within(part: slice, across: slice) -> Array:
        D: Array = -queries[part] @ points[across].T
        return D

    return within


_DISTANCES: dict[str, Callable[[Array, Array], Distances]] = {
    "l2": _square_distances,
    "l1": _manhattan,
    "cosine": _cosine,
}


# Attention.


def _attention(case: Case, data: Mapping[str, Array]) -> Program:
    q, k, v = (data[name].reshape(-1, *data[name].shape[2:]) for name in ("q", "k", "v"))

    def call() -> Mapping[str, Any]:
        output = np.empty_like(q)

        def head(at: int) -> None:
            transposed = np.ascontiguousarray(k[at].T) * np.float32(1 / np.sqrt(q.shape[-1]))
            for part in _parts(q.shape[1], ROWS):
                P, total = _exponentials(q[at, part], transposed)
                output[at, part] = P @ v[at] / total

        list(_pool.map(head, range(len(q))))
        return {"output": output.reshape(data["q"].shape)}

    return Program(call)


def _exponentials(q: Array, transposed: Array) -> tuple[Array, Array]:
    """Return exp(q k' - row maximum) and its row sums."""
    S: Array = q @ transposed
    S -= S.max(1, keepdims=True)
    np.exp(S, out=S)
    return S, S.sum(1, keepdims=True)


def _attention_gradients(case: Case, data: Mapping[str, Array]) -> Program:
    """dS = P (dO v' - rowsum(dO O)), dq = dS k, dk = dS' q, dv = P' dO; P once per tile."""
    names = ("q", "k", "v", "upstream")
    q, k, v, upstream = (data[name].reshape(-1, *data[name].shape[2:]) for name in names)
    scale = np.float32(1 / np.sqrt(q.shape[-1]))

    def call() -> Mapping[str, Any]:
        made = {name: np.zeros_like(q) for name in ("output", "q", "k", "v")}

        def head(at: int) -> None:
            transposed = np.ascontiguousarray(k[at].T) * scale
            values = np.ascontiguousarray(v[at].T)
            for part in _parts(q.shape[1], ROWS):
                P, total = _exponentials(q[at, part], transposed)
                P /= total
                output = made["output"][at, part] = P @ v[at]
                dO = upstream[at, part]
                dS = dO @ values
                dS -= (dO * output).sum(1, keepdims=True)
                dS *= P
                made["q"][at, part] = dS @ k[at] * scale
                made["k"][at] += dS.T @ (q[at, part] * scale)
                made["v"][at] += P.T @ dO

        list(_pool.map(head, range(len(q))))
        return {name: value.reshape(data["q"].shape) for name, value in made.items()}

    return Program(call)


WORKS: dict[str, Build] = {
    "matvec": _matvec,
    "quadratic": _quadratic,
    "sgpr": _sgpr,
    "knn": _knn,
    "attention": _attention,
    "attention-gradients": _attention_gradients,
}
