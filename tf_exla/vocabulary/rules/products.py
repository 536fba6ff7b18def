"""Rules of products (matrices, einsum) and of decompositions."""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence

from tf_exla.ir.graph import Node
from tf_exla.ir.refusal import Refusal
from tf_exla.vocabulary.rules.builders import Letters, arrow, rank, text_attr


def matmul(left: str, right: str, batch: str = "") -> Callable[[Node], str]:
    """Multiply matrices; `left` and `right` name the attributes that transpose an operand."""

    def rule(node: Node) -> str:
        a = "k i" if node.attrs.get(left) else "i k"
        b = "j k" if node.attrs.get(right) else "k j"
        return arrow([batch + a, batch + b], [batch + "i j"], "add", ["k"])

    return rule


def einsum(node: Node) -> str:
    """Multiply and add as an equation says; a letter that is twice in a term is needed whole."""
    equation = text_attr(node, "equation").replace(" ", "")
    left, found, right = equation.partition("->")
    terms = left.split(",")
    if not found:
        raise Refusal(f"the equation {equation!r} of {node.name} has no result")
    if "..." in left and "..." not in right:
        raise Refusal(f"the equation {equation!r} of {node.name} adds over its leading axes")
    letters = {char for char in equation if char.isalpha()}
    twice = {c for term in (*terms, right) for c in term if c.isalpha() and term.count(c) > 1}
    spare = iter([char for char in string.ascii_lowercase if char not in letters])
    names = {}
    for char in sorted(letters):
        lower = char if char.islower() else next(spare, "")
        if not lower:
            raise Refusal(f"the equation {equation!r} of {node.name} has too many letters")
        names[char] = lower.upper() if char in twice else lower
    parts = [_einsum_term(term, names) for term in (*terms, right)]
    reduced = sorted(names[c] for c in letters if c not in right and c not in twice)
    return arrow(parts[:-1], parts[-1:], "add", reduced)


def _einsum_term(term: str, names: dict[str, str]) -> list[str]:
    return ["..." if part == "." else names[part] for part in term.replace("...", ".")]


def outputs_or_empty(results: Sequence[str], attr: str) -> Callable[[Node], str]:
    """Decompose matrices; if `attr` is false, all results but the first are empty."""

    def rule(node: Node) -> str:
        letters = Letters()
        full = ["...", *letters.up(2)]
        wanted = bool(node.attrs.get(attr, True))
        parts = [
            ["...", *letters.up(len(names.split()))]
            if wanted or k == 0
            else letters.up(rank(node.outputs[k]))
            for k, names in enumerate(results)
        ]
        return arrow([full], parts)

    return rule
