"""Small programs of TensorFlow's public functions, by module; operands of every dtype they take.

A program is a function and its arguments. None of its ops needs an axis rule: what is never split
must run as it is, on arguments, on constants that fold, and beside what is split.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

RNG = np.random.default_rng(0)
Program = tuple[Callable[..., Any], Sequence[Any]]


def reals(*shape: int, dtype: str = "float32") -> tf.Tensor:
    return tf.cast(tf.constant(RNG.uniform(0.1, 0.9, shape)), dtype)


def ints(high: int, *shape: int, dtype: str = "int32") -> tf.Tensor:
    return tf.cast(tf.constant(RNG.integers(0, high, shape)), dtype)


def complexes(*shape: int) -> tf.Tensor:
    return tf.complex(reals(*shape), reals(*shape))


def texts(*values: str) -> tf.Tensor:
    return tf.constant(values)


def quantized(dtype: str, *shape: int) -> tf.Tensor:
    """A tensor of a quantized dtype."""
    return tf.quantization.quantize(reals(*shape), 0.0, 1.0, tf.as_dtype(dtype)).output


X, SQUARE, BOOLS = reals(5, 3), reals(4, 4), ints(2, 4, 4, dtype="bool")
IMAGES = reals(2, 6, 5, 3)
WORDS = texts("b a", "c", "", "d\x00e")
QUANTIZED = ("qint8", "quint8", "qint16", "quint16", "qint32")
LABELS = tf.constant([[1, 2], [1, 1]])
SPARSE = tf.sparse.from_dense([[1, 2, 0], [3, 0, 4]])


def both(other: Any) -> Callable[[Any], Any]:
    """Return something folded beside a tensor."""
    return lambda x: (other(), 2 * x)


def connectionist(unique: bool) -> Callable[..., Any]:
    """The CTC loss of dense labels, whose loops are functions of TensorFlow 1."""

    def loss(logits: tf.Tensor) -> tf.Tensor:
        known = tf.nn.ctc_unique_labels(LABELS) if unique else None
        lengths = tf.constant([2, 2]), tf.constant([6, 6])
        return tf.nn.ctc_loss(LABELS, logits, *lengths, unique=known, blank_index=0)

    return loss


def table(x: tf.Tensor) -> tf.Tensor:
    keys = tf.lookup.KeyValueTensorInitializer(tf.constant([1, 2]), tf.constant([3.0, 4.0]))
    return tf.lookup.StaticHashTable(keys, -1.0).lookup(x)


def hessian(x: tf.Tensor) -> tf.Tensor:
    with tf.GradientTape() as outer, tf.GradientTape() as inner:
        outer.watch(x)
        inner.watch(x)
        y = tf.reduce_sum(x**3)
        first = inner.gradient(y, x)
    return outer.jacobian(first, x)


STRINGS: Mapping[str, Program] = {
    "a scalar of text": (both(lambda: tf.constant("a")), [X]),
    "a scalar with a zero at its end": (both(lambda: tf.constant(b"a\x00")), [X]),
    "joined": (both(lambda: tf.strings.join(["a", "b"])), [X]),
    "joined bytes": (both(lambda: tf.strings.join([b"\xff\xfe", "b"])), [X]),
    "joined, long": (both(lambda: tf.strings.reduce_join(["abcde" * 9] * 99)), [X]),
    "as_string": (tf.strings.as_string, [X]),
    "bytes_split": (tf.strings.bytes_split, [WORDS]),
    "decode_raw": (lambda x: tf.io.decode_raw(x, tf.uint8), [texts("ab", "cd")]),
    "equal": (lambda x: tf.equal(x, "c"), [WORDS]),
    "format": (lambda x: tf.strings.format("x is {}", x), [X]),
    "gather": (lambda x: tf.gather(x, [2, 0]), [WORDS]),
    "hash": (lambda x: tf.strings.to_hash_bucket_fast(x, 7), [WORDS]),
    "length": (tf.strings.length, [WORDS]),
    "lower": (tf.strings.lower, [WORDS]),
    "ngrams": (lambda x: tf.strings.ngrams(x, 2), [WORDS]),
    "reduce_join": (lambda x: tf.strings.reduce_join(x, separator=","), [WORDS]),
    "regex": (lambda x: tf.strings.regex_replace(x, "a", "bb"), [WORDS]),
    "reshape, transpose": (lambda x: tf.transpose(tf.reshape(x, [2, 2])), [WORDS]),
    "select": (lambda x: tf.where(tf.equal(x, ""), "none", x), [WORDS]),
    "split": (tf.strings.split, [WORDS]),
    "substr": (lambda x: tf.strings.substr(x, 0, 0), [WORDS]),
    "to_number": (tf.strings.to_number, [texts("1", "2.5")]),
    "unicode": (lambda x: tf.strings.unicode_decode(x, "UTF-8"), [texts("aß", "c")]),
    "encoded": (lambda x: tf.io.encode_base64(tf.io.serialize_tensor(x)), [X]),
    "decode_csv": (lambda x: tf.io.decode_csv(x, [[0.0], [0]]), [texts("1.5,2", "3,4")]),
}

DTYPES: Mapping[str, Program] = {
    **{
        f"{dtype}: {name}": (function, [quantized(dtype, 5, 3)])
        for dtype in QUANTIZED
        for name, function in {
            "dequantize": lambda x: tf.quantization.dequantize(x, 0.0, 1.0),
            "identity": tf.identity,
            "movement": lambda x: tf.reshape(tf.concat([x, x], 1), [6, 5]),
            "concat": lambda x: tf.concat([x, x], 1),
        }.items()
    },
    **{
        f"{dtype}: quantize": (
            lambda x, dtype=dtype: tf.quantization.quantize(x, 0.0, 1.0, tf.as_dtype(dtype)), [X])
        for dtype in QUANTIZED
    },
    **{
        f"{dtype}: product, sum": (
            lambda x: tf.reduce_sum(tf.matmul(x, x), 1), [ints(5, 4, 4, dtype=dtype)])
        for dtype in ("bfloat16", "float16", "int32", "int64", "complex64")
    },
    **{
        f"{dtype}: movement": (
            lambda x: tf.concat([tf.reverse(x, [0]), tf.roll(x, 1, 1), x[::2]], 0),
            [ints(2, 4, 4, dtype=dtype)])
        for dtype in ("bool", "int8", "uint16", "uint32", "uint64", "bfloat16", "complex128")
    },
    **{
        f"{dtype}: cast": (
            lambda x, dtype=dtype: tf.cast(tf.cast(x, dtype), tf.float32), [X])
        for dtype in ("float8_e5m2", "float8_e4m3fn")
    },
    **{
        f"{dtype}: diagonals": (
            lambda x: [tf.linalg.diag_part(x), tf.linalg.band_part(x, 1, 0), tf.linalg.diag(x[0]),
                       tf.linalg.set_diag(x, x[1])],
            [ints(2, 4, 4, dtype=dtype)])
        for dtype in ("bool", "int8", "uint32", "bfloat16", "float16", "complex64")
    },
    **{
        f"{dtype}: mean": (
            lambda x: [tf.reduce_mean(x), tf.reduce_mean(x, 0)],
            [ints(90, 7, 5, dtype=dtype) - ints(30, 7, 5, dtype=dtype)])
        for dtype in (
            "int8", "uint8", "int16", "int32", "int64", "bfloat16", "float16", "complex64")
    },
}  # fmt: skip

NUMBERS: Mapping[str, Program] = {
    "ctc": (connectionist(False), [reals(6, 2, 4)]),
    "ctc, unique labels": (connectionist(True), [reals(6, 2, 4)]),
    "bessel": (tf.math.special.bessel_i0, [X]),
    "bincount": (tf.math.bincount, [ints(5, 9)]),
    "bitcast": (lambda x: tf.bitcast(x, tf.uint8), [X]),
    "bitwise": (lambda x: tf.bitwise.invert(tf.bitwise.bitwise_xor(x, 3)), [ints(9, 5, 3)]),
    "conditional": (lambda x: tf.cond(x[0, 0] > 0, lambda: x, lambda: -x), [X]),
    "confusion": (lambda x: tf.math.confusion_matrix(x, x[::-1]), [ints(4, 7)]),
    "cumulative_logsumexp": (lambda x: tf.math.cumulative_logsumexp(x, 1), [X]),
    "dct": (tf.signal.dct, [X]),
    "dynamic_partition": (lambda x: tf.dynamic_partition(x, [0, 1, 1, 0, 2], 3), [X]),
    "edit_distance": (lambda x: tf.edit_distance(SPARSE, SPARSE), [X]),
    "eig": (lambda x: tf.sort(tf.math.real(tf.linalg.eigvals(x))), [SQUARE]),
    "einsum": (lambda x: tf.einsum("ij,kj,jj->ik", x, x, x), [SQUARE]),
    "expm": (tf.linalg.expm, [SQUARE]),
    "fill of an empty axis": (lambda x: tf.reduce_max(tf.zeros([0, 3]) + x[0], 0), [X]),
    "frame": (lambda x: tf.signal.frame(x, 3, 2), [reals(11)]),
    "foldl": (lambda x: tf.foldl(lambda a, b: a * 0.5 + b, x), [X]),
    "hessian": (hessian, [reals(4)]),
    "histogram": (lambda x: tf.histogram_fixed_width(x, [0.0, 1.0], 4), [X]),
    "images": (lambda x: tf.image.adjust_hue(tf.image.resize(x, [4, 4]), 0.1), [IMAGES]),
    "images: boxes": (
        lambda x: tf.image.non_max_suppression(x, x[:, 0], 3), [tf.sort(reals(7, 4), 1)]),
    "images: encoded": (
        lambda x: tf.io.decode_png(tf.io.encode_png(x)), [ints(255, 4, 5, 3, dtype="uint8")]),
    "images: patches": (
        lambda x: tf.image.extract_patches(x, [1, 2, 2, 1], [1] * 4, [1] * 4, "VALID"), [IMAGES]),
    "images: ssim": (lambda x: tf.image.ssim(x, x * 0.9, 1.0, filter_size=3), [IMAGES]),
    "logical": (lambda x: [tf.reduce_all(x, 0), tf.math.count_nonzero(x), ~x], [BOOLS]),
    "lookup": (table, [ints(4, 5)]),
    "lu": (tf.linalg.lu, [SQUARE + 4 * tf.eye(4)]),
    "map_fn": (lambda x: tf.map_fn(tf.linalg.diag, x), [X]),
    "meshgrid": (lambda x: tf.meshgrid(x, x), [reals(4)]),
    "mfcc": (tf.signal.mfccs_from_log_mel_spectrograms, [X]),
    "norm": (lambda x: tf.norm(x, 1, axis=[0, 1]), [X]),
    "parallel_stack": (lambda x: tf.stack([x, x], 1), [complexes(4, 2)]),
    "pinv": (tf.linalg.pinv, [X]),
    "poisson": (lambda x: tf.nn.log_poisson_loss(x, x, True), [X]),
    "ragged": (lambda x: tf.RaggedTensor.from_row_lengths(x, [2, 0, 3]).to_tensor(), [X]),
    "ragged: mapped": (
        lambda x: tf.reduce_sum(tf.RaggedTensor.from_row_splits(x, [0, 2, 5]), 1), [X]),
    "ragged: range": (lambda x: tf.ragged.range(x).values, [ints(4, 5)]),
    "random": (
        lambda x: [
            tf.random.stateless_uniform([3], x), tf.random.stateless_normal([3], x),
            tf.random.stateless_gamma([3], x, 2.0), tf.random.stateless_binomial([3], x, 4.0, 0.5),
            tf.random.stateless_categorical(X, 2, x), tf.random.stateless_poisson([3], x, 3.0),
            tf.random.stateless_truncated_normal([3], x),
            tf.random.stateless_parameterized_truncated_normal([3], x, 0.0, 1.0, -1.0, 1.0),
            tf.random.stateless_uniform([3], x, None, None, tf.uint32),
            tf.random.experimental.stateless_shuffle(X, x),
            tf.random.experimental.stateless_fold_in(x, 3),
        ], [tf.constant([1, 2])]),
    "repeat": (lambda x: tf.repeat(x, [0, 1, 2, 3, 1], 0), [X]),
    "rfft": (lambda x: tf.signal.irfft(tf.signal.rfft(x) * 2.0), [reals(5, 8)]),
    "scan": (lambda x: tf.scan(lambda a, b: a * 0.5 + b, x), [X]),
    "searchsorted": (lambda x: tf.searchsorted(tf.sort(x), x), [X]),
    "segments": (lambda x: tf.math.segment_mean(x, [0, 0, 1, 1, 2]), [X]),
    "sets": (lambda x: tf.sets.intersection(x, x[:, ::-1]).values, [ints(4, 3, 4)]),
    "sobol": (lambda x: tf.math.sobol_sample(3, 5) + x[0], [X]),
    "sort": (lambda x: [tf.sort(x), tf.argsort(x, 0), tf.math.top_k(x, 2)], [X]),
    "sparse": (lambda x: tf.sparse.to_dense(tf.sparse.reorder(tf.sparse.from_dense(x))), [X]),
    "sparse: product": (
        lambda x: tf.sparse.sparse_dense_matmul(tf.sparse.from_dense(x), x, True), [X]),
    "sparse: sum": (lambda x: tf.sparse.reduce_sum(tf.sparse.from_dense(x), 1), [X]),
    "stft": (lambda x: tf.abs(tf.signal.inverse_stft(tf.signal.stft(x, 8, 4), 8, 4)), [reals(32)]),
    "switch_case": (
        lambda x, k: tf.switch_case(k, [lambda: x, lambda: tf.exp(x)]), [X, tf.constant(1)]),
    "tensor_array": (
        lambda x: tf.TensorArray(tf.float32, 2).write(0, x).write(1, 2 * x).stack(), [X]),
    "tridiagonal": (lambda x: tf.linalg.tridiagonal_solve(x, x[0], "compact"), [reals(3, 5)]),
    "unique": (lambda x: [*tf.unique_with_counts(x), *tf.unique(x)], [ints(4, 9)]),
    "vectorized_map": (lambda x: tf.vectorized_map(lambda row: row * row[0], x), [X]),
    "where": (lambda x: tf.where(x > 0.5), [X]),
    "while": (
        lambda x: tf.while_loop(lambda k, y: k < 3, lambda k, y: (k + 1, y * y), (0, x)), [X]),
}  # fmt: skip

PROGRAMS: Mapping[str, Program] = {**STRINGS, **DTYPES, **NUMBERS}
