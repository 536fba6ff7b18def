"""The table of all ops: see `record.py`."""

from __future__ import annotations

from collections.abc import Mapping

from tf_exla.frontends.tf.names import tensorflow_name
from tf_exla.frontends.tf.ops import (
    algebra,
    images,
    indexing,
    lists,
    movement,
    others,
    pointwise,
    reductions,
    sources,
)
from tf_exla.frontends.tf.ops.record import Op

KINDS: Mapping[str, Mapping[str, Op]] = {
    "pointwise": pointwise.OPS,
    "reductions": reductions.OPS,
    "algebra": algebra.OPS,
    "images": images.OPS,
    "movement": movement.OPS,
    "indexing": indexing.OPS,
    "sources": sources.OPS,
    "lists": lists.OPS,
    "others": others.OPS,
}
OPS: Mapping[str, Op] = {name: op for kind in KINDS.values() for name, op in kind.items()}

RULED: Mapping[str, Op] = {name: op for name, op in OPS.items() if op.rule is not None}
"""Ops with an axis rule."""

_UNKNOWN = Op()


def record(name: str) -> Op:
    """Return what is known of a node's op; nothing of one that is not in the table."""
    return OPS.get(tensorflow_name(name), _UNKNOWN)
