"""Optional packages: tests that need a missing one skip and say so."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

ALL_OF = {"in_jax": "jaxlib", "gp_experiments": "gpflow"}
"""Packages that all tests in a folder need. No folder may have the name of a package: `tests` is on
the path, and without JAX, Keras would import such a folder as JAX."""


def is_installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _needs(package: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not is_installed(package), reason=f"no {package}")


GPFLOW = _needs("gpflow")  # which needs NumPy 1
JAX = _needs("jaxlib")  # TensorFlow before 2.19 excludes JAX 0.6


class LeftOut(pytest.File):
    """A file of tests that is not imported: its folder needs a package that is missing."""

    def collect(self) -> Iterator[pytest.Item]:
        pytest.skip(f"no {missing(self.path)}", allow_module_level=True)


def missing(path: Path) -> str | None:
    """Return the package that the folder of a file needs, if it is not installed."""
    package = ALL_OF.get(path.parent.name)
    return package if package and not is_installed(package) else None
