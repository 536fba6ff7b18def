"""What an allocator takes, and the largest working set for a budget."""

from __future__ import annotations

import pytest

from tf_exla.model.allocator import BLOCKS, EXACT, MARGIN, Allocator

MB = 1 << 20


@pytest.mark.parametrize("allocator", [BLOCKS, EXACT, MARGIN])
def test_a_room_is_the_largest(allocator: Allocator) -> None:
    for budget in (*range(40), *range(MB, 1200 * MB, 3 * MB + 1)):
        room = allocator.room(budget)
        assert allocator.taken(room) <= budget < allocator.taken(room + 1)


def test_blocks() -> None:
    """A small program may take twice as much, a large one 160 MB more."""
    found = [BLOCKS.taken(asked * MB) / MB for asked in (1, 8, 12, 16, 100, 320, 1000)]
    assert found == [2, 16, 20, 24, 150, 480, 1160]
