"""Eigen's products on a CPU: operands that TensorContraction packs, in any framework."""

from __future__ import annotations

from math import ceil, isqrt
from pathlib import Path

# Caches decide Eigen's block sizes. Where the system does not report them, assume large ones.


def _cache_bytes(level: int, default: int) -> int:
    """Return the size of a core's data cache as Linux reports it."""
    for cache in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        try:
            if int((cache / "level").read_text()) != level:
                continue
            if (cache / "type").read_text().strip() != "Instruction":
                return int((cache / "size").read_text().strip().removesuffix("K")) * 1024
        except (OSError, ValueError):
            continue
    return default


LEAST_L1 = 2**15
L1 = max(LEAST_L1, _cache_bytes(1, 2**17))
L2 = max(2**18, _cache_bytes(2, 2**22))
# Virtual machines report a part of it, whereas Eigen reads the whole size.
L3 = 2**29

# The depth of a packed block in Eigen's threaded product; two blocks are in use at once.
BLOCK_DEPTH = 320
# Coefficients times depth of the largest task that Eigen makes by merging blocks: two units of
# 40,000 cycles at an eighth of a cycle, doubled for safety.
_TASK_WORK = 1_280_000


def patches_bytes(pixels: int, terms: int, filters: int, size: int, threads: int) -> int:
    """Bound the packed operands of a convolution in XLA: a product of patches with the filters.

    Eigen shares out the inner axis (shardByInnerDim) only if each share is long, and there are few
    filters or pixels. Calls with 1 to 128 channels and filters packed at most 2 MB.
    """
    share = terms // 2  # two workers or more
    shared = any(
        (share >= 2 * nr and max(pixels, filters) // threads < nr)
        or (share > 8 * nr and min(pixels, filters) < 2 * nr)
        for nr in _REGISTERS
    )
    if shared or threads == 1:
        return packed_bytes(pixels, terms, filters, size, threads)
    return _packed(pixels, terms, filters, size, threads)


_REGISTERS = (4, 8)
"""Columns that Eigen's innermost kernel has in registers, by the instructions it is built for."""


def packed_bytes(rows: int, inner: int, cols: int, size: int, threads: int) -> int:
    """Bound the packed operands of Eigen's TensorContraction on a thread pool.

    Eigen packs slices of both operands, 320 deep, two at a time. If there are enough tasks, the
    sharded axis is packed for each task in a small buffer of the thread. Only tasks that a thread
    could not finish before the next slice began use the large buffer.
    """
    if not rows * inner * cols:
        return 0
    if threads == 1:
        # The sequential product packs the columns whole, as deep as the L1 cache allows.
        depth = min(inner, L1 // (12 * size))
        return depth * cols * size + min(depth * rows * size, 2**20)
    packed = _packed(rows, inner, cols, size, threads)
    return max(packed, _sharded_by_inner(rows, inner, cols, size, threads))


def _packed(rows: int, inner: int, cols: int, size: int, threads: int) -> int:
    """Bound the packed operands where the rows or columns are shared out."""
    depth = min(inner, 2 * BLOCK_DEPTH)
    return max(
        _sharded_axis(sharded, other, is_m, inner, size, threads) + depth * other * size
        for sharded, other, is_m in _shardings(rows, cols, threads)
    )


def _shardings(rows: int, cols: int, threads: int) -> set[tuple[int, int, bool]]:
    """Return (sharded axis, other axis, whether m is sharded) for each size of Eigen's registers.

    This is the choice of Eigen's shardByCol. Eigen sees the row-major product transposed: its m
    are our columns, its n our rows.
    """
    m, n = cols, rows
    found = set()
    for nr in _REGISTERS:
        few_columns = n // threads < nr or (
            n // threads < 4 * nr
            and n % (threads * nr) != 0
            and (m % (threads * nr) == 0 or m // n >= 6)
        )
        by_row = m // threads >= nr and few_columns
        by_row = by_row or (n // threads < 16 * nr and m > n * 32)
        found.add((m, n, True) if by_row else (n, m, False))
    return found


def _sharded_axis(sharded: int, other: int, is_m: bool, inner: int, size: int, threads: int) -> int:
    depth = min(inner, BLOCK_DEPTH)
    whole = min(inner, 2 * BLOCK_DEPTH) * sharded * size
    block = L2 // (4 * size * depth)
    if size == 4:  # oneDNN's kernel: blocks are longer by half along m, rounded up
        block = block * 3 // 2 + 48 if is_m else block + 24
    task = max(block, _TASK_WORK // (max(1, other // threads) * depth))
    tasks = ceil(sharded / task)
    # Eigen's oversharding factor: with so many tasks per thread it shards along this axis only.
    bounds = ((4, 8.0), (8, 4.0), (16, 2.0), (32, 1.0), (64, 0.8))
    factor = next((factor for bound, factor in bounds if threads <= bound), 0.6)
    if tasks < factor * threads:
        return whole
    late = min(1.0, (ceil(inner / depth) - 1) * threads / tasks)
    return min(whole, ceil(late * whole) + threads * task * depth * size)


def _sharded_by_inner(rows: int, inner: int, cols: int, size: int, threads: int) -> int:
    """Bound the buffers where each worker sums its share of the inner axis into its own output.

    Eigen does so only if the output is thin or too small to occupy all threads, and if all buffers
    fit in the L3 cache. The best number of workers is about the square root of the inner extent.
    """
    workers = min(threads, inner // 8, 2 * isqrt(inner) + 2)
    thin = min(rows, cols) < 16 or max(rows, cols) < 8 * threads
    # 100,000 cycles for each thread, an eighth of a cycle for each coefficient and step in depth.
    busy = rows * cols * min(inner, BLOCK_DEPTH) > 1_000_000 * threads
    if workers < 2 or (busy and not thin) or 2 * rows * cols * size > L3:
        return 0
    depth = min(ceil(inner / workers), L1 // (12 * size))
    return min(workers * rows * cols * size, L3) + workers * depth * (rows + cols) * size
