"""Radix select: the ops that find the elements of given ranks, 11 bits at a time.

The *key* of a float is a signed integer of as many bits, in the same order: -inf, ..., -0, 0, ...,
inf, NaN. The *state* holds a column for each element that is searched for: the least key that it
may have, the *prefix*, and its rank among the elements with a key of at least that.

- `radix_counts(x, state)`: how many elements of `x` have each value of the next `bits` bits, from
  bit `shift` on, among those that agree with the prefix in all higher bits;
- `radix_step(counts, state)`: the state with these bits of the wanted elements;
- `radix_values(state)`: the floats whose keys are the prefixes.

If chunks of `x` are computed again for each pass, its last bits may differ. A rank that a bucket
does not reach then takes the end of the bucket, which is next to the element that moved.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tf_exla.ir.graph import Node, Tensor, item_bytes
from tf_exla.vocabulary.rules.builders import Letters, arrow, rank

BITS = 11
"""Six passes for float64, three for float32. 2,048 counts are small beside a chunk; 16 bits would
take four and two passes, but 65,536 counts for each."""
KEY_FLOPS = 12
"""Operations that make a key and count it."""


def key_dtype(dtype: str) -> str:
    """Return the dtype of the keys of float32 or float64."""
    return f"int{8 * item_bytes(dtype)}"


def first_prefix(dtype: str) -> int:
    """Return the least key."""
    return int(np.iinfo(dtype).min)


def passes(dtype: str) -> Iterator[tuple[int, int]]:
    """Yield the shift and the number of bits of each pass over floats."""
    left = 8 * item_bytes(dtype)
    while left:
        bits = min(BITS, left)
        left -= bits
        yield left, bits


def shift_of(node: Node) -> int:
    """Return the lowest bit that a node counts or appends."""
    return int(str(node.attrs["shift"]))


def counts_rule(node: Node) -> str:
    """Add up the counts of all parts of operand 0."""
    letters = Letters()
    axes = letters.low(rank(node.inputs[0]))
    state, made = letters.up(2), letters.up(1)
    return arrow([axes, state], [[state[1], *made]], "add", axes)


def counts_shape(inputs: Sequence[Tensor], attrs: Mapping[str, object]) -> tuple[int, ...]:
    return inputs[1].dims[1], 1 << int(str(attrs["bits"]))


def counts_flops(node: Node) -> int:
    return KEY_FLOPS * node.inputs[0].size
