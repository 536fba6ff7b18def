"""The error of each family of rewrites beside the original's own, on hard inputs.

`python tests/rewriting/accuracy.py` writes docs/accuracy.md. References are computed on the same
numbers in 80-bit floats, by the program that the rewrite starts from; distances by differences.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

if __name__ == "__main__":
    os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

import tensorflow as tf

from rewriting.rewritten import only, rewritten, runnable
from tf_exla.rewrite import DEFAULTS

MOST = 4.0
SEEDS = 10  # the worst of so many draws: one number that happens to cancel says little
FLOOR = 4.0  # units in the last place: errors below are rounding, whatever their ratio
Inputs = Callable[[np.random.Generator], tuple[np.ndarray, ...]]
Runnable = Callable[..., list[np.ndarray]]


@dataclass(frozen=True)
class Case:
    """`program` on TensorFlow's tensors, `reference` on NumPy's arrays, or the same for both."""

    family: str
    what: str
    inputs: str
    program: Callable[..., Any]
    reference: Callable[..., Any]


@dataclass(frozen=True)
class Row:
    """Errors: `relative` of each number to itself, `scaled` to the largest of the result."""

    case: Case
    dtype: str
    relative: tuple[float, float]
    scaled: tuple[float, float]

    @property
    def ratio(self) -> float:
        """How many times worse than the original's own error the rewritten program's is."""
        floor = FLOOR * float(np.finfo(self.dtype).eps)
        pairs = (self.relative, self.scaled)
        return max(new / max(old, floor) for old, new in pairs)


def _near(rng: np.random.Generator, offset: float, gap: float) -> np.ndarray:
    """Return points of which every second is nearly the one before."""
    x = rng.standard_normal((200, 3)) + offset
    x[1::2] = x[::2] + gap * rng.standard_normal((100, 3))
    return x


def _pairs(offset: float, gap: float) -> Inputs:
    """Return clouds that share their points, and have others nearly equal."""

    def make(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        x = _near(rng, offset, gap)
        return x, x[::-1]

    return make


def _sparse(dimensions: int) -> Inputs:
    """Return L, B⁻¹, L⁻¹ Kuf and vectors of a sparse Gaussian process with a jitter of 1e-6."""

    def make(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        x, y = (rng.standard_normal((count, dimensions)) for count in (60, 400))
        cholesky = np.linalg.cholesky(np.exp(-0.5 * _naive(x, x)) + 1e-6 * np.eye(60))
        a = np.linalg.solve(cholesky, np.exp(-0.5 * _naive(x, y)) / 0.3)
        inner = np.linalg.inv(a @ a.T + np.eye(60))
        e = rng.standard_normal((400, 1))
        return cholesky, inner, a, inner @ (a @ e), e

    return make


INPUTS: dict[str, Inputs] = {
    "points around the origin": lambda rng: (
        rng.standard_normal((100, 3)),
        rng.standard_normal((150, 3)),
    ),
    "nearly equal points": _pairs(0, 1e-4),
    "points 1e-6 apart": _pairs(0, 1e-6),
    "points 1000 from the origin": _pairs(1e3, 1e-4),
    "two clouds 10,000 apart": lambda rng: tuple(
        rng.standard_normal((100, 3)) + 1e4 * rng.integers(2, size=(100, 1)) for _ in range(2)
    ),
    "clouds in 30 dimensions": lambda rng: (
        rng.standard_normal((200, 30)),
        rng.standard_normal((150, 30)),
    ),
    "a column of 100,000 around 1e4": lambda rng: (rng.standard_normal((100_000, 2)) + 1e4,),
    "sizes from 1e-6 to 1e6": lambda rng: tuple(
        rng.standard_normal(shape) * 10.0 ** rng.integers(-6, 7, shape)
        for shape in ((60, 50), (50, 60), (60, 1))
    ),
    "800 x 300, sizes from 1e-6 to 1e6": lambda rng: tuple(
        rng.standard_normal(shape) * 10.0 ** rng.integers(-6, 7, shape)
        for shape in ((800, 300), (300, 2))
    ),
    "200 x 500, sizes from 1e-6 to 1e6": lambda rng: tuple(
        rng.standard_normal((200, 500)) * 10.0 ** rng.integers(-6, 7, (200, 500)) for _ in range(2)
    ),
    "rows of 50,000 around 1": lambda rng: (
        1 + 0.1 * rng.standard_normal((20, 50_000)),
        rng.standard_normal((50_000, 2)),
    ),
    "nearly antisymmetric": lambda rng: (
        (g := rng.standard_normal((40, 40))) - g.T + 1e-5 * rng.standard_normal((40, 40)),
        rng.standard_normal((40, 300)),
    ),
    "a kernel in 1 dimension": _sparse(1),
    "a kernel in 3 dimensions": _sparse(3),
}  # fmt: skip


def _t(x: Any) -> Any:
    return x.T if isinstance(x, np.ndarray) else tf.transpose(x)


def _sum(x: Any, axis: int) -> Any:
    return x.sum(axis) if isinstance(x, np.ndarray) else tf.reduce_sum(x, axis)


def _expanded(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    squares = tf.reduce_sum(x * x, 1)[:, None] + tf.reduce_sum(y * y, 1)
    return -2.0 * tf.matmul(x, y, transpose_b=True) + squares


def _naive(x: Any, y: Any) -> Any:
    return _sum((x[:, None] - y[None]) ** 2, -1)


def _absolute(x: Any, y: Any) -> Any:
    return _sum(abs(x[:, None] - y[None]), -1)


WIDE = "800 x 300, sizes from 1e-6 to 1e6"
NEAR, SKEW, SIZES = "nearly equal points", "nearly antisymmetric", "sizes from 1e-6 to 1e6"


def _same(family: str, what: str, inputs: str, program: Callable[..., Any]) -> Case:
    return Case(family, what, inputs, program, program)


CASES = (
    *(
        Case("rank-one-terms", "|x|² + |y|² - 2 x yᵀ", inputs, _expanded, _naive)
        for inputs in list(INPUTS)[:4]
    ),
    *(
        Case(
            "rank-one-terms",
            "exp(-(|x|² + |y|² - 2 x yᵀ) / 2)",
            inputs,
            lambda x, y: tf.exp(-0.5 * _expanded(x, y)),
            lambda x, y: np.exp(-0.5 * _naive(x, y)),
        )
        for inputs in list(INPUTS)[:4]
    ),
    *(
        Case("naive-distance", "sum((x - y)²)", inputs, _naive, _naive)
        for inputs in list(INPUTS)[:4]
    ),
    *(
        Case(
            "naive-distance",
            "exp(-sum((x - y)²) / 2)",
            inputs,
            lambda x, y: tf.exp(-0.5 * _naive(x, y)),
            lambda x, y: np.exp(-0.5 * _naive(x, y)),
        )
        for inputs in (*list(INPUTS)[:4], "two clouds 10,000 apart")
    ),
    *(
        Case("small-axes", what, inputs, program, program)
        for what, program in (("sum((x - y)²)", _naive), ("sum(abs(x - y))", _absolute))
        for inputs in (*list(INPUTS)[1:4], "clouds in 30 dimensions")
    ),
    Case(
        "cleanup",
        "mean(x)",
        "a column of 100,000 around 1e4",
        lambda x: tf.reduce_mean(x, 0),
        lambda x: x.mean(0),
    ),
    _same("cleanup", "3 (0.1 x)", NEAR, lambda x, y: 3 * (0.1 * x)),
    _same("sums-of-products", "g a + gᵀ a", SKEW, lambda g, a: g @ a + _t(g) @ a),
    _same(
        "sums-of-products",
        "3 (g a) - gᵀ (2 a)",
        SKEW,
        lambda g, a: 3 * (g @ a) - _t(g) @ (2 * a),
    ),
    _same("chains", "(a b) v", SIZES, lambda a, b, v: (a @ b) @ v),
    _same("chains", "(0.3 a b) v", SIZES, lambda a, b, v: (0.3 * (a @ b)) @ v),
    _same("chains", "sum(a b, 1)", SIZES, lambda a, b, v: _sum(a @ b, 1)),
    _same("chains", "(a * v)ᵀ v", SIZES, lambda a, b, v: _t(a * v) @ v),
    _same("chains", "a (v * vᵀ)", SIZES, lambda a, b, v: a @ (v[:50] * _t(v))),
    Case(
        "diagonals",
        "diag_part(a b)",
        SIZES,
        lambda a, b, v: tf.linalg.diag_part(a @ b),
        lambda a, b, v: np.diag(a @ b),
    ),
    Case(
        "diagonals",
        "a b + diag(v)",
        SIZES,
        lambda a, b, v: tf.exp(-tf.abs(a @ b)) + tf.linalg.diag(v[:, 0]),
        lambda a, b, v: np.exp(-np.abs(a @ b)) + np.diag(v[:, 0]),
    ),
    Case(
        "diagonals",
        "a b (I - 1 1ᵀ / n)",
        SIZES,
        lambda a, b, v: (a @ b) @ (tf.eye(b.shape[1], dtype=b.dtype) - 1 / b.shape[1]),
        lambda a, b, v: (a @ b) @ (np.eye(b.shape[1]) - 1 / b.shape[1]),
    ),
    Case(
        "diagonals",
        "diag_part(a b (I - 1 1ᵀ / n))",
        SIZES,
        lambda a, b, v: tf.linalg.diag_part(
            (a @ b) @ (tf.eye(b.shape[1], dtype=b.dtype) - 1 / b.shape[1])
        ),
        lambda a, b, v: np.diag((a @ b) @ (np.eye(b.shape[1]) - 1 / b.shape[1])),
    ),
)  # fmt: skip


SCALINGS = (
    _same(
        "scalings",
        "sum((0.3 v² * a) * a, 0)",
        SIZES,
        lambda a, b, v: _sum((0.3 * (v * v) * a) * a, 0),
    ),
    _same("scalings", "sum(a / v, 1)", SIZES, lambda a, b, v: _sum(_t(a) / v[:, 0] / 3, 1)),
    _same(
        "scalings",
        "(v vᵀ * a) v",
        SIZES,
        lambda a, b, v: ((v @ _t(v[:50])) * (0.7 * a)) @ v[:50],
    ),
    *(
        Case(
            "one-pass",
            "[a b, sum(a, 1)]",
            inputs,
            lambda a, b: tf.concat([a @ b, _sum(a, 1)[:, None]], 1),
            lambda a, b: np.concatenate([a @ b, _sum(a, 1)[:, None]], 1),
        )
        for inputs in (WIDE, "rows of 50,000 around 1")
    ),
)
CASES += SCALINGS


LONG = "200 x 500, sizes from 1e-6 to 1e6"
TRIANGLES = (
    _same("triangles", "a aᵀ", LONG, lambda a, b: a @ _t(a)),
    Case(
        "triangles",
        "tril(a bᵀ)",
        LONG,
        lambda a, b: tf.linalg.band_part(a @ _t(b), -1, 0),
        lambda a, b: np.tril(a @ b.T),
    ),
)
CASES += TRIANGLES


ADDED = 10


def _added(a: Any, b: Any) -> Any:
    """Add up the products of pairs of rows in a loop."""
    first = _t(a[-2:]) @ b[-2:]
    if isinstance(a, np.ndarray):
        rows = (slice(2 * k, 2 * k + 2) for k in range(ADDED))
        return sum((a[pair].T @ b[pair] for pair in rows), first)

    def step(k: tf.Tensor, d: tf.Tensor) -> Any:
        one, two = (tf.gather(x, [2 * k, 2 * k + 1]) for x in (a, b))
        return k + 1, d + tf.matmul(one, two, transpose_a=True)

    return tf.while_loop(lambda k, d: k < ADDED, step, (0, first))[1]


CASES += (
    Case(
        "selection",
        "sort(abs(a))[i]",
        WIDE,
        lambda a, b: tf.sort(tf.reshape(tf.abs(a), [-1]))[120_000:120_004],
        lambda a, b: np.sort(np.abs(a), axis=None)[120_000:120_004],
    ),
)
CASES += (_same("stacking", "d + Σₜ aₜᵀ bₜ in a loop", LONG, _added),)


def _solved(matrix: Any, right: Any) -> Any:
    """Solve matrixᵀ x = right, matrix a lower triangle."""
    if not isinstance(matrix, np.ndarray):
        return tf.linalg.triangular_solve(matrix, right, adjoint=True)
    x = np.array(right)
    for row in reversed(range(len(x))):
        x[row] = (right[row] - matrix[row + 1 :, row] @ x[row + 1 :]) / matrix[row, row]
    return x


SOLVES = (
    *(
        _same("solves", what, inputs, program)
        for inputs in ("a kernel in 1 dimension", "a kernel in 3 dimensions")
        for what, program in (
            ("l⁻ᵀ (s a + b eᵀ)", lambda k, s, a, b, e: _solved(k, s @ a + b @ _t(e))),
            (
                "(l⁻ᵀ (s a + b eᵀ)) aᵀ",
                lambda k, s, a, b, e: _solved(k, s @ a + b @ _t(e)) @ _t(a),
            ),
        )
    ),
)  # fmt: skip
CASES += SOLVES


DTYPES = ("float64", "float32")


def rows(dtypes: Sequence[str] = DTYPES) -> Iterator[Row]:
    """Measure every case in both dtypes, or in one."""
    for case in CASES:
        for dtype in dtypes:
            both = _before_and_after(case, dtype)
            found = np.array([_measured(case, dtype, both, seed) for seed in range(SEEDS)])
            worst = [tuple(map(float, pair)) for pair in found.max(0).T]
            yield Row(case, dtype, worst[0], worst[1])


def _arguments(case: Case, dtype: str, seed: int) -> tuple[tf.Tensor, ...]:
    given = INPUTS[case.inputs](np.random.default_rng(seed))
    return tuple(tf.constant(value, dtype) for value in given)


def _before_and_after(case: Case, dtype: str) -> list[Runnable]:
    families = {**only(case.family), "cleanup": True}
    outcome = rewritten(case.program, *_arguments(case, dtype, 0), families=families)
    assert any(one.family == case.family for one in outcome.result.applications), case
    return [runnable(outcome, graph) for graph in (outcome.before, outcome.result.graph)]


def _measured(case: Case, dtype: str, both: list[Runnable], seed: int) -> list[tuple[float, float]]:
    """Return both errors, before and after."""
    args = _arguments(case, dtype, seed)
    want = np.asarray(case.reference(*(np.asarray(arg, np.longdouble) for arg in args)))
    return [_errors(run(*args)[0], want) for run in both]


def _errors(got: np.ndarray, want: np.ndarray) -> tuple[float, float]:
    gap = np.abs(np.asarray(got, np.longdouble) - want)
    known = want != 0
    relative = float(np.max(gap[known] / np.abs(want[known])))
    return relative, float(np.max(gap) / np.max(np.abs(want)))


HEADER = """# What is equal to the bit, and what is reordered

