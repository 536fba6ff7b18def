"""The page of a report: it has what the report has, needs no network, and works in a browser."""

from __future__ import annotations

import dataclasses
import html
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
import tensorflow as tf

import tf_exla
from tf_exla.report.html import _closed
from tf_exla.report.report import MemoryReport

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")


@pytest.fixture(scope="module")
def report() -> MemoryReport:
    def matvec(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        return tf.matmul(tf.exp(-tf.square(x - tf.transpose(x))), v)

    column = tf.TensorSpec([2000, 1], tf.float64)
    found = tf_exla.explain(matvec, column, column, limit="2MB", trace=True)
    return dataclasses.replace(found, function="matvec</script><b>&")


class Balanced(HTMLParser):
    """A parser that keeps open tags, except those without an end, and links."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "br", "line", "path", "rect", "polyline", "i"):
            self.open.append(tag)
        self.outside += [value for name, value in attrs if name in ("src", "href") and value]

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            assert self.open.pop() == tag


def test_page_has_what_the_report_has(report: MemoryReport, tmp_path: Path) -> None:
    page = report.to_html(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == page
    parsed = Balanced()
    parsed.feed(page)
    assert not parsed.open
    assert not parsed.outside
    text = html.unescape(page)
    (chunk,) = {loop.chunk for loop in report.loops if not loop.depth}
    for part in ("matvec", "2.00 MB", "test_report_html.py:", f"{chunk:,}", "exp"):
        assert part in text
    assert all(step.move in text for step in report.steps)
    assert all(one.identity in text for one in report.rewrites if one.rewrites != "cleanup")
    assert page.count("</script>") == 1  # names of the user cannot end a script


def test_a_step_names_what_is_alive(report: MemoryReport) -> None:
    peak = max(report.timeline_before, key=lambda point: point.bytes)
    assert peak.alive[0].bytes == 2000 * 2000 * 8
    assert "f64[2000, 2000]" in peak.alive[0].what
    assert all(sum(one.bytes for one in p.alive) <= p.bytes + 8192 for p in report.timeline)


def test_a_closed_loop_is_one_node(report: MemoryReport) -> None:
    closed = _closed(report)
    loops = [node for node in closed if node.loop is not None]
    assert len(loops) == len([loop for loop in report.loops if not loop.depth])
    assert len(closed) == len(loops) + len([n for n in report.graph if n.loop is None])
    assert any(node.output for node in closed)
    for at, node in enumerate(closed):
        assert all(k < at for k in node.inputs)
    assert loops[0].bytes == max(node.bytes for node in report.graph if node.loop is not None)


def test_notebooks_show_the_page_in_a_frame(report: MemoryReport) -> None:
    frame = report._repr_html_()
    assert frame.startswith("<iframe srcdoc=")
    assert html.unescape(re.search(r'srcdoc="(.*?)"', frame, re.DOTALL)[1]) == report.to_html()


def test_a_function_that_needs_nothing_has_a_page_too() -> None:
    report = tf_exla.explain(lambda: tf.constant(1.0), limit="1GB")
    assert "nothing had to be split" in report.to_html()


ACT = """
<script>
addEventListener("load", () => {
  const svg = document.querySelector("#timeline svg"), box = svg.getBoundingClientRect();
  const at = { clientX: box.left + box.width / 2, clientY: box.top + 80 };
  svg.dispatchEvent(new MouseEvent("mousemove", at));
  const graph = document.querySelector("[data-panel]:not([hidden]) svg");
  const before = graph.getAttribute("viewBox");
  graph.dispatchEvent(new WheelEvent("wheel", { deltaY: -200, clientX: 300, clientY: 300 }));
  const zoomed = graph.getAttribute("viewBox") !== before;
  document.querySelector("button[data-graph='0']").click();
  const shown = document.querySelector("[data-panel]:not([hidden])").dataset.panel;
  document.title = JSON.stringify([document.getElementById("tip").textContent, zoomed, shown]);
});
</script>
"""


@pytest.mark.skipif(BROWSER is None, reason="no chromium")
def test_in_a_browser(report: MemoryReport, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(report.to_html() + ACT, encoding="utf-8")
    done = subprocess.run(
        [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
         f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", path.as_uri()],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert "CONSOLE" not in done.stderr
    title = html.unescape(re.search(r"<title>(.*?)</title>", done.stdout, re.DOTALL)[1])
    assert re.search(r"original, \d+ of \d+\\n\w+ .*\d MB", title)
    assert title.endswith(',true,"0"]')


def test_a_large_graph_is_shown_by_name_scopes(report: MemoryReport) -> None:
    titles = re.findall(r'aria-pressed="(\w+)">([^<]+)</button>', report.to_html())
    assert titles[-1] == ("true", "plan")

    def chain(x: tf.Tensor) -> tf.Tensor:
        for k in range(40):
            with tf.name_scope(f"layer_{k // 10}"):
                x = tf.sin(x) * 1.5
        return x

    large = tf_exla.explain(chain, tf.TensorSpec([1000], tf.float64), limit="20MB")
    page = large.to_html()
    titles = re.findall(r'aria-pressed="(\w+)">([^<]+)</button>', page)
    assert titles[-1] == ("true", "plan by name scopes")
    assert re.search(r"layer_3 \(\d+\)", page)
