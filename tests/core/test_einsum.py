"""Einsums that are products in disguise, and those that stay."""

from __future__ import annotations

from typing import Any

import pytest

from core.rewritten import check_numbers, only, random

CLEANUP = only("cleanup")
SIZES = {"b": 3, "c": 2, "i": 7, "j": 5, "k": 6, "l": 4}


def arguments(equation: str, dots: tuple[int, ...] = (2, 3)) -> list[Any]:
    sizes = {**{letter: (size,) for letter, size in SIZES.items()}, ".": dots}
    terms = equation.split("->")[0].replace("...", ".").split(",")
    shapes = [[size for part in term for size in sizes[part]] for term in terms]
    return [random(*shape, seed=i) for i, shape in enumerate(shapes)]


@pytest.mark.parametrize(
    ("equation", "op"),
    [
        ("ij,jk->ik", "matmul"),
        ("ij,kj->ik", "matmul"),
        ("ji,jk->ik", "matmul"),
        ("ji,kj->ik", "matmul"),
        ("ij,jk->ki", "matmul"),
        ("ij,j->i", "matmul"),
        ("j,ji->i", "matmul"),
        ("i,j->ij", "matmul"),
        ("i,j->ji", "matmul"),
        ("i,i->", "matmul"),
        ("bij,bjk->bik", "batch_matmul"),
        ("bij,bkj->bki", "batch_matmul"),
        ("bcij,bckj->bcik", "batch_matmul"),
        ("bij,jk->bik", "batch_matmul"),
        ("bij,j->bi", "batch_matmul"),
        ("ij,bj->bi", "matmul"),
        ("jk,bij->bik", "batch_matmul"),
        ("cij,bcjk->bcik", "batch_matmul"),
        ("bij,bcjk->bcik", "batch_matmul"),
        ("...ij,...jk->...ik", "batch_matmul"),
        ("...ij,jk->...ik", "batch_matmul"),
        ("...i,ij->...j", "batch_matmul"),
        ("ij,ij->ij", "multiply"),
        ("i,ij->ij", "multiply"),
        ("bi,bj->bij", "multiply"),
        ("ij->i", "sum"),
        ("ij->", "sum"),
        ("ij->ji", "permute_dims"),
        ("bij->jb", "permute_dims"),
        ("...i->...", "sum"),
    ],
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_einsum(equation: str, op: str, dtype: str) -> None:
    args = [each.astype(dtype) for each in arguments(equation)]
    outcome = check_numbers(lambda xp, *args: xp.einsum(equation, *args), *args, families=CLEANUP)
    assert outcome.ops.count(op) == 1
    assert "einsum" not in outcome.ops


@pytest.mark.parametrize(
    ("equation", "reason"),
    [
        ("ij,ij->", "2 axes at once"),
        ("bij,bij->i", "2 axes at once"),
        ("ij,jk->i", "of its own"),
        ("bi,bi->b", "inner products"),
        ("bilj,bklj->blik", "interleave|2 axes"),
        ("ibj,bjk->bik", "interleave"),
        ("ij,bkj->bik", "interleave|order|batch_matmul"),
        ("ii->i", "diagonal"),
        ("ij,i->ji", "another order"),
    ],
)
def test_einsum_stays(equation: str, reason: str) -> None:
    outcome = check_numbers(
        lambda xp, *args: xp.einsum(equation, *args), *arguments(equation), families=CLEANUP
    )
    if "einsum" in outcome.ops:
        assert any(each in outcome.reasons for each in reason.split("|"))
    else:
        assert any(each in outcome.ops for each in reason.split("|"))


def test_broadcast_axes_stay() -> None:
    outcome = check_numbers(
        lambda xp, x, y: xp.einsum("...ij,...jk->...ik", x, y),
        random(1, 3, 4, 5),
        random(2, 3, 5, 6),
        families=CLEANUP,
    )
    assert "is broadcast" in outcome.reasons


@pytest.mark.parametrize("dtype", ["float16", "complex128", "int32"])
def test_other_dtypes_stay(dtype: str) -> None:
    args = [(3 * each).astype(dtype) for each in arguments("ij,jk->ik")]
    outcome = check_numbers(lambda xp, x, y: xp.einsum("ij,jk->ik", x, y), *args, families=CLEANUP)
    assert "einsum" in outcome.ops


def test_einsums_are_elements_of_chains() -> None:
    def fn(xp: Any, a: Any, b: Any, c: Any) -> Any:
        return xp.einsum("ij,j->i", xp.einsum("ij,kj->ik", a, b), c)

    outcome = check_numbers(fn, random(200, 3), random(150, 3), random(150))
    assert "matrix-chain" in outcome.names
    assert outcome.largest <= 200 * 3
