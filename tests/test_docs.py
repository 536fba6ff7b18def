"""The code of each page of the documentation runs, and the site builds."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from fresh_process import run_fresh
from needs import GPFLOW, is_installed

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
ELSEWHERE = {"jax.md", "keras.md"}
"""Pages whose code `test_readme.py` and `test_keras.py` run."""
SELDOM = {f"tutorials/{name}.md" for name in ("kernel", "minibatches", "predictions", "sgpr")}
"""Pages that train for long; other pages and `test_readme.py` train such models, too."""
PAGES = [
    pytest.param(
        name,
        marks=[
            *([GPFLOW] if "import gpflow" in text else []),
            *([pytest.mark.thorough] if name in SELDOM else []),
        ],
    )
    for path in sorted(DOCS.rglob("*.md"))
    for name, text in [(path.relative_to(DOCS).as_posix(), path.read_text())]
    if "```python" in text and path.name not in ELSEWHERE
]


@pytest.mark.parametrize("page", PAGES)
def test_code_of_a_page_runs(page: str) -> None:
    """One block after the other, in one process."""
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    run_fresh("\n".join([*blocks, "send(0)"]))


@pytest.mark.skipif(not is_installed("mkdocs"), reason="no mkdocs")
def test_the_site_builds(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "site" / "reference" / "tensorflow.html").read_text(encoding="utf-8")
    assert "rewrites" in page  # of docstrings
    command_line = (tmp_path / "site" / "reference" / "command-line.html").read_text("utf-8")
    assert "--strict" in command_line
