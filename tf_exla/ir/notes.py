"""Notes: what a planner remembers of nodes and graphs, kept at these themselves.

They are found in a fraction of the time that a dictionary of weak references takes, and go with
their node. Under each name a node has the note of who wrote last only: a program that is planned
again and again gathers nothing, and threads that plan it at once compute some notes twice.
"""

from __future__ import annotations

from typing import Any

from tf_exla.ir.graph import Graph, Node


def noted(node: Node | Graph, name: str, by: object) -> Any:
    """Return what `by` has noted of a node; None where it has not, or somebody else has since."""
    found = node.notes.get(name)
    return found[1] if found is not None and found[0] is by else None


def note(node: Node | Graph, name: str, by: object, value: object) -> None:
    """Note what `by` knows of a node."""
    node.notes[name] = by, value
