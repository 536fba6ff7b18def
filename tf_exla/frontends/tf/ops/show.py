"""Print the records of ops: `python -m tf_exla ops`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from tf_exla.frontends.tf.nodes.names import graph_name
from tf_exla.frontends.tf.ops.record import Op
from tf_exla.frontends.tf.ops.table import KINDS

COLUMNS = ("op", "in graphs", "kind", "axis rule", "flops", "scratch", "result", "XLA", "sizes")


def row(name: str, kind: str, op: Op) -> Sequence[str]:
    """Return the columns of one op; a rule that depends on the node is shown by name."""
    buffer = {"": "", "always": "view", "part": "view or part", "same": "view or new"}[op.view]
    if op.reuses:
        buffer = "reuses " + ", ".join(map(str, op.reuses[:3])) + ("…" if op.reuses[3:] else "")
    rule = _text(op.rule) if op.rule is not None else f"none: {op.reason or 'never split'}"
    sizes = _text(op.bounds) if op.bounds is not None else op.size
    here = graph_name(name, "")
    return (
        name,
        here if here != name else "",
        kind,
        rule,
        _text(op.flops),
        _text(op.cpu),
        buffer,
        _text(op.xla),
        sizes,
    )


def _text(value: Any) -> str:
    if callable(value):
        return f"{value.__qualname__.partition('.')[0].lstrip('_')}()"
    return str(value)


def show(names: Sequence[str]) -> None:
    """Print a table of the ops whose names contain one of `names`; of all ops if it is empty."""
    table = Table(*COLUMNS)
    for kind, ops in KINDS.items():
        for name, op in ops.items():
            if not names or any(
                part.lower() in f"{name} {graph_name(name, '')}".lower() for part in names
            ):
                table.add_row(*row(name, kind, op))
    Console(width=None if Console().is_terminal else 200).print(table)
