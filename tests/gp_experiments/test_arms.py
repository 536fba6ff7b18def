import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gp_experiments.arms import SPEED_ENVIRONMENT, Outcome, run_in_process

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", ":".join([str(HERE), *filter(None, sys.path)]))


def run(name: str, arguments: dict[str, Any] | None = None, **options: Any) -> Outcome:
    return run_in_process(f"arm_functions:{name}", arguments or {}, **options)


def test_result_steps_and_progress_come_back() -> None:
    heard: list[tuple[float, float, str]] = []
    outcome = run("add", {"a": 1, "b": 2}, on_progress=lambda *args: heard.append(args))
    assert outcome.status == "done", outcome.error
    assert outcome.result == {"sum": 3, "pool": "0"}
    assert outcome.steps == [{"i": 0, "loss": 3.5}]
    assert heard == [(1, 2, "half")]
    assert run("add", {"a": 1, "b": 2}, environment=SPEED_ENVIRONMENT).result["pool"] == "1"


@pytest.mark.parametrize("cap", ["address-space", "resident"])
def test_a_cap_ends_what_exceeds_it_and_keeps_the_steps(cap: Any) -> None:
    sizes = [20_000_000, 60_000_000, 200_000_000, 20_000_000]
    outcome = run("allocate", {"limit": 100_000_000, "sizes": sizes}, cap=cap)
    assert outcome.status == "oom"
    assert [step["size"] for step in outcome.steps] == sizes[:2]
    assert outcome.baseline is not None
    assert outcome.result == {"limit": 100_000_000}
    assert run("allocate", {"limit": 300_000_000, "sizes": sizes}, cap=cap).status == "done"
    assert run("allocate", {"limit": 100_000_000, "sizes": sizes}).status == "done"


def test_a_cap_can_be_lifted_for_a_while() -> None:
    outcome = run("allocate_freely", cap="address-space")
    assert outcome.status == "oom"
    assert outcome.steps == []


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ({"signal": "SIGKILL"}, "killed"),
        ({"signal": "SIGSEGV"}, "failed"),
        ({"signal": "SIGSEGV", "capped": True}, "oom"),
    ],
)
def test_a_process_that_dies(arguments: dict[str, Any], status: str) -> None:
    outcome = run("crash", arguments, cap="address-space")
    assert outcome.status == status
    assert arguments["signal"] in outcome.error
    assert outcome.steps == [{"before": True}]


def test_timeout() -> None:
    start = time.perf_counter()
    outcome = run("sleep", timeout=8)
    assert outcome.status == "timeout"
    assert outcome.steps == [{"before": True}]
    assert time.perf_counter() - start < 30


def test_errors_are_told_apart() -> None:
    refused = run("refuse")
    assert refused.status == "refused"
    assert "Smallest limit that works" in refused.error
    failed = run("mistake", {"x": 1})
    assert failed.status == "failed"
    assert "ValueError: no such thing: {'x': 1}" in failed.error
    assert "in mistake" in failed.error
