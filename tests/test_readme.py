"""The examples of the README work."""

import re
from pathlib import Path

import pytest
from fresh_process import run_fresh
from needs import GPFLOW, JAX

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
JAX_PAGE = (ROOT / "docs" / "jax.md").read_text()
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "tf_exla" / "DESIGN.md"])


def blocks(language: str, page: str = README) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def block(language: str) -> str:
    """Return the first code block of a language."""
    return blocks(language)[0]


@GPFLOW
@pytest.mark.parametrize(
    ("rows", "limit", "iterations"),
    [
        ("20_000", "40MB", 1),
        pytest.param("100_000", "200MB", 5, marks=pytest.mark.thorough),  # the example itself
    ],
)
def test_example_runs_inside_its_limit_and_stock_does_not(
    rows: str, limit: str, iterations: int
) -> None:
    shorter = block("python")
    for full, given in (
        ("100_000", rows), ("200MB", limit), ('"maxiter": 5', f'"maxiter": {iterations}')
    ):  # fmt: skip
        assert shorter.count(full) == 1
        shorter = shorter.replace(full, given)
    report = run_fresh(shorter + "\nsend(optimizer.report.to_dict())")
    assert report["projected_peak"] <= report["limit"] < report["projected_peak_before"]


@JAX
def test_example_in_jax_runs_inside_its_limit() -> None:
    _, example = blocks("python")
    shorter = example.replace("50_000", "8_000").replace("100MB", "10MB")
    assert shorter.count("8_000") == 2
    code = f"""{shorter}
import sys
rows = np.exp(-0.5 * ((X[:3, None] - X) ** 2).sum(-1)) @ v
send([float(abs(product[:3] - rows).max()), "tensorflow" in sys.modules])"""
    error, imported = run_fresh(code, env={"LANG": "C"})
    assert error < 1e-9
    assert not imported


@JAX
def test_code_of_the_page_on_jax_runs() -> None:
    run_fresh("\n".join([*blocks("python", JAX_PAGE), "send(0)"]), env={"LANG": "C"})


def test_readme_is_short() -> None:
    assert len(README.splitlines()) <= 120


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    text = page.read_text()
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"https?:", target):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), target
        if anchor:
            titles = re.findall(r"^#+ (.*)$", linked.read_text(), re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", title).lower().replace(" ", "-") for title in titles}
            assert anchor in slugs, target


def test_printed_report_is_of_the_example() -> None:
    printed = block("text")
    assert re.search(r'limit="(\d+)MB"', block("python"))[1] + " MB" in printed.splitlines()[0]
    assert " projected, " in printed


def test_one_line_runs_the_tests() -> None:
    # The line that .ci/run extracts and runs.
    assert len([line for line in README.splitlines() if "-m pytest" in line]) == 1
