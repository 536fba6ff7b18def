"""Run code in a fresh Python process: memory can only be measured where nothing ran before."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

_MARK = "<<result>>"
_TESTS = Path(__file__).resolve().parent


def run_fresh(
    code: str | Callable[..., Any],
    *args: Any,
    env: dict[str, str] | None = None,
    timeout: float = 300,
) -> Any:
    """Run `code` in a fresh process and return its result, sent as JSON.

    `code` is either a snippet that calls `send(value)` once, or a function at the top of a file,
    which is called with `args` and whose return value is sent. The process has TensorFlow's oneDNN
    pool switched off (TF_ENABLE_ONEDNN_OPTS=0) and no GPU, and `env` on top of that.

    Raises RuntimeError with the process's output when it fails or sends nothing.
    """
    if callable(code):
        path = inspect.getfile(code)
        code = f"""
            import importlib.util, json, sys
            spec = importlib.util.spec_from_file_location("fresh_module", {path!r})
            module = importlib.util.module_from_spec(spec)
            sys.modules["fresh_module"] = module
            spec.loader.exec_module(module)
            send(module.{code.__qualname__}(*json.loads({json.dumps(args)!r})))
        """
    prelude = f"import json\ndef send(value): print({_MARK!r} + json.dumps(value), flush=True)\n"
    environment = {
        **os.environ,
        "TF_ENABLE_ONEDNN_OPTS": "0",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        # Every freed block of a tensor's size goes back to the system at once, from the start.
        "MALLOC_MMAP_THRESHOLD_": "16384",
        "MALLOC_TRIM_THRESHOLD_": "16384",
        "CUDA_VISIBLE_DEVICES": "-1",
        "PYTHONPATH": os.pathsep.join(
            [str(_TESTS.parent), str(_TESTS), os.environ.get("PYTHONPATH", "")]
        ),
        **(env or {}),
    }
    done = subprocess.run(
        [sys.executable, "-c", prelude + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=timeout,
        check=False,
    )
    results = [line for line in done.stdout.splitlines() if line.startswith(_MARK)]
    if done.returncode or len(results) != 1:
        raise RuntimeError(
            f"the fresh process ended with {done.returncode} and {len(results)} results:\n"
            f"{done.stdout}\n{done.stderr}"
        )
    return json.loads(results[0].removeprefix(_MARK))
