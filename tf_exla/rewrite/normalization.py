"""Scales that no rewrite moves, because they keep numbers in range: `e / sum(e)`.

`e / sum(e)` is at most one even if `e` is close to overflow. Then `e @ v` overflows, but
`(e / sum(e)) @ v` does not. Likewise, if `e` is close to zero, `e @ v` may round to zero.
"""

from __future__ import annotations

import math

from tf_exla.ir.graph import Tensor
from tf_exla.rewrite.context import RewriteContext
from tf_exla.vocabulary.table import VOCABULARY

DIVISORS = {"divide": 1, "exp": 0, "pow": 0, "reciprocal": 0, "rsqrt": 0}
"""Ops that divide by an operand, or may (as in `exp(-log(x))`), with its position."""


def normalizes(site: RewriteContext, scale: Tensor, scaled: Tensor, divides: bool) -> bool:
    """Return whether `scaled` is divided by a number that is computed from it, as in `e / sum(e)`.

    `divides`: `scaled` is divided by `scale`, not multiplied; but `scale` may itself be a quotient,
    as in `e * (1 / sum(e))`. The divisor may also be computed from an equally large tensor from
    which `scaled` is computed: `(e * k) / sum(e)`.
    """
    if scale.value is not None:
        return False
    key = scale, scaled, divides
    if key not in site.normalizes:
        divisors = {scale} if divides else _divisors(site, scale, scaled.size)
        site.normalizes[key] = bool(divisors) and _is_from(site, divisors, scaled)
    return site.normalizes[key]


def _is_from(site: RewriteContext, tensors: set[Tensor], scaled: Tensor) -> bool:
    """Return whether any of `tensors` is computed from `scaled`, or from a tensor on a path to it.

    Only tensors on the path that are at least as large as `scaled` count.
    """
    large = _ancestors(site, {scaled}, at_least=scaled.size)
    makers = [site.producer.get(one) for one in large]
    first = None  # the earliest maker of these; nodes before it cannot depend on them
    if None not in makers:
        first = min(site.position[maker] for maker in makers if maker is not None)
    found: set[Tensor] = set()
    work = list(tensors)
    while work:
        tensor = work.pop()
        if tensor in large:
            return True
        node = site.made_by(tensor)
        if tensor in found or node is None:
            continue
        found.add(tensor)
        place = site.position.get(node)
        if first is None or place is None or place > first:
            work += node.inputs
    return False


def _divisors(site: RewriteContext, scale: Tensor, below: int) -> set[Tensor]:
    """Return the divisors, or possible ones, in the computation of `scale` from small tensors.

    `below`: small tensors have fewer elements.
    """
    found: set[Tensor] = set()
    for tensor in _ancestors(site, {scale}, below=below):
        node = site.made_by(tensor)
        if node is None:
            continue
        if node.op in DIVISORS:
            found.add(node.inputs[DIVISORS[node.op]])
        elif node.op not in VOCABULARY and site.ops.work(node) == "pointwise":
            found.update(node.inputs)  # an op of the front end, which may divide by any of them
    return found


def _ancestors(
    site: RewriteContext, tensors: set[Tensor], at_least: int = 0, below: float = math.inf
) -> set[Tensor]:
    """Return tensors and their transitive operands, through tensors of such sizes only."""
    found: set[Tensor] = set()
    work = list(tensors)
    while work:
        tensor = work.pop()
        if tensor not in found and tensor.is_static and at_least <= tensor.size < below:
            found.add(tensor)
            node = site.made_by(tensor)
            if node is not None:
                work += node.inputs
    return found
