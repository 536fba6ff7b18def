"""Call a function in a process of its own, where memory and time can be measured."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

# With oneDNN, TensorFlow's CPU allocator is a pool that only grows.
QUICK = {"TF_ENABLE_ONEDNN_OPTS": "0", "TF_CPP_MIN_LOG_LEVEL": "3"}
# By itself glibc keeps freed blocks of less than 32 MB, which is quick, but then the resident set
# is more than what is needed. A block from this size on is a mapping, which ends when it is freed.
FRUGAL = {**QUICK, "MALLOC_MMAP_THRESHOLD_": "65536"}


def call_fresh(
    function: Callable[..., Any], *, environment: dict[str, str], **arguments: Any
) -> Any:
    """Return `function(**arguments)`, called in a fresh process; both travel as JSON.

    `environment` is `FRUGAL` to measure memory, `QUICK` to measure time. Raises RuntimeError with
    the messages of a process that fails.
    """
    call = json.dumps([function.__module__, function.__name__, arguments])
    done = subprocess.run(
        [sys.executable, "-m", __name__, call],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{function.__name__} failed in a fresh process:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def main(call: str) -> None:
    """Do in the fresh process what `call_fresh` asks for."""
    module, name, arguments = json.loads(call)
    print(json.dumps(getattr(importlib.import_module(module), name)(**arguments)))


if __name__ == "__main__":
    main(sys.argv[1])
