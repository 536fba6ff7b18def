"""Refusals: reasons why something is not done."""

from __future__ import annotations


class Refusal(Exception):
    """A sentence for reports: why a node has no rule, cannot be made, or is not replaced.

    A function returns it instead of a value, or raises it if an outer caller handles it.
    """

    @property
    def reason(self) -> str:
        return str(self)
