"""The passes know ops by the names of the vocabulary, and no op by TensorFlow's name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import tf_exla.ir
from tf_exla.frontends.tf.nodes.names import graph_name, tensorflow_name
from tf_exla.frontends.tf.ops.table import OPS

PACKAGE = Path(tf_exla.ir.__file__).parents[1]
CORE = ("ir", "late", "model", "moves", "pipeline", "report", "rewrite", "split", "vocabulary")
TEXT = frozenset({"Size"})  # a heading of the report


def strings(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_no_pass_names_an_op_of_tensorflow() -> None:
    theirs = {name for name in OPS if name != name.lower()} - TEXT
    found = [
        f"{path.relative_to(PACKAGE)}: {text}"
        for folder in CORE
        for path in (PACKAGE / folder).rglob("*.py")
        for text in strings(path)
        if text.split() and theirs.issuperset(text.split())
    ]
    assert not found


def test_names_go_there_and_back() -> None:
    for name in OPS:
        here = graph_name(name, "float64")
        assert tensorflow_name(here) in OPS
        assert graph_name(tensorflow_name(here), "float64") == here
    assert graph_name("Add", "float64") == graph_name("AddV2", "float64") == "add"
    assert graph_name("Add", "string") == "Add"
