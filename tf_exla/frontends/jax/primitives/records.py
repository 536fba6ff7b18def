"""Records of primitives that are not ops of the vocabulary: `lax.<primitive>` nodes.

A primitive without a record is never split. Neither is one that draws random numbers or calls
Python.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tf_exla.frontends.jax.primitives import rules, windows
from tf_exla.vocabulary import flops
from tf_exla.vocabulary.meaning import Meaning
from tf_exla.vocabulary.rebuild import Rebuild
from tf_exla.vocabulary.rules.builders import Rule, pointwise_list, words

SERIES = 100
"""Operations per element of a function computed by a series or a continued fraction."""
RANDOM = "its numbers depend on how many there are"
PYTHON = "it calls Python"


def _many(record: Meaning, names: str) -> Mapping[str, Meaning]:
    return {f"lax.{name}": record for name in words(names)}


def _pointwise(cost: int = 1) -> Meaning:
    return Meaning(pointwise_list, flops=cost)


def _matrices(rule: Rule, factor: float) -> Meaning:
    return Meaning(rule, flops=flops.cubic(factor), work="product")


_SQUARE = rules.batched(2)
_SCATTER = Meaning(rules.scatter)
_WINDOWS = Meaning(rules.windows, flops=flops.per_operand)

RECORDS: Mapping[str, Meaning] = {
    # Element by element.
    **_many(_pointwise(), """
        abs add add_any and clamp clz complex conj convert_element_type eq eq_to ge gt imag
        is_finite le le_to lt lt_to max min mul mulhi ne neg nextafter not or population_count real
        reduce_precision round select_n shift_left shift_right_arithmetic shift_right_logical sign
        square sub xor"""),
    **_many(_pointwise(4), "cbrt div integer_pow rem rsqrt sqrt"),
    **_many(_pointwise(16), """
        acos acosh asin asinh atan atan2 atanh cos cosh erf_inv exp exp2 expm1 log log1p log2
        logistic pow sin sinh tan tanh"""),
    **_many(_pointwise(SERIES), """
        bessel_i0e bessel_i1e digamma erf erfc igamma igamma_grad_a igammac lgamma polygamma
        random_gamma_grad regularized_incomplete_beta zeta"""),
    "lax.threefry2x32": Meaning("..., ..., ..., ... -> ..., ...", flops=SERIES),
    "lax.bitcast_convert_type": Meaning(rules.bits, flops=0),
    # Reductions, searches, sorting.
    **_many(Meaning(rules.reduced, flops=flops.per_operand), """
        argmax argmin reduce reduce_and reduce_max reduce_min reduce_or reduce_prod reduce_sum
        reduce_xor"""),
    **_many(Meaning(rules.along, flops=16, work="serial"), "cumlogsumexp cummax cummin sort"),
    "lax.approx_top_k": Meaning(rules.best, work="serial", flops=flops.per_operand, chooses=True),
    # Products, decompositions and solves.
    "lax.dot_general": Meaning(rules.product, flops=rules.multiplications, work="product"),
    "lax.cholesky": _matrices(_SQUARE, 1 / 3),
    "lax.cholesky_update": _matrices(_SQUARE, 1),
    **_many(_matrices(_SQUARE, 25), "eig schur"),
    **_many(_matrices(_SQUARE, 9), "eigh hessenberg tridiagonal"),
    **_many(_matrices(_SQUARE, 4), "geqp3 geqrf householder_product qr"),
    "lax.lu": _matrices(_SQUARE, 2 / 3),
    "lax.lu_pivots_to_permutation": Meaning(rules.batched(1)),
    "lax.svd": _matrices(_SQUARE, 20),
    "lax.triangular_solve": Meaning(rules.solve, flops=flops.solve(0), work="serial"),
    "lax.tridiagonal_solve": Meaning(
        "... M, ... M, ... M, ... M n -> ... M n", flops=8, work="serial"),
    "lax.fft": Meaning(rules.transform, flops=40),
    "lax.conv_general_dilated": Meaning(rules.convolution, flops=rules.filtered, work="product",
        windows=windows.convolution),
    "lax.reduce_window_max": replace(_WINDOWS,
        windows=windows.reduction("image", result="pooled", fill="lowest")),
    "lax.reduce_window_min": replace(_WINDOWS,
        windows=windows.reduction("image", result="pooled", fill=None)),
    "lax.reduce_window_sum": replace(_WINDOWS,
        windows=windows.reduction("image", result="pooled")),
    "lax.select_and_gather_add": _WINDOWS,
    "lax.select_and_scatter_add": replace(_WINDOWS,
        windows=windows.reduction("pooled", "image", result="image", fill="lowest")),
    # Reading and writing by index.
    "lax.dynamic_slice": Meaning(rules.slice_at, flops=0, rebuild=Rebuild(rules.slice_sizes)),
    "lax.dynamic_update_slice": Meaning(rules.update_slice, flops=0, writes=True),
    "lax.gather": Meaning(rules.gather, flops=0, rebuild=Rebuild(rules.window_sizes)),
    "lax.scatter": Meaning(rules.scatter, flops=0),
    **_many(_SCATTER, "scatter-add scatter-max scatter-min scatter-mul scatter-sub"),
    # Never split.
    **_many(Meaning(reason=RANDOM), """
        random_bits random_clone random_fold_in random_gamma random_seed random_split random_unwrap
        random_wrap rng_bit_generator rng_uniform"""),
    **_many(Meaning(reason=PYTHON), "debug_callback io_callback pure_callback"),
}  # fmt: skip
"""The record of each op, by its name in graphs."""
