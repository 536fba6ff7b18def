"""How long a device takes for one thing each: what an op set tells the cost model.

Of a device, only ratios decide. What is known of CPUs is here; of GPUs: `model/gpu_rates.py`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rates:
    """Seconds of one thing each. The defaults are medians, on a CPU with 32 MB of shared cache."""

    byte: float = 3e-11  # reading or writing main memory
    cached_byte: float = 1e-11  # the same in a chunk that stays in cache
    launch: float = 7e-6  # the executor's work for one node
    product_8: float = 1e-11  # one operation of a product, elements of 8 bytes
    product_4: float = 5e-12
    product_tf32: float = 5e-12  # where factors of 4 bytes are rounded to TF32
    pointwise_8: float = 7e-11  # one operation of a pointwise op
    pointwise_4: float = 2.5e-11
    compiled_pointwise: float = 0.55  # of the executor's time: XLA's loops are fused

    # Not calibrated on a CPU: what they decide hardly changes with the machine.

    serial: float = (
        2.0  # times a product's operation: one of solves, of decompositions, by one core
    )
    iteration: float = 4e-5  # the executor's work for one iteration of a loop
    cluster: float = 2e-5  # the executor's work for one call of a compiled cluster
    sync: float = 0.15  # the part of the time that cores wait, one iteration at a time
    written_byte: float = 4.5e-10  # put together from chunks: strided, by one core, on fresh pages
    product_byte: float = 5e-11  # of a product, by one core: packed operands, results added up
    flop: float = 2e-11  # of any kind: to compare a rewrite with what it replaces
    short_axis_element: float = 4e-10  # more for an element along a short axis than of a matrix
    compiling: float = 0.03  # a cluster, and for each of its nodes
    compiling_node: float = 2e-3
    search_node: float = 3e-3  # a search, for each node of a program

    # Of a top-k kernel; rows are shared out between two cores.

    top_k_element: float = 2e-9
    top_k_kept: float = 2.5e-7  # beside, for each of the k of a row: the heap and its sorting
    top_k_start: float = 2e-4  # the nodes of an expanded top-k
    top_k_maximum: float = 1e-10  # one element of a maximum over groups
    top_k_gathered: float = 1e-7  # to gather a group
    top_k_copied: float = 3e-10  # to copy one element, where the groups leave a tail
    top_k_tested: float = 1e-9  # to compare a group's maximum with the k-th so far
    top_k_padded: float = 8e-9  # to gather an element of a group that beats it, and to look at it


CPU = Rates()
"""The rates of a CPU that nobody has measured, with two cores."""
