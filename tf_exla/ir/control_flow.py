"""Nodes with sub-graphs: loops and choices of the program (a `Loop` comes from a split)."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable
from typing import NamedTuple

from tf_exla.ir.graph import Graph, Node, Tensor

CHOICES = frozenset({"cond", "switch"})
"""Ops whose operand 0 chooses a sub-graph; the other operands are its inputs."""


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


class Variable(NamedTuple):
    """A variable of a `while`.

    `first`: its initial value. `inner`, `after`: the input and the output of the body. `tested`:
    the condition's input; None if the condition does not read the variable.
    """

    first: Tensor
    inner: Tensor
    after: Tensor
    tested: Tensor | None = None


def with_variables(
    node: Node,
    added: Iterable[Variable] = (),
    dropped: Collection[int] = (),
    body: Graph | None = None,
    cond: Graph | None = None,
) -> Node:
    """Return a `while` with variables added, and those at the positions `dropped` removed.

    `body`, `cond`: replacements of its own sub-graphs, before variables are added and dropped.
    """
    body, cond, added = body or body_of(node), cond or cond_of(node), tuple(added)
    kept = [k for k in range(len(node.inputs)) if k not in dropped]

    def chosen(tensors: tuple[Tensor, ...], more: Iterable[Tensor]) -> tuple[Tensor, ...]:
        return (*(tensors[k] for k in kept), *more)

    tested = (one.tested or one.inner.fresh_copy() for one in added)
    inputs = chosen(body.inputs, (one.inner for one in added))
    outputs = chosen(body.outputs, (one.after for one in added))
    subs = {
        "cond": cond.replace(inputs=chosen(cond.inputs, tested)),
        "body": body.replace(inputs=inputs, outputs=outputs),
    }
    return dataclasses.replace(
        node,
        inputs=chosen(node.inputs, (one.first for one in added)),
        outputs=chosen(node.outputs, (one.after.fresh_copy() for one in added)),
        attrs={**node.attrs, **subs},
    )


def passed_on(node: Node) -> frozenset[int]:
    """Return the positions of a While's variables that no iteration changes."""
    if not is_while(node):
        return frozenset()
    body = body_of(node)
    pairs = zip(body.inputs, body.outputs[: len(body.inputs)], strict=True)
    return frozenset(k for k, (before, after) in enumerate(pairs) if before is after)
