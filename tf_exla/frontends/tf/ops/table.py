"""The table of all ops: see `record.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tf_exla.frontends.tf.nodes.names import EMITTED, graph_name
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
from tf_exla.vocabulary.meaning import Meaning
from tf_exla.vocabulary.table import VOCABULARY


def _named(name: str, op: Op) -> Op:
    """Return a record with the vocabulary's facts about the op, if it is in the vocabulary."""
    known = VOCABULARY.get(graph_name(name, ""))
    if known is None:
        return op
    return replace(op, **{field: getattr(known, field) for field in Meaning.__slots__})


KINDS: Mapping[str, Mapping[str, Op]] = {
    kind: {name: _named(name, op) for name, op in records.items()}
    for kind, records in {
        "pointwise": pointwise.OPS,
        "reductions": reductions.OPS,
        "algebra": algebra.OPS,
        "images": images.OPS,
        "movement": movement.OPS,
        "indexing": indexing.OPS,
        "sources": sources.OPS,
        "lists": lists.OPS,
        "others": others.OPS,
    }.items()
}
OPS: Mapping[str, Op] = {name: op for kind in KINDS.values() for name, op in kind.items()}

RULED: Mapping[str, Op] = {name: op for name, op in OPS.items() if op.rule is not None}
"""Ops with an axis rule."""

_UNKNOWN = Op()

_OF_NODES: Mapping[str, Op] = {
    **OPS,
    **{name: OPS.get(emitted, _UNKNOWN) for name, emitted in EMITTED.items()},
}
"""Records by the names of nodes, since projections look up each node many times."""


def record(name: str) -> Op:
    """Return the record of a node's op; a default record if the op is not in the table."""
    return _OF_NODES.get(name, _UNKNOWN)
