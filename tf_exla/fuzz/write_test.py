"""A failing program as a test file of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_TEMPLATE = '''"""Found by `python -m tf_exla fuzz --programs 1 --seed {seed}`: {failure}.

{details}
"""

from tf_exla.fuzz.check import check
from tf_exla.fuzz.programs import FuzzProgram

SOURCE = """
{source}"""
INPUTS = {inputs!r}


def test_seed_{seed}() -> None:
    program = FuzzProgram(SOURCE, INPUTS, {exact!r}, {kind!r})
    assert check(program)["failure"] == ""
'''


def write_test(verdict: dict[str, Any], folder: Path) -> Path:
    """Write the test of a failure, as `worker.run_seed` returns it; return its path."""
    path = folder / f"test_fuzz_{verdict['seed']}.py"
    fields = {"source": "", "inputs": (), "exact": (), "kind": "values", "details": "", **verdict}
    fields["inputs"] = tuple((tuple(shape), dtype) for shape, dtype in fields["inputs"])
    path.write_text(_TEMPLATE.format(**fields))
    return path
