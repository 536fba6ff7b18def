"""The rates of a device, in seconds per unit of work; the cost model gets them from an op set.

Only ratios of a device's rates matter. Those of CPUs are here, of GPUs in `model/gpu_rates.py`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rates:
    """Seconds per unit of work. The defaults are medians on a CPU with 32 MB of shared cache."""

    byte: float = 3e-11  # reading or writing main memory
    cached_byte: float = 1.6e-11  # the same in a chunk that stays in cache
    launch: float = 1e-6  # the executor's work for one node
    product_8: float = 1e-11  # one operation of a product, elements of 8 bytes
    product_4: float = 5e-12
    product_tf32: float = 5e-12  # where factors of 4 bytes are rounded to TF32
    pointwise_8: float = 7e-11  # one operation of a pointwise op
    pointwise_4: float = 2.5e-11
    compiled_pointwise: float = 0.55  # of the executor's time: XLA's loops are fused

    # Not calibrated on a CPU: the decisions they affect hardly change with the machine.

    serial: float = 2.0  # times a product's operation: solves and decompositions, on one core
    fork: float = 5e-6  # to divide the work of a node between cores, and to wait for them
    iteration: float = 5e-6  # the executor's work for one iteration of a loop
    variable: float = 4e-7  # the executor's work for one variable of a While in one iteration
    lookup: float = 5e-9  # to find a row by its index
    convolution: float = 1e-4  # more for one convolution: oneDNN looks for its code; 70 to 150 us
    cluster: float = 4e-6  # the executor's work for one call of a compiled cluster
    sync: float = 0.15  # the part of the time that cores wait with one iteration at a time
    written_byte: float = 4.5e-10  # concatenated from chunks: strided, on one core, on fresh pages
    run: float = 2.5e-9  # more for each contiguous run of a chunk that is sliced or concatenated
    product_byte: float = 5e-11  # of a product, on one core: packed operands, accumulated results
    patch_byte: float = 7e-11  # of the patches that a convolution copies, for any number of filters
    flop: float = 2e-11  # of any kind: to compare a rewrite with the nodes it replaces
    short_axis_element: float = 4e-10  # more per element along a short axis than of a matrix
    compiling: float = 0.03  # a cluster; `compiling_node`: each of its nodes
    compiling_node: float = 2e-3
    search_node: float = 1e-3  # a search, for each node of a program; 0.1 to 3.5, mean 0.8 ms

    # A top-k kernel, whose rows are divided between two cores.

    top_k_element: float = 3.5e-9
    top_k_best: float = 1.1e-9  # the same where k is 1
    top_k_fork: float = 3e-5  # to divide the rows, and to wait
    top_k_column: float = 0.0  # for each element of one row: a GPU searches many rows at once
    top_k_kept: float = 2.2e-7  # in addition, for each of the k of a row: the heap and its sorting
    top_k_start: float = 2e-4  # the nodes of an expanded top-k
    top_k_merge: float = 0.0  # in addition, to merge the best of a chunk with those before
    top_k_maximum: float = 1e-10  # one element of a maximum over groups
    top_k_gathered: float = 1e-7  # to gather a group
    top_k_copied: float = 3e-10  # to copy one element, where the groups leave a tail
    top_k_tested: float = 1e-9  # to compare a group's maximum with the k-th so far
    top_k_padded: float = 8e-9  # to gather an element of a group that beats it, and to look at it


CPU = Rates()
"""The rates of a CPU that has not been measured, with two cores."""
