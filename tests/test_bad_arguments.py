"""Invalid arguments are quoted at once, and the right word is suggested."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import tf_exla


def double(x: tf.Tensor, scale: float = 2.0) -> tf.Tensor:
    return scale * x


def scipy(*args: Any, **options: Any) -> Any:
    """Make an optimizer of GPflow with a limit."""
    pytest.importorskip("gpflow")
    from tf_exla.gpflow import Scipy

    return Scipy(*args, **options)


CALLS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "a limit as function": (
        lambda: tf_exla.optimize("1GB"),  # type: ignore[call-overload]
        TypeError,
        "the first argument is the function, not '1GB'; write limit='1GB'",
    ),
    "a limit as function to explain": (
        lambda: tf_exla.explain("1GB"),  # type: ignore[arg-type]
        TypeError,
        "the first argument is the function, not '1GB'",
    ),
    "a misspelt limit": (
        lambda: tf_exla.explain(double, 1.0, limt="1GB"),
        TypeError,
        "double takes no argument 'limt'; did you mean 'limit'?",
    ),
    "a misspelt argument of the function": (
        lambda: tf_exla.explain(double, 1.0, scle=3.0),
        TypeError,
        "did you mean 'scale'?",
    ),
    "jit_compile": (
        lambda: tf_exla.optimize(double, "1GB", jit_compile="yes"),  # type: ignore[call-overload]
        TypeError,
        "jit_compile must be True, False or None, got 'yes'",
    ),
    "strict": (
        lambda: tf_exla.optimize(double, "1GB", strict="no"),  # type: ignore[call-overload]
        TypeError,
        "strict must be True or False, got 'no'",
    ),
    "a family, in GPflow's optimizer": (
        lambda: scipy("1GB", rewrites={"chain": False}),
        ValueError,
        "rewrites has no 'chain'",
    ),
    "a limit, in GPflow's optimizer": (lambda: scipy("1XB"), ValueError, "1XB"),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(name: str) -> None:
    call, error, message = CALLS[name]
    with pytest.raises(error) as found:
        call()
    assert message in str(found.value)


def test_a_function_may_take_any_names() -> None:
    def any_names(x: tf.Tensor, **kwargs: Any) -> tf.Tensor:
        return x + kwargs["limt"]

    assert tf_exla.explain(any_names, tf.ones(3), limt=tf.ones(3)).limit


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("TF_EXLA_LIMIT", "1XB", "TF_EXLA_LIMIT='1XB' is not a size"),
        ("TF_EXLA_FLAGS", "--tensor_splt_size=1MB", "did you mean '--tensor_split_size'?"),
        ("TF_EXLA_FLAGS", "--tensor_split_size=1XB", "--tensor_split_size of TF_EXLA_FLAGS='1XB'"),
    ],
)
def test_environment(name: str, value: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match="TF_EXLA") as found:
        tf_exla.optimize(double)
    assert message in str(found.value)


@pytest.mark.parametrize("value", ["64000000", "64M", "64 MB"])
def test_sizes_of_the_environment(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_EXLA_LIMIT", value)
    assert tf_exla.explain(double, 1.0).limit == 64_000_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--limt", "1GB", "x.py"], "Did you mean '--limit'?"),
        (["--limit", "1XB", "x.py"], "--limit='1XB' is not a size"),
        (["--limit", "12", "no-such-file.py"], "there is no file"),
        (["--limit", "1G", "no-such-file.py"], "there is no file"),
    ],
)
def test_command_line(arguments: list[str], message: str) -> None:
    root = Path(__file__).resolve().parent.parent
    command = [sys.executable, "-m", "tf_exla", "run", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, check=False)
    assert done.returncode == 2
    assert message in done.stderr
