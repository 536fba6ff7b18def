"""Top-k by way of groups, and its cost with and without them.

The kernel reads every element with a comparison and a branch. A maximum over groups of neighbouring
elements runs at the speed of memory. So in a long row, only the k groups with the largest maxima
are searched. In a loop over chunks that accumulates the top k (a *running top-k*), only the groups
of a chunk whose maximum exceeds the k-th largest element so far are searched; below, they *beat the
k-th*. The latter is done on CPUs only, and estimated with a CPU's rates, which are not calibrated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tf_exla.ir.graph import Graph, Loop, Node
from tf_exla.ir.rates import CPU, Rates
from tf_exla.ir.traverse import consumers, producers
from tf_exla.model.settings import SETTINGS

CHUNKED = "chunked"
"""The attribute of a `top_k` in a loop over chunks of its rows.

A NaN is chosen only in the first chunk.
"""


@dataclass(frozen=True, slots=True)
class Groups:
    """`count` groups of `size` neighbours each, and `tail` elements that are left over."""

    size: int
    count: int
    tail: int

    def seconds(self, rows: int, k: int, rates: Rates = CPU) -> float:
        """Estimate the time of a top-k with these groups."""
        whole = self.size * self.count
        each = (
            whole * (rates.top_k_maximum + (rates.top_k_copied if self.tail else 0.0))
            + k * rates.top_k_gathered
        )
        kernels = (
            kernel_seconds(rows, self.count, k, rates),
            kernel_seconds(rows, k, k, rates),  # sort the chosen groups
            kernel_seconds(rows, k * self.size + self.tail, k, rates),
        )
        return rates.top_k_start + rows * each + sum(kernels)


def kernel_seconds(rows: int, n: int, k: int, rates: Rates = CPU) -> float:
    """Estimate one run of the kernel itself."""
    each = n * rates.top_k_element + k * rates.top_k_kept if k > 1 else n * rates.top_k_best
    on_one = rows * each
    return n * rates.top_k_column + min(on_one, on_one / min(max(rows, 1), 2) + rates.top_k_fork)


def find_groups(shape: Sequence[int], k: int, rates: Rates = CPU) -> Groups | None:
    """Return the groups with which the top k of rows are found fastest; None: faster without.

    `shape`: of the operand, rows last. Of each row, count + k * size elements are searched, the
    fewest for size = sqrt(n / k).
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
    found = min(fitting, key=lambda one: one.seconds(rows, k, rates), default=None)
    if found is None:
        return None
    faster = found.seconds(rows, k, rates) < kernel_seconds(rows, n, k, rates)
    return found if faster else None


def top_k_seconds(node: Node, rates: Rates = CPU, expanded: bool = True) -> float:
    """Estimate the time of one run of a `top_k`; `expanded`: by groups where that is faster."""
    rows, n, k = _sizes(node)
    groups = find_groups((rows, n), k, rates) if expanded else None
    if groups is None:
        return kernel_seconds(rows, n, k, rates)
    return groups.seconds(rows, k, rates)


def merge_seconds(shape: Sequence[int], rates: Rates = CPU) -> float:
    """Estimate the time to merge the top k of one chunk with those of the chunks before.

    `shape`: of the top k, which are its last axis.
    """
    *batch, k = shape
    rows = math.prod(batch)
    gathered = rows * k * rates.top_k_gathered
    return rates.top_k_merge + kernel_seconds(rows, 2 * k, k, rates) + gathered


