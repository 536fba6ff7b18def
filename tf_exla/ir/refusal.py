"""Refusals: reasons why something is not done."""

from __future__ import annotations


class Refusal(Exception):
    """A sentence for reports: why a node has no rule, cannot be made, or is not replaced.

    It is returned instead of the requested value, or raised if the caller is far away.
    """

    @property
    def reason(self) -> str:
        return str(self)
