"""The table of contenders: what each is, where its programs are, and what it needs."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from types import MappingProxyType

from gp_experiments.peers.program import Build

TENSORFLOW = MappingProxyType({"TF_ENABLE_ONEDNN_OPTS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"})
"""TensorFlow's default settings; this command line switches oneDNN off for other commands."""


@dataclass(frozen=True)
class Contender:
    """`builds`: the table of its programs as module:name. `packages`: distributions it needs.

    `works`: what it can compute; all of them where empty. `streams`: what it computes without
    holding everything at once, whatever the size. `environment`: of its process.
    """

    name: str
    builds: str
    packages: tuple[str, ...]
    works: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def supports(self, work: str) -> bool:
        """Tell whether there is a program for this work."""
        return not self.works or work in self.works

    def holds_all(self, work: str) -> bool:
        """Tell whether memory grows as that of the stock program."""
        return work not in self.streams

    def missing(self) -> list[str]:
        """Return the distributions that are not installed."""
        return [name for name in self.packages if _version(name) is None]

    def versions(self) -> dict[str, str | None]:
        """Return the versions of what it needs."""
        return {name: _version(name) for name in self.packages}

    def build(self, work: str) -> Build:
        """Import the contender; return what builds its program for this work."""
        module, _, table = self.builds.partition(":")
        builds: Mapping[str, Build] = getattr(
            importlib.import_module(f"gp_experiments.peers.{module}"), table
        )
        return builds[work]


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


_KERNELS = ("matvec", "quadratic")
_ATTENTION = ("attention", "attention-gradients")
_ALL = (*_KERNELS, "sgpr", "knn", *_ATTENTION)

CONTENDERS = (
    Contender(
        "tf_exla", "with_tensorflow:TF_EXLA", ("tensorflow",), streams=_ALL, environment=TENSORFLOW
    ),
    Contender("stock", "with_tensorflow:STOCK", ("tensorflow",), environment=TENSORFLOW),
    Contender("xla", "with_tensorflow:XLA", ("tensorflow",), environment=TENSORFLOW),
    Contender(
        "numpy",
        "with_numpy:WORKS",
        ("numpy",),
        streams=_ALL,
        environment={"OPENBLAS_NUM_THREADS": "1"},
    ),
    Contender(
        "keops",
        "with_keops:WORKS",
        ("pykeops", "torch"),
        (*_KERNELS, "knn"),
        streams=_ALL,
        environment={"CXXFLAGS": "-march=native"},
    ),
    Contender("faiss", "with_faiss:WORKS", ("faiss-cpu",), ("knn",), streams=_ALL),
    Contender("sklearn", "with_sklearn:WORKS", ("scikit-learn",), ("knn",), streams=_ALL),
    Contender("jax", "with_jax:WORKS", ("jax",), streams=("matvec",)),
    Contender(
        "torch",
        "with_torch:WORKS",
        ("torch",),
        (*_KERNELS, "knn", *_ATTENTION),
        streams=("matvec", *_ATTENTION),
    ),
    Contender("gpytorch", "with_gpytorch:WORKS", ("gpytorch",), ("sgpr",)),
)
FORCED = (
    Contender(
        "tf_exla jit", "with_tensorflow:TF_EXLA_JIT", ("tensorflow",), streams=_ALL,
        environment=TENSORFLOW,
    ),
    Contender(
        "tf_exla no jit", "with_tensorflow:TF_EXLA_PLAIN", ("tensorflow",), streams=_ALL,
        environment=TENSORFLOW,
    ),
)  # fmt: skip
"""tf_exla with `jit_compile` forced: measured on demand."""

NAMED = {contender.name: contender for contender in (*CONTENDERS, *FORCED)}
