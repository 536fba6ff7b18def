"""Nodes with sub-graphs: loops and choices of the program (a `Loop` is one that a split made)."""

from __future__ import annotations

from tf_exla.ir.graph import Graph, Node

CHOICES = frozenset({"cond", "switch"})
"""Ops whose operand 0 chooses a sub-graph, which is given the other operands."""


def is_while(node: Node) -> bool:
    """Return whether a node is a loop of the program."""
    return node.op == "while"


def cond_of(node: Node) -> Graph:
    """Return the condition of a `while`."""
    cond = node.attrs["cond"]
    assert isinstance(cond, Graph)
    return cond


def body_of(node: Node) -> Graph:
    """Return the body of a `while`."""
    body = node.attrs["body"]
    assert isinstance(body, Graph)
    return body