def running_size(n: int) -> int:
    """Return the size of the groups in which a running top-k searches a chunk of `n` elements.

    The last group is shorter if no size divides `n`. 0: `n` is too small for groups.
    """
    most = min(SETTINGS.group_most, max(SETTINGS.group_least, math.isqrt(n // 4)))
    sizes = (size for size in range(most, SETTINGS.group_least - 1, -1) if n % size == 0)
    return next(sizes, most) if n >= SETTINGS.group_sparse * most else 0


def by_groups(n: int, k: int) -> bool:
    """Return whether to search only the k best groups of a chunk in which many beat the k-th.

    The kernel takes up to five times as long for a row if each element is larger than those before.
    With groups, it runs once more, but on few elements.
    """
    size = running_size(n)
    return bool(size) and n >= max(2 * size, SETTINGS.group_many) * k


def few_groups(rows: int, n: int, k: int) -> int:
    """Return the number of groups up to which those that beat the k-th are searched together.

    If there are more in a chunk, it is searched as a whole (`by_groups`). They must be a small part
    of the chunk, and take no longer than the whole chunk.
    """
    size = running_size(n)
    if not size:
        return 0
    part = rows * -(-n // size) // SETTINGS.group_sparse
    return min(part, int(_all_seconds(rows, n, k) / (size * CPU.top_k_padded)))


def _all_seconds(rows: int, n: int, k: int) -> float:
    """Estimate the time of a running top-k for a chunk in which many groups beat the k-th."""
    if not by_groups(n, k):
        return kernel_seconds(rows, n, k) + merge_seconds((rows, k))
    size = running_size(n)
    looked = (-(-n // size), k, k + k * size)
    return sum(kernel_seconds(rows, m, k) for m in looked) + rows * k * CPU.top_k_gathered


@lru_cache(maxsize=4096)
def running_seconds(rows: int, n: int, k: int, chunks: int) -> float:
    """Estimate the mean time of a running top-k, with merging, per chunk.

    `chunks`: their number. Elements are assumed to be in random order: the t-th chunk has 1 / t of
    the elements so far, so also 1 / t of their top k.
    """
    size = running_size(n)
    everything = _all_seconds(rows, n, k)
    if not size or chunks < 2:
        return everything
    each = np.arange(2, chunks + 1)
    beaten = 1 - (1 - 1 / each) ** k  # the part of the rows in which any element beats the k-th
    most = k / each + 4 * np.sqrt(k / each) + 1  # groups of one row, at most
    padded = rows * beaten * most
    few = rows * beaten * k * CPU.top_k_kept / min(rows, 2) + padded * size * CPU.top_k_padded
    test = CPU.top_k_start + rows * (
        n * (CPU.top_k_maximum + (CPU.top_k_copied if n % size else 0.0))
        + n / size * CPU.top_k_tested
    )
    times = test + np.where(padded <= few_groups(rows, n, k), few, everything)
    return float(everything + times.sum()) / chunks


def running_pairs(loop: Loop) -> dict[int, Node]:
    """Return the top-k results of a loop that are faster as a running top-k.

    The keys are their positions in `loop.results`, the values the nodes that find the top k of a
    chunk.
    """
    unfolded = any(
        result.combine == "top_k" and not result.accumulates_in_body for result in loop.results
    )
    if not unfolded or loop.triangular or loop.bitwise_group is not None:
        return {}
    found = _found_in(loop, loop.body)
    if loop.remainder is not None:
        found = {key: found[key] for key in found.keys() & _found_in(loop, loop.remainder).keys()}
    return {position: node for position, node in sorted(found.items()) if _saved(loop, node) > 0}


def _found_in(loop: Loop, body: Graph) -> dict[int, Node]:
    """Return the nodes whose results are combined as a top-k and have no other use."""
    makers, read = producers(body), consumers(body)
    found: dict[int, Node] = {}
    for position, result in enumerate(loop.results):
        pair = body.outputs[position : position + 2]
        node = makers.get(pair[0])
        if result.combine != "top_k" or node is None or node.outputs != pair:
            continue
        alone = all(t not in read and body.outputs.count(t) == 1 for t in pair)
        static = all(t.is_static and t.size > 0 for t in (*node.inputs, *pair))
        if node.op == "top_k" and alone and static:
            found[position] = node
    return found


def saved_seconds(loop: Loop) -> float:
    """Estimate the time that running top-k would save in one iteration of the present body."""
    return sum(_saved(loop, node) for node in running_pairs(loop).values())


def _saved(loop: Loop, node: Node) -> float:
    plain = top_k_seconds(node) + merge_seconds(node.outputs[0].dims)
    return plain - running_seconds(*_sizes(node), int(loop.mean_trip_count))


def _sizes(node: Node) -> tuple[int, int, int]:
    """Return the number of rows, the elements of each, and k."""
    *batch, n = node.inputs[0].dims
    return math.prod(batch), n, node.outputs[0].dims[-1]
