"""How a top-k is found by way of groups, and what it costs with and without them.

The kernel looks at every element with a comparison and a branch; a maximum over groups of
neighbours runs at the speed of memory. So of long rows only the groups with the k largest maxima
are looked at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tf_exla.graph import Node

ELEMENT = 2e-9
"""Seconds that the kernel takes for one element; rows are shared out between two cores."""
KEPT = 2.5e-7
"""Seconds that it takes beside, for each of the k of a row: the heap and its sorting."""
GATHERED = 1e-7
"""Seconds to gather a group."""
MAXIMUM = 1e-10
"""Seconds of one element of a maximum over groups."""
COPY = 3e-10
"""Seconds to copy one element: where the groups leave a tail, the others are cut off first."""
FIXED = 2e-4
"""Seconds that the nodes of an expanded top-k take to start."""


@dataclass(frozen=True, slots=True)
class Groups:
    """`count` groups of `size` neighbours each, and `tail` elements that are left over."""

    size: int
    count: int
    tail: int

    def seconds(self, rows: int, k: int) -> float:
        """Estimate the time of a top-k by way of these groups."""
        whole = self.size * self.count
        each = whole * (MAXIMUM + (COPY if self.tail else 0.0)) + k * GATHERED
        kernels = (
            kernel_seconds(rows, self.count, k),
            kernel_seconds(rows, k, k),  # the groups in order
            kernel_seconds(rows, k * self.size + self.tail, k),
        )
        return FIXED + rows * each + sum(kernels)


def kernel_seconds(rows: int, n: int, k: int) -> float:
    """Estimate one run of the kernel itself."""
    kept = k * KEPT if k > 1 else 0.0
    return rows * (n * ELEMENT + kept) / min(max(rows, 1), 2)


def find_groups(shape: Sequence[int], k: int) -> Groups | None:
    """Return the groups by which the top k of rows are found fastest; None: without is faster.

    count + k size elements are looked at, the fewest where size = sqrt(n / k).
    """
    *batch, n = shape
    rows = math.prod(batch)
    if not 0 < k < n or not rows:
        return None
    best = math.isqrt(n // k)
    sizes = range(max(2, best // 2), 2 * best + 1)
    choices = [Groups(size, n // size, 0) for size in sizes if n % size == 0]
    choices += [Groups(size, n // size, n % size) for size in {best, *sizes[:1]} if size > 1]
    fitting = [one for one in choices if one.count > k]
    found = min(fitting, key=lambda one: one.seconds(rows, k), default=None)
    if found is None or found.seconds(rows, k) >= kernel_seconds(rows, n, k):
        return None
    return found


def top_k_seconds(node: Node) -> float:
    """Estimate one run of a TopKV2, by way of groups where that is faster."""
    shape, k = node.inputs[0].dims, node.outputs[0].dims[-1]
    rows = math.prod(shape[:-1])
    groups = find_groups(shape, k)
    if groups is None:
        return kernel_seconds(rows, shape[-1], k)
    return groups.seconds(rows, k)


def merge_seconds(shape: Sequence[int]) -> float:
    """Estimate the time to merge the top k of one chunk with those of the chunks before."""
    *batch, k = shape
    rows = math.prod(batch)
    return kernel_seconds(rows, 2 * k, k) + rows * k * GATHERED