Bits depend on the plan, which depends on the limit, on the machine's cache and cores, and on the rates of
`python -m tf_exla calibrate`. Tests: `tests/test_determinism.py`, `tests/test_tie_sweep.py`,
`tests/frontends/test_short_floats.py`, `tests/frontends/test_selections.py`.

*Equal from run to run.* One plan gives the same bits each time it runs on a CPU, and so does the same program planned
again. Partial sums are added in the order of the chunks, however many run side by side. This holds with and without
`tf.config.experimental.enable_op_determinism()`, under which all plans run. On a GPU some of TensorFlow's ops add in the order in which
threads finish, inside of loops as well; op determinism replaces them.

*Equal to the stock, bit for bit*, where no sum is reordered and nothing is compiled by XLA: comparisons, integers,
booleans, strings, movement, maxima and minima, `argmax` and `argmin`, sorted values, counts; and NaN, infinities and ties
in them. The maximum of +0 and -0 may have the other sign, since it depends on the order of the two.
Zeros off a diagonal stay +0 where `-diag(x)` has -0. Results of pointwise ops may differ in the last place: Eigen computes the end of a
row without vector instructions, and a chunk's row ends elsewhere; XLA fuses a product and a sum.

*Grappler.* TensorFlow's graph optimizer, Grappler, does not touch a plan. So the plan has the numbers of an eager call where a stock
`tf.function` does not: Grappler replaces `argmax(sign(x))` by `argmax(x)`, which are other positions, and `log(1 + x)` by
`log1p(x)`, which differs in the last places.

