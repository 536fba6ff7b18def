"""Tensors that are made from sizes and seeds."""

from __future__ import annotations

from tf_exla.fuzz.table.row import Row, row
from tf_exla.fuzz.values import COMPLEX, FLOATS, INTEGERS, WIDE

_SEED = "[{seed}, 1]"


def _noise(code: str) -> Row:
    """Return a row of a tensor times random numbers; in float64, the same numbers are cast."""
    return row("{a} * tf.cast(" + code + ", {a}.dtype)", WIDE)


ROWS: tuple[Row, ...] = (
    _noise("tf.random.stateless_normal({shape}, " + _SEED + ", dtype='{dtype}')"),
    _noise("tf.random.stateless_uniform({shape}, " + _SEED + ", dtype='{dtype}')"),
    _noise("tf.random.stateless_truncated_normal({shape}, " + _SEED + ", dtype='{dtype}')"),
    _noise("tf.minimum(tf.random.stateless_gamma({shape}, " + _SEED + ", 2.0), 2)"),
    _noise("tf.minimum(tf.random.stateless_poisson({shape}, " + _SEED + ", 2.0), 3)"),
    _noise("tf.random.stateless_binomial({shape}, " + _SEED + ", 3.0, 0.5, 'int32')"),
    _noise("tf.raw_ops.StatelessRandomNormal(shape={shape}, seed=" + _SEED + ", dtype=tf.float32)"),
    _noise("tf.raw_ops.StatelessRandomUniform(shape={shape}, seed=" + _SEED
           + ", dtype=tf.float32)"),
    *(_noise(f"tf.raw_ops.{op}(shape=tf.constant({{shape}}, 'int32'), seed=1, seed2={{seed}}, "
             "dtype='{dtype}')")
      for op in ("RandomStandardNormal", "RandomUniform", "TruncatedNormal")),
    row("tf.raw_ops.RandomUniformInt(shape=tf.constant({shape}, 'int32'), minval=0, maxval=9, "
        "seed={seed}, seed2=1)",
        FLOATS, dtype="int32", exact=True, ordered=True),
    row("tf.random.stateless_uniform({shape}, " + _SEED + ", 0, 9, tf.int32)", FLOATS,
        dtype="int32", exact=True, ordered=True),
    row("tf.random.stateless_uniform({shape}, " + _SEED + ", None, None, tf.int64)", FLOATS,
        dtype="int64", exact=True, ordered=True),
    row("tf.stop_gradient(tf.random.experimental.stateless_shuffle({a}, " + _SEED + "))",
        (*WIDE, "int32"), least=1, exact=True),
    # Of more rows, TensorFlow's numbers depend on the number of threads, also in eager calls.
    row("tf.random.stateless_categorical(tf.fill([7, 4], tf.cast(tf.reduce_any({a} > 0), "
        "tf.float32)), 5, " + _SEED + ")", FLOATS,
        lambda s, _: (7, 5), dtype="int64", exact=True, ordered=True),
    row("tf.eye({n}, dtype=tf.{dtype}) * 0.5", (*FLOATS, *COMPLEX),
        lambda s, _: (s[0], s[0]) if s[0] <= 700 else None, least=1),
    row("tf.fill({shape}, tf.reduce_max({a})) * 0.5", WIDE,
        lambda s, _: s if 0 not in s else None),
    row("{a} * tf.zeros({shape}, tf.{dtype}) + 1", (*FLOATS, *INTEGERS)),
    row("tf.cast(tf.range({n}) % 7, tf.{dtype})", FLOATS, lambda s, _: s[:1], least=1, exact=True,
        ordered=True),
    row("tf.linspace(tf.zeros([], tf.{dtype}), 1, {n})", WIDE,
        lambda s, _: s[:1] if s[0] else None, least=1),
    row("tf.cast(tf.math.sobol_sample(3, 1 + {n}, dtype=tf.float32), {a}.dtype)", WIDE,
        lambda s, _: (1 + s[0], 3), least=1),
)  # fmt: skip
