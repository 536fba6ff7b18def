"""Files, functions and lists of parameters stay short; what is long says why in a comment."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import tf_exla

PACKAGE = Path(tf_exla.__file__).parent
FILE, FUNCTION, PARAMETERS = 350, 60, 6  # lines, lines, and parameters beside `self`


def too_large(path: Path, source: str) -> Iterator[str]:
    lines = source.splitlines()
    if len(lines) > FILE:
        yield f"{path}: {len(lines)} lines"
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
        above = lines[first - 2].strip() if first > 1 else ""
        names = [
            one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        ]
        count = len(names) - (names[:1] in (["self"], ["cls"]))
        length = (node.end_lineno or node.lineno) - node.lineno + 1
        if length > FUNCTION and not above.startswith("# Long: "):
            yield f"{path}:{node.lineno}: {node.name} has {length} lines"
        if count > PARAMETERS and not above.startswith("# Many parameters: "):
            yield f"{path}:{node.lineno}: {node.name} has {count} parameters"


def test_sizes() -> None:
    files = sorted(PACKAGE.rglob("*.py"))
    assert files
    found = [one for path in files for one in too_large(path, path.read_text(encoding="utf-8"))]
    assert not found, "\n".join(found)


def test_what_is_too_large_is_found() -> None:
    many = "def f(a, b, c, d, e, f, *, g):\n    pass\n"
    long = "def f(self, a, b, c, d, e, f):\n" + "    pass\n" * 60
    assert len(list(too_large(Path("x"), many))) == len(list(too_large(Path("x"), long))) == 1
    assert not list(too_large(Path("x"), "# Many parameters: since.\n" + many))
    assert len(list(too_large(Path("x"), "x = 1\n" * 351))) == 1
