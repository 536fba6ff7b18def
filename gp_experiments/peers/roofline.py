"""What the machine can do, and so what each case takes at least.

Rates are measured here, on tiles that stay in cache, on all cores: products (GEMM) by NumPy and by
TensorFlow, exponentials by NumPy, TensorFlow and XLA; the best of each counts. The bound of a case
is its necessary products and exponentials at those rates, one after the other, since they use the
same units; nothing for memory, since tiles stay in cache.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from gp_experiments.peers.cases import Case
from gp_experiments.peers.contenders import TENSORFLOW
from gp_experiments.peers.data import Array

Rates = Mapping[str, float]
"""Operations per second: {"gemm float64 numpy": 1e11, "exp float32 xla": 3e9, ...}."""

SIZE = 1_536
ELEMENTS = 1 << 17
REPEATS = 15


def measure_rates() -> dict[str, float]:
    """Measure all rates in fresh processes: NumPy's and TensorFlow's."""
    found: dict[str, float] = {}
    for which in ("numpy", "tensorflow"):
        done = subprocess.run(
            [sys.executable, "-m", "gp_experiments.peers.roofline", which],
            env={**os.environ, **TENSORFLOW},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        found.update(json.loads(done.stdout.splitlines()[-1]))
    return found


def best(rates: Rates, kind: str, dtype: str) -> float:
    """Return the best rate of a kind ("gemm", "exp") over the libraries."""
    return max(rate for name, rate in rates.items() if name.startswith(f"{kind} {dtype} "))


def bound(case: Case, rates: Rates) -> float:
    """Return the seconds that a case takes at least at these rates."""
    flops, exponentials = counts(case)
    return flops / best(rates, "gemm", case.dtype) + exponentials / best(rates, "exp", case.dtype)


def counts(case: Case) -> tuple[float, float]:
    """Return the flops of products and the exponentials that a case needs.

    K(X, X) is computed once per pair, by symmetry, and used twice. L1 distances count three flops a
    coordinate, twice as much as flops of a product, which come in pairs. SGPR: the solve, A A',
    and dloss/dKuf = Q Kuf. Gradients of attention: five products of the scores' size beside the
    forward's two, less the scores, which are kept while a tile is in cache.
    """
    s = case.sizes
    if case.work == "matvec":
        pairs = s["n"] ** 2
        return pairs * (s["d"] + 2) + 2 * pairs, pairs / 2
    if case.work == "quadratic":
        pairs = s["n"] ** 2
        return pairs * (s["d"] + 2) + 2 * pairs * (1 + s["d"]), pairs / 2
    if case.work == "sgpr":
        products = 4 * s["n"] * s["m"] ** 2
        return products + s["n"] * s["m"] * (2 * (s["d"] + 2) + 2 * (1 + 2 * s["d"])), s["n"] * s[
            "m"
        ]
    if case.work == "knn":
        pairs = s["queries"] * s["n"]
        return pairs * (6 * s["d"] if case.metric == "l1" else 2 * (s["d"] + 1)), 0
    scores = s["batch"] * s["heads"] * s["length"] ** 2
    products = 2 if case.work == "attention" else 6
    return 2.0 * products * scores * s["d"], scores


def _rate(call: Callable[[], Any], operations: float) -> float:
    """Return operations per second of the fastest of several calls."""
    call()
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return operations / min(seconds)


def _numpy_rates() -> dict[str, float]:
    cores = len(os.sched_getaffinity(0))
    pool = ThreadPoolExecutor(cores)
    found = {}

    def exponentials(tile: tuple[Array, Array]) -> None:
        for _ in range(16):
            np.exp(tile[0], out=tile[1])

    for dtype in ("float64", "float32"):
        A = np.random.default_rng(0).standard_normal((SIZE, SIZE)).astype(dtype)
        tiles = [(-np.abs(A.ravel()[:ELEMENTS]), np.empty(ELEMENTS, dtype)) for _ in range(cores)]
        found[f"gemm {dtype} numpy"] = _rate(partial(np.matmul, A, A), 2 * SIZE**3)
        # A list, so that it is complete.
        in_threads = partial(lambda tiles: list(pool.map(exponentials, tiles)), tiles)
        found[f"exp {dtype} numpy"] = _rate(in_threads, 16 * cores * ELEMENTS)
    return found


def _tensorflow_rates() -> dict[str, float]:
    import tensorflow as tf

    from tf_exla.frontends.tf.measuring.calibrate import FEW, MANY, exponentials

    # XLA's code writes its result, which takes longer than the exponential: two lengths tell.
    few, many = exponentials(FEW), exponentials(MANY)
    found = {}
    for dtype in ("float64", "float32"):
        A = tf.random.stateless_normal((SIZE, SIZE), (0, 0), dtype=dtype)
        tile = -tf.abs(tf.reshape(A, [-1])[: 4 * ELEMENTS])
        found[f"gemm {dtype} tensorflow"] = _rate(partial(tf.matmul, A, A), 2 * SIZE**3)
        found[f"exp {dtype} tensorflow"] = _rate(partial(tf.exp, tile), 4 * ELEMENTS)
        spent = [1 / _rate(partial(sums, tile), 4 * ELEMENTS) for sums in (few, many)]
        found[f"exp {dtype} xla"] = (MANY - FEW) / (spent[1] - spent[0])
    return found


if __name__ == "__main__":
    print(json.dumps(_numpy_rates() if sys.argv[1] == "numpy" else _tensorflow_rates()))
