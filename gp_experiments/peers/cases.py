"""The table of cases: what is computed, at what size, within what limit, and what to reach.

A case is data alone, so that it can be sent to a process. `work` names the computation; what its
arguments and results are is in `data.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Case:
    """One line of the table.

    `sizes`: the lengths that `work` asks for. `limit`: what tf_exla gets, as a string of bytes.
    `target`: times over a contender, as {"stock": 4.0}; tf_exla is to be that many times faster at
    these sizes.
    `quick` and `quick_limit`: a small version, which takes seconds.
    """

    name: str
    work: str
    sizes: Mapping[str, int]
    limit: str
    quick: Mapping[str, int]
    quick_limit: str
    dtype: str = "float64"
    metric: str = ""
    target: Mapping[str, float] = field(default_factory=dict)

    def small(self) -> Case:
        """Return the quick version; targets are of full size, so that it has none."""
        return replace(self, sizes=self.quick, limit=self.quick_limit, target={})


_SMALL_KERNEL = {"n": 2_000, "d": 3}
_SMALL_KNN = {"n": 20_000, "d": 10, "queries": 100, "k": 10}
_SMALL_ATTENTION = {"batch": 1, "heads": 2, "length": 512, "d": 64}
_ATTENTION = {"batch": 2, "heads": 8, "length": 4096, "d": 64}

CASES = (
    Case(
        "matvec-f64", "matvec", {"n": 20_000, "d": 3}, "200MB", _SMALL_KERNEL, "10MB",
        target={"stock": 4.0, "keops": 3.5, "numpy": 2.5},
    ),
    Case(
        "matvec-f32", "matvec", {"n": 20_000, "d": 3}, "200MB", _SMALL_KERNEL, "10MB",
        dtype="float32", target={"keops": 8.0, "numpy": 1.8},
    ),
    Case(
        "matvec-60k-f64", "matvec", {"n": 60_000, "d": 10}, "200MB", {"n": 3_000, "d": 10}, "10MB",
        target={"numpy": 1.5},
    ),
    Case(
        "matvec-60k-f32", "matvec", {"n": 60_000, "d": 10}, "200MB", {"n": 3_000, "d": 10}, "10MB",
        dtype="float32", target={"numpy": 1.5},
    ),
    Case(
        "quadratic", "quadratic", {"n": 12_000, "d": 3}, "200MB", _SMALL_KERNEL, "20MB",
        target={"stock": 3.0, "numpy": 1.0},
    ),
    Case(
        "sgpr-200k", "sgpr", {"n": 200_000, "m": 500, "d": 3}, "600MB",
        {"n": 5_000, "m": 50, "d": 3}, "5MB", target={"stock": 1.9, "xla": 1.7},
    ),
    Case(
        "sgpr-50k", "sgpr", {"n": 50_000, "m": 200, "d": 3}, "60MB",
        {"n": 5_000, "m": 50, "d": 3}, "5MB", target={"stock": 1.5, "xla": 1.3},
    ),
    Case(
        "knn-l2", "knn", {"n": 200_000, "d": 10, "queries": 1_000, "k": 10}, "100MB",
        _SMALL_KNN, "10MB", dtype="float32", metric="l2", target={"faiss": 1.0},
    ),
    Case(
        "knn-l2-784", "knn", {"n": 60_000, "d": 784, "queries": 1_000, "k": 10}, "250MB",
        {**_SMALL_KNN, "n": 5_000, "d": 784}, "25MB", dtype="float32", metric="l2",
        target={"xla": 1.0},
    ),
    Case(
        "knn-l1", "knn", {"n": 200_000, "d": 10, "queries": 1_000, "k": 10}, "100MB",
        _SMALL_KNN, "10MB", dtype="float32", metric="l1", target={"faiss": 1.0},
    ),
    Case(
        "knn-cosine", "knn", {"n": 200_000, "d": 50, "queries": 1_000, "k": 10}, "150MB",
        {**_SMALL_KNN, "d": 50}, "15MB", dtype="float32", metric="cosine", target={"xla": 1.0},
    ),
    Case(
        "attention", "attention", _ATTENTION, "110MB", _SMALL_ATTENTION, "5MB", dtype="float32",
        target={"stock": 1.2},
    ),
    Case(
        "attention-gradients", "attention-gradients", _ATTENTION, "220MB", _SMALL_ATTENTION, "8MB",
        dtype="float32", target={"stock": 1.2},
    ),
)  # fmt: skip
