"""Run the tests on the supported versions: `pipx run nox --session tests-3.10-2.16`."""

from __future__ import annotations

import nox

WHOLE = (("3.10", "2.16"), ("3.11", "2.18"), ("3.12", "2.21"))
"""Python and TensorFlow. Between them, `PROMISE` tests only what depends on kernels."""
NUMPY_2 = ("3.12", "2.21")
"""Runs without GPflow, which excludes NumPy 2. Tests that need GPflow skip."""
PROMISE = (("3.11", "2.17"), ("3.11", "2.19"), ("3.11", "2.20"))
MEMORY = (
    "tests/frontends/test_kernel_memory.py",
    "tests/frontends/test_kernel_scratch.py",
    "tests/test_programs.py",
    "tests/test_random_programs.py",
)


def _install(session: nox.Session, tensorflow: str) -> None:
    minor = int(tensorflow.partition(".")[2])
    # JAX 0.6 and TensorFlow before 2.19 require different ml_dtypes. Without JAX its tests skip.
    extras = "experiments,fuzz" + (",jax" if minor >= 19 else "")
    # On import, each release of TensorFlow Probability requires the TensorFlow of its time.
    probability = "0.25.*" if minor >= 18 else "0.24.*"
    session.install(
        "-e", f".[{extras}]",
        f"tensorflow=={tensorflow}.*", f"tf_keras=={tensorflow}.*",
        f"tensorflow-probability=={probability}",
        "joblib", "pytest>=8", "pytest-xdist>=3.5",
        *(["jax<0.7"] if minor >= 19 else []),
    )  # fmt: skip


def _pytest(session: nox.Session, *paths: str) -> None:
    session.run("python", "-m", "pytest", "-n", "2", "--dist", "worksteal", *paths)


def _session(kind: str, python: str, tensorflow: str, paths: tuple[str, ...]) -> None:
    @nox.session(python=python, name=f"{kind}-{python}-{tensorflow}")
    def run(session: nox.Session) -> None:
        _install(session, tensorflow)
        _pytest(session, *(session.posargs or paths))


@nox.session(python=NUMPY_2[0], name=f"numpy2-{NUMPY_2[0]}-{NUMPY_2[1]}")
def numpy2(session: nox.Session) -> None:
    session.install(
        "-e", ".[fuzz,jax]", f"tensorflow=={NUMPY_2[1]}.*", "numpy>=2", "jax<0.7",
        "igraph", "joblib", "matplotlib", "pytest>=8", "pytest-xdist>=3.5",
    )  # fmt: skip
    _pytest(session, *session.posargs)


for _python, _tensorflow in WHOLE:
    _session("tests", _python, _tensorflow, ())
for _python, _tensorflow in PROMISE:
    # All of each table, of which other sessions run a sample.
    _session("promise", _python, _tensorflow, ("-m", "", *MEMORY))
