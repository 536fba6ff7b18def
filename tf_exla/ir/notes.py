"""Notes: values that passes memoize on nodes and graphs themselves.

A lookup takes a fraction of the time of a dictionary of weak references, and notes are freed with
their node. A note belongs to an author, the object that computed it (such as an op set). Under each
name a node keeps only the note of its last author. So a program that is planned repeatedly
accumulates nothing. If two threads plan it at once, some notes are computed twice.
"""

from __future__ import annotations

from typing import Any

from tf_exla.ir.graph import Graph, Node


def noted(node: Node | Graph, name: str, by: object) -> Any:
    """Return the note of `by` on a node; None if there is none, or another author replaced it."""
    found = node.notes.get(name)
    return found[1] if found is not None and found[0] is by else None


def note(node: Node | Graph, name: str, by: object, value: object) -> None:
    """Store a note of `by` on a node."""
    node.notes[name] = by, value
