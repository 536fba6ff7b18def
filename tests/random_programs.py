"""Random TensorFlow programs with a few large tensors, to compare with their optimized versions.

A program is a list of steps on a pool of tensors, made from a seed: matrix products, pointwise ops,
reductions, broadcasts, transposes, reshapes, solves, slices, cumulative sums, nested functions. It
has shared intermediates and several outputs. Values are kept near one, so that results agree up to
rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

LONG = (301, 512, 997, 1200)  # sizes of the long axes: products of two are large
SHORT = (1, 2, 3, 5, 8)
STEPS = 14
MOST_ELEMENTS = 1_500_000
MOST_MULTIPLICATIONS = 500_000_000  # of one product: two long axes and a shorter one


@dataclass(frozen=True)
class Program:
    """`function(*arguments)` returns a list of tensors; `steps` describes it."""

    function: Callable[..., list[tf.Tensor]]
    arguments: list[tf.Tensor]
    steps: list[str]


class _Writer:
    """A generator of steps, which also records them, so that each run does the same."""

    def __init__(self, seed: int, dtype: tf.DType) -> None:
        self.rng = np.random.default_rng(seed)
        self.dtype = dtype
        self.steps: list[tuple[str, Callable[[list[tf.Tensor]], tf.Tensor]]] = []

    def pick(self, pool: Sequence[tf.Tensor], rank: int | None = None) -> int | None:
        found = [i for i, t in enumerate(pool) if rank is None or len(t.shape) == rank]
        if not found:
            return None
        weights = np.array([1.0 + i for i in range(len(found))])  # prefer later ones
        return int(self.rng.choice(found, p=weights / weights.sum()))


def _step(w: _Writer, pool: list[tf.Tensor]) -> tuple[str, Callable[..., tf.Tensor]] | None:
    kind = w.rng.choice(list(_KINDS))
    return _KINDS[kind](w, pool)


def _scaled_product(
    pool: list[tf.Tensor], a: int, b: int, ta: bool, tb: bool, scale: float
) -> tf.Tensor:
    product = tf.matmul(pool[a], pool[b], transpose_a=ta, transpose_b=tb)
    return tf.tanh(product * tf.cast(scale, product.dtype))


def _matmul(w: _Writer, pool: list[tf.Tensor]) -> Any:
    a = w.pick(pool, 2)
    if a is None:
        return None
    for b in w.rng.permutation(len(pool)):
        if len(pool[b].shape) != 2:
            continue
        for ta, tb in ((False, False), (False, True), (True, False), (True, True)):
            left, right = pool[a].shape.as_list(), pool[b].shape.as_list()
            m, k = left[::-1] if ta else left
            q, n = right[::-1] if tb else right
            if k == q and m * n <= MOST_ELEMENTS and m * k * n <= MOST_MULTIPLICATIONS:
                scale = 1.0 / np.sqrt(max(k, 1))
                return (
                    f"matmul({a}, {b}, {ta}, {tb})",
                    partial(_scaled_product, a=a, b=b, ta=ta, tb=tb, scale=scale),
                )
    return None


_UNARY: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "tanh": tf.tanh,
    "gauss": lambda x: tf.exp(-tf.square(x)),
    "sin": tf.sin,
    "norm": lambda x: tf.sqrt(1 + tf.square(x)) - 1,
    "sigmoid": tf.sigmoid,
    "softplus": tf.nn.softplus,
    "relu": tf.nn.relu,
    "negative": tf.negative,
    "where": lambda x: tf.where(x > 0, x, 0.5 * tf.sin(x)),
    "cube": lambda x: tf.tanh(x) ** 3,
}


def _unary(w: _Writer, pool: list[tf.Tensor]) -> Any:
    a, name = w.pick(pool), str(w.rng.choice(list(_UNARY)))
    return f"{name}({a})", lambda p: _UNARY[name](p[a])


_BINARY: dict[str, Callable[[Any, Any], tf.Tensor]] = {
    "add": tf.add,
    "sub": tf.subtract,
    "mul": tf.multiply,
    "max": tf.maximum,
    "sqdiff": tf.math.squared_difference,
    "ratio": lambda x, y: x / (1 + tf.square(y)),
}


def _apply_binary(pool: list[tf.Tensor], name: str, a: int, b: int) -> tf.Tensor:
    return _BINARY[name](pool[a], pool[b])


def _binary(w: _Writer, pool: list[tf.Tensor]) -> Any:
    a = w.pick(pool)
    for b in w.rng.permutation(len(pool)):
        try:
            shape = tf.broadcast_static_shape(pool[a].shape, pool[b].shape)
        except ValueError:
            continue
        if shape.num_elements() <= MOST_ELEMENTS:
            name = str(w.rng.choice(list(_BINARY)))
            return f"{name}({a}, {b})", partial(_apply_binary, name=name, a=a, b=b)
    return None


def _outer(w: _Writer, pool: list[tf.Tensor]) -> Any:
    a, b = w.pick(pool, 1), w.pick(pool, 1)
    if a is None or b is None or pool[a].shape[0] * pool[b].shape[0] > MOST_ELEMENTS:
        return None
    return f"outer({a}, {b})", lambda p: tf.tanh(p[a][:, None] - p[b][None, :])


def _scaled_sum(x: tf.Tensor, axis: int | None, keepdims: bool) -> tf.Tensor:
    axes = range(len(x.shape)) if axis is None else [axis]
    count = np.prod([x.shape[i] for i in axes])
    return tf.reduce_sum(x, axis, keepdims) / float(np.sqrt(count + 1))


_REDUCE: dict[str, Callable[..., tf.Tensor]] = {
    "sum": _scaled_sum,
    "mean": tf.reduce_mean,
    "max": tf.reduce_max,
    "min": tf.reduce_min,
    "logsumexp": tf.reduce_logsumexp,
}  # fmt: skip


def _reduce(w: _Writer, pool: list[tf.Tensor]) -> Any:
    a = w.pick(pool)
    rank = len(pool[a].shape)
    if rank == 0:
        return None
    axis = int(w.rng.integers(-1, rank))
    where = None if axis < 0 else axis
    keep = bool(w.rng.integers(2))
    name = str(w.rng.choice(list(_REDUCE)))
    return f"{name}({a}, {where}, {keep})", lambda p: _REDUCE[name](p[a], axis=where, keepdims=keep)


def _transpose(w: _Writer, pool: list[tf.Tensor]) -> Any:
    a = w.pick(pool)
    order = [int(i) for i in w.rng.permutation(len(pool[a].shape))]
    return f"transpose({a}, {order})", lambda p: tf.transpose(p[a], order)


def _reshape(w: _Writer, pool: list[tf.Tensor]) -> Any:
    a = w.pick(pool)
    shape = pool[a].shape.as_list()
    choices: list[list[int]] = [[-1], [1, *shape], [*shape, 1]]
    if shape and shape[0] % 2 == 0:
        choices.append([2, shape[0] // 2, *shape[1:]])
        choices.append([shape[0] // 2, 2, *shape[1:]])
    if len(shape) >= 2:
        choices.append([shape[0] * shape[1], *shape[2:]])
    new = choices[int(w.rng.integers(len(choices)))]
    if len(new) > 3:
        return None
    return f"reshape({a}, {new})", lambda p: tf.reshape(p[a], new)


def _slice(w: _Writer, pool: list[tf.Tensor]) -> Any:
    a = w.pick(pool)
    shape = pool[a].shape.as_list()
    if not shape or shape[-1] < 2:
        return None
    stop = int(w.rng.integers(1, shape[-1]))
    step = int(w.rng.integers(1, 3))
    if w.rng.integers(2):
        return f"{a}[..., :{stop}:{step}]", lambda p: p[a][..., :stop:step]
    begin = int(w.rng.integers(0, shape[0]))
    return f"{a}[{begin}:]", lambda p: p[a][begin:]


def _softmax(w: _Writer, pool: list[tf.Tensor]) -> Any:
    a = w.pick(pool, 2)
    if a is None:
        return None
    log = bool(w.rng.integers(2))
    return f"softmax({a}, {log})", lambda p: (tf.nn.log_softmax if log else tf.nn.softmax)(p[a])


def _cumulative(w: _Writer, pool: list[tf.Tensor]) -> Any:
    a = w.pick(pool, 2)
    if a is None:
        return None
    axis = int(w.rng.integers(2))
    name = str(w.rng.choice(["cumsum", "reverse", "concat", "tile", "roll", "pad"]))
    steps: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
        "cumsum": lambda x: tf.cumsum(x, axis) / float(x.shape[axis]),
        "reverse": lambda x: tf.reverse(x, [axis]),
        "concat": lambda x: tf.concat([x, tf.sin(x)], axis),
        "tile": lambda x: tf.tile(x, [2 if axis == 0 else 1, 2 if axis == 1 else 1]),
        "roll": lambda x: tf.roll(x, 3, axis),
        "pad": lambda x: tf.pad(x, [[1, 0], [0, 2]] if axis else [[0, 1], [0, 0]]),
    }
    if pool[a].shape.num_elements() * 2 > MOST_ELEMENTS:
        return None
    return f"{name}({a}, {axis})", lambda p: steps[name](p[a])


def _solve(w: _Writer, pool: list[tf.Tensor]) -> Any:
    a = w.pick(pool, 2)
    if a is None or pool[a].shape[0] > 320:
        return None

    def solve(p: list[tf.Tensor]) -> tf.Tensor:
        x = p[a]
        size = x.shape[0]
        gram = tf.matmul(x, x, transpose_b=True) / float(x.shape[1] or 1)
        root = tf.linalg.cholesky(gram + tf.eye(size, dtype=x.dtype))
        return tf.linalg.triangular_solve(root, x)

    return f"solve({a})", solve


def _nested(w: _Writer, pool: list[tf.Tensor]) -> Any:
    a = w.pick(pool)
    inner = tf.function(lambda x: tf.tanh(x) * tf.sin(x), autograph=False)
    return f"nested({a})", lambda p: inner(p[a])


_KINDS: dict[str, Callable[[_Writer, list[tf.Tensor]], Any]] = {
    "matmul": _matmul,
    "matmul again": _matmul,
    "unary": _unary,
    "unary again": _unary,
    "binary": _binary,
    "outer": _outer,
    "reduce": _reduce,
    "transpose": _transpose,
    "reshape": _reshape,
    "slice": _slice,
    "softmax": _softmax,
    "cumulative": _cumulative,
    "solve": _solve,
    "nested": _nested,
}


def random_program(seed: int) -> Program:
    """Draw a program: three to four arguments, `STEPS` steps, one to three outputs."""
    rng = np.random.default_rng(seed)
    dtype = tf.float64 if rng.random() < 0.8 else tf.float32
    n, m, d = rng.choice(LONG), rng.choice(LONG), rng.choice(SHORT)
    shapes = [(n, d), (m, d), (m,), (d, m)][: int(rng.integers(3, 5))]
    arguments = [tf.constant(rng.standard_normal(shape), dtype) for shape in shapes]
    writer = _Writer(seed + 10**6, dtype)
    # The steps are drawn from shapes alone, on placeholders of a graph that never runs.
    with tf.Graph().as_default():
        pool = [tf.compat.v1.placeholder(dtype, shape) for shape in shapes]
        # Start with a large tensor: the pairwise kernel of two arguments.
        writer.steps.append(
            ("gauss(0 1ᵀ)", lambda p: tf.exp(-tf.square(tf.matmul(p[0], p[1], transpose_b=True))))
        )
        pool.append(writer.steps[0][1](pool))
        tries = 0
        while len(writer.steps) < STEPS and tries < 200:
            tries += 1
            step = _step(writer, pool)
            if step is None:
                continue
            made = step[1](pool)
            if made.shape.num_elements() > MOST_ELEMENTS:
                continue
            writer.steps.append(step)
            pool.append(made)
    count = int(rng.integers(1, 4))
    first = len(arguments)
    chosen = sorted({len(pool) - 1, *(int(i) for i in rng.integers(first, len(pool), count - 1))})

    def function(*values: tf.Tensor) -> list[tf.Tensor]:
        pool = list(values)
        for _, run in writer.steps:
            pool.append(run(pool))
        # Most outputs are reduced, as in real programs; sometimes a large one stays.
        return [
            pool[i] if (seed + i) % 4 == 0 or not pool[i].shape.rank else tf.reduce_sum(pool[i], 0)
            for i in chosen
        ]

    steps = [
        f"{first + i}: {text} -> {pool[first + i].shape}"
        for i, (text, _) in enumerate(writer.steps)
    ]
    return Program(function, arguments, [*steps, f"outputs {chosen}"])
