"""The op table of random programs: families of rows, each of which draws the next line.

Rows keep values near one, so that results of many steps agree up to rounding. Each line and its
gradient run in TensorFlow for every operand that its row accepts.
"""

from tf_exla.fuzz.table import (
    algebra,
    control,
    images,
    indexing,
    movement,
    pointwise,
    reductions,
    sources,
)

FAMILIES = {
    "algebra": algebra.ROWS,
    "control": control.ROWS,
    "images": images.ROWS,
    "indexing": indexing.ROWS,
    "movement": movement.ROWS,
    "pointwise": pointwise.ROWS,
    "reductions": reductions.ROWS,
    "sources": sources.ROWS,
}
