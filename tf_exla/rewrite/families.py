"""The families of rewrites, in the order in which they are tried at a node."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tf_exla.rewrite import (
    blocks,
    centring,
    chains,
    cleanup,
    diagonal,
    distance,
    einsum,
    one_pass,
    rank_one,
    scaling,
    selection,
    small_axes,
    solves,
    stacking,
    sums,
    triangles,
)
from tf_exla.rewrite.rewrite import GraphRewrite, Rewrite

SYMMETRY = "symmetry"
"""A family without rewrites of single nodes: `rewrite/mirroring.py`, and symmetric tiles."""
IN_CACHE = "in-cache"
"""A family without rewrites: splits of programs that fit the limit (`pipeline/in_cache.py`)."""

FAMILIES: Mapping[str, tuple[Rewrite | GraphRewrite, ...]] = {
    cleanup.FAMILY: (*cleanup.REWRITES, *einsum.REWRITES),
    diagonal.FAMILY: (*centring.REWRITES, *diagonal.REWRITES),
    distance.FAMILY: distance.REWRITES,
    sums.FAMILY: (*sums.REWRITES, *blocks.REWRITES),
    rank_one.FAMILY: rank_one.REWRITES,
    chains.FAMILY: chains.REWRITES,
    solves.FAMILY: solves.REWRITES,
    scaling.FAMILY: scaling.REWRITES,
    one_pass.FAMILY: one_pass.REWRITES,
    triangles.FAMILY: triangles.REWRITES,
    small_axes.FAMILY: small_axes.REWRITES,
    selection.FAMILY: selection.REWRITES,
    stacking.FAMILY: stacking.REWRITES,
    SYMMETRY: (),
    IN_CACHE: (),
}

INACCURATE = frozenset({distance.FAMILY, solves.FAMILY})
"""Families with a measured error above four times the original's, on hard inputs."""

DEFAULTS: Mapping[str, bool] = {name: name not in INACCURATE for name in FAMILIES}
"""Families that are on by default: all that are not in `INACCURATE`."""


def switches(asked: Mapping[str, bool] | bool | None) -> Mapping[str, bool]:
    """Parse the user's argument `rewrites`: families on or off, all, or none.

    Raises ValueError or TypeError, which quote the invalid part.
    """
    if asked is None:
        return MappingProxyType({})
    if isinstance(asked, bool):
        return MappingProxyType(dict.fromkeys(FAMILIES, asked))
    if not isinstance(asked, Mapping):
        raise TypeError(f"rewrites={asked!r} is no mapping of names to True or False")
    for name in asked:
        if name not in FAMILIES:
            raise ValueError(f"rewrites has no {name!r}; there are {', '.join(FAMILIES)}")
    return MappingProxyType({name: bool(on) for name, on in asked.items()})


def chosen(asked: Mapping[str, bool] | bool | None = None) -> tuple[Rewrite | GraphRewrite, ...]:
    """Return the rewrites that are on."""
    wanted = {**DEFAULTS, **switches(asked)}
    return tuple(one for name, family in FAMILIES.items() if wanted[name] for one in family)
