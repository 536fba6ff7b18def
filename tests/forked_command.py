"""`python -m tf_exla` in a forked process, whose parent has done the imports that take seconds.

Where the start or the end of a process is what is tested, or its children's, start a new one.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from fresh_process import run_fresh


def forked_command(
    *arguments: str, cwd: Path | str = ".", env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command line in a folder, with further variables of the environment."""
    with tempfile.TemporaryDirectory() as folder:
        files = [str(Path(folder, name)) for name in ("stdout", "stderr")]
        status = run_fresh(_command, arguments, str(cwd), env or {}, files)
        return subprocess.CompletedProcess(
            arguments, status, *(Path(file).read_text() for file in files)
        )


def _command(arguments: list[str], cwd: str, env: dict[str, str], files: list[str]) -> Any:
    import atexit
    import sys

    from tf_exla.__main__ import main

    os.environ.update(env)
    os.chdir(cwd)
    for number, file in enumerate(files, 1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), number)
    try:
        main(arguments, prog_name="tf_exla")
    except SystemExit as end:
        atexit._run_exitfuncs()  # which `multiprocessing` leaves out
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        return end.code or 0
    raise AssertionError("a command ends the process")
