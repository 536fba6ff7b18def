"""A fresh process has imported TensorFlow and tf_exla, and has run nothing."""

import pytest
from fresh_process import run_fresh
from needs import is_installed


def test_tensorflow_is_there_and_has_not_started() -> None:
    code = """
        import os
        import sys
        loaded = [name in sys.modules for name in ("tensorflow", "tensorflow_probability", "tf_exla")]
        from tensorflow.python.eager import context
        threads = len(os.listdir("/proc/self/task"))
        send([*loaded, context.context_safe() is None, threads, os.environ["TF_ENABLE_ONEDNN_OPTS"]])
    """  # noqa: E501
    probability = is_installed("tensorflow_probability")
    assert run_fresh(code) == [True, probability, True, True, 1, "0"]


def test_settings_are_read_by_a_process_that_starts_with_them() -> None:
    code = """
        import os, sys
        send([os.environ["TF_ENABLE_ONEDNN_OPTS"], "tensorflow" in sys.modules])
    """
    assert run_fresh(code, env={"TF_ENABLE_ONEDNN_OPTS": "1"}) == ["1", False]


@pytest.mark.parametrize(
    ("code", "timeout", "message"),
    [
        ("print('so far')\n1 / 0", 60, "ended with 1:\nso far\n(.|\n)*ZeroDivisionError"),
        ("import os\nos.kill(os.getpid(), 9)", 60, "ended with -9"),
        ("import time\ntime.sleep(600)", 1, "ended with -9"),
        ("pass", 60, "ended with 0"),
        ("send(1)\nsend(2)", 60, "FileExistsError"),
    ],
)
def test_failures_are_told_with_the_output(code: str, timeout: float, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        run_fresh(code, timeout=timeout)