*Reordered*: sums, means, products of matrices, convolutions and contractions over an axis that is split; rewritten parts, with
the errors of the table below; softmax and log-sum-exp along a split axis, which are rescaled as the maximum grows.
A quotient by a sum of the same numbers, such as `exp(x) / sum(exp(x))`, stays one: it keeps the numbers in range.
Other chains of products in another order may overflow in another place. They then give an infinity where `inf - inf` was NaN, or the reverse,
or NaN (zero times infinity) where a mask of zeros was multiplied first;
`rewrites={{"chains": False}}` keeps the order.

*Sums of many chunks.* The partial sums of chunks are added one after the other. In TensorFlow, sums of float32 with results below 4 kB
are added in float64 and rounded once. A mean of three million numbers is off by 2.0e-8 at any limit, as the stock's is (before: 7e-6 at
exactly the smallest limit). Means of 500 columns of 100,000 numbers are off by 9e-8, the stock's by 1.1e-5. In JAX such sums are
accumulated with the digits that each addition loses: at exactly the smallest limit, a mean of three million numbers is off by 5.5e-9
(JAX's own by 9.2e-8; before: 5.1e-6), a variance of numbers around ten by 6.2e-8 (2.8e-8; before: 1.1e-4). Larger results are added in
their own precision, from at most 1,024 chunks of an axis: `kᵀk` of a kernel matrix of 40,009 rows is off by 8.9e-7 at the smallest limit, the
stock's by 3.6e-7 (in chunks of one row, which need 2 % less memory: 1.4e-5). One element of each row that is found in chunks of the row loses
the sign of a zero.

*Short floats.* Partial sums and products of bfloat16 and float16 are kept in float32 and rounded once. So are sums and
means within a chunk where kernels add in the short precision, since the order of addition depends on the chunk's shape. The
error against float64 is at most twice the stock's own, or a rounding of the result. This was measured for 80 programs of bfloat16 and of
float16 at five limits each, and for the reductions of the fuzzer's table. A mean of more than 65,504 float16 numbers is right where the
stock's is not: there the count overflows.

*Selected values.* The gradient of a maximum looks for the numbers that equal it. These numbers are either computed once, or twice with
the same bits, by loops with the same chunk size. So the gradient finds all ties. Two numbers that are equal only because of rounding (as
for two equal points at different places of a row) may differ in the last place when they are computed in chunks.

*`top_k`.* Of equal numbers those that come first go first, as in the kernel. Split along the axis itself, `sorted=False` gives them in another
order, which TensorFlow leaves open. All comparisons with a NaN are false. A NaN therefore enters the kernel's heap only if it is among the first k numbers
of a row, and then it may keep others out. In chunks after the first, NaNs are skipped. So values and positions are the stock's if the first k numbers of a row are
all NaN or none is. Otherwise the kernel's result depends on the order within its heap: 26 of 300 positions differed (60 rows of 1,511, 5 % of them NaN, k = 5). With
k = 1 the kernel uses vector instructions and loses maxima shortly before a NaN; a chunk does so at other places.
Splitting other axes changes none of this. `tf.sort` and `tf.argsort` are not split along their axis.

*Results that depend on the place in a row.* Stock's kernels use vector instructions, and scalar ones at the ends of rows. The two disagree in two cases, and a
chunk's rows end elsewhere. The first is the sign of zero: `tf.maximum(0.0, -0.0)` of 17 such pairs is -0 in sixteen places and +0 in the last, `relu(-0.0)` the other
way round; `minimum`, `reduce_max` and `reduce_min` over zeros of both signs behave likewise. The second is a NaN in `unsorted_segment_max` and
`unsorted_segment_min`: the next number of its segment replaces it in the stock's kernel, but not if that is in another chunk. Everything else in `tests/frontends/test_selections.py` is equal to the bit.

# Accuracy of the rewrites

Generated by `python tests/rewriting/accuracy.py`. Largest errors of the original program and of the
rewritten one, against 80-bit floats on the same numbers: of each number relative to itself, and
relative to the largest number of the result, the worst of {seeds} draws. A family with a ratio above {most:g} is off by default;
errors below {floor:g} units in the last place count as rounding. Expanded distances between nearly
equal points are wrong before as after: that is the program's own cancellation.

| family | on | program | inputs | dtype | relative, before | after | of the largest, before | after | ratio |
|---|---|---|---|---|---|---|---|---|---|
"""  # noqa: E501


def table() -> str:
    """Return the table in Markdown."""
    lines = [
        f"| {row.case.family} | {'yes' if DEFAULTS[row.case.family] else 'no'} | "
        f"`{row.case.what}` | {row.case.inputs} | {row.dtype} | {row.relative[0]:.1e} | "
        f"{row.relative[1]:.1e} | {row.scaled[0]:.1e} | {row.scaled[1]:.1e} | {row.ratio:.2g} |"
        for row in rows()
    ]
    return (
        HEADER.format(most=MOST, floor=FLOOR, seeds=SEEDS)
        + "\n".join(lines).replace("|x|² + |y|²", "x·x + y·y")
        + "\n"
    )


if __name__ == "__main__":
    path = Path(__file__).parents[2] / "docs" / "accuracy.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text(table())
