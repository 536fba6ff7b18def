"""Check the statements of docs/coverage.md, store the results, and write the page.

python tests/make_coverage.py ops [op ...]      check the ops with an axis rule, all or some
python tests/make_coverage.py gpflow [name ...] check GPflow's models and likelihoods
python tests/make_coverage.py fuzz              list the ops that the fuzzer's rows draw
python tests/make_coverage.py                   write the page only
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[k]) for k in (0, 1)]
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

Rows = list[dict[str, Any]]


def make(path: Path, key: str, names: Sequence[str], all_names: Sequence[str], size: int,
         measure: Callable[[list[str]], Rows]) -> None:  # fmt: skip
    """Measure in fresh processes, `size` names at a time, and write rows after each process."""
    from fresh_process import run_fresh

    rows: Rows = json.loads(path.read_text()) if path.exists() else []
    todo = list(names or all_names)
    if not names:
        rows = []
    for start in range(0, len(todo), size):
        part = todo[start : start + size]
        rows = [one for one in rows if one[key] not in part and one[key] in all_names]
        rows += run_fresh(measure, part, timeout=1200)
        order = {name: k for k, name in enumerate(all_names)}
        rows.sort(key=lambda one: order[one[key]])
        lines = ",\n".join(json.dumps(one) for one in rows)
        path.write_text(f"[\n{lines}\n]\n")
        print(f"{path.name}: {start + len(part)} of {len(todo)}", flush=True)


def main(arguments: list[str]) -> None:
    from covered import fuzzed, gpflow_cases, gpflow_check, op_check, page
    from fresh_process import run_fresh

    what, names = arguments[:1], arguments[1:]
    if what == ["ops"]:
        make(op_check.DATA, "op", names, op_check.covered(), 8, op_check.check_ops)
    elif what == ["gpflow"]:
        cases = list(gpflow_cases.names())
        make(gpflow_check.DATA, "name", names, cases, 1, gpflow_check.check)
    elif what == ["fuzz"]:
        drawn = run_fresh(fuzzed.drawn_ops, op_check.covered(), timeout=1200)
        fuzzed.DATA.write_text(json.dumps(drawn, indent=0) + "\n")
    page.PAGE.write_text(page.render())


if __name__ == "__main__":
    main(sys.argv[1:])
