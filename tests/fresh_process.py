"""Run code in a fresh Python process: memory can only be measured where nothing ran before."""

from __future__ import annotations

import importlib.util
import inspect
import json
import multiprocessing
import os
import sys
import tempfile
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

_TESTS = Path(__file__).resolve().parent
ENVIRONMENT = {
    "TF_ENABLE_ONEDNN_OPTS": "0",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    # Every freed block of a tensor's size goes back to the system at once, from the start.
    "MALLOC_MMAP_THRESHOLD_": "16384",
    "MALLOC_TRIM_THRESHOLD_": "16384",
    "CUDA_VISIBLE_DEVICES": "-1",
}
multiprocessing.get_context("forkserver").set_forkserver_preload(["fresh_imports"])


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

    The process is forked from one that has only run `fresh_imports.py`, so that the imports take
    their time once. With `env` it is a new process, since TensorFlow and malloc read their settings
    when they start.

    Raises RuntimeError with the process's output if it fails or sends nothing.
    """
    if callable(code):
        path, name, sent = inspect.getfile(code), code.__qualname__, json.dumps(args)
    else:
        path, name, sent = "", textwrap.dedent(code), "[]"
    with tempfile.TemporaryDirectory() as folder:
        context = multiprocessing.get_context("spawn" if env else "forkserver")
        process = context.Process(target=_run, args=(folder, path, name, sent))
        paths = [str(_TESTS.parent), str(_TESTS), os.environ.get("PYTHONPATH", "")]
        environment = {**ENVIRONMENT, "PYTHONPATH": os.pathsep.join(paths), **(env or {})}
        # The first forked process starts the server, with this environment.
        with mock.patch.dict(os.environ, environment):
            process.start()
        process.join(timeout)
        if process.is_alive():
            process.kill()
            process.join()
        output, result = Path(folder, "output"), Path(folder, "result")
        if process.exitcode or not result.exists():
            said = output.read_text() if output.exists() else ""
            raise RuntimeError(f"the fresh process ended with {process.exitcode}:\n{said}")
        return json.loads(result.read_text())


def _run(folder: str, path: str, code: str, args: str) -> None:
    """Run a function of a file, or a snippet if `path` is empty; write the value it sends."""
    output = os.open(Path(folder, "output"), os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)

    def send(value: Any) -> None:
        with Path(folder, "result").open("x") as file:  # once
            json.dump(value, file)

    if not path:
        exec(compile(code, "<fresh process>", "exec"), {"send": send, "__name__": "fresh"})
        return
    spec = importlib.util.spec_from_file_location("fresh_module", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fresh_module"] = module
    spec.loader.exec_module(module)
    send(getattr(module, code)(*json.loads(args)))
