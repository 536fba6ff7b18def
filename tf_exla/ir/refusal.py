"""Why something is not done."""

from __future__ import annotations


class Refusal(Exception):
    """Why a node has no rule, cannot be made, or is not replaced: a sentence for reports.

    It is returned in the place of what was asked for; where that is far away, it is raised.
    """

    @property
    def reason(self) -> str:
        return str(self)
