"""The notation: texts bound to shapes."""

from __future__ import annotations

import pytest

from tf_exla.ir.axis_rule import Axis, AxisRuleError, bind


def letters(axes: tuple[Axis | None, ...] | None) -> str:
    if axes is None:
        return "_"
    return " ".join(
        "1" if a is None else a.label + (f"*{a.block}" if a.block > 1 else "") for a in axes
    )


@pytest.mark.parametrize(
    ("text", "operands", "results", "bound"),
    [
        ("i k, k j -> i j ; add k", [(2, 3), (3, 4)], [(2, 4)], "i k, k j -> i j"),
        ("i k, k j -> i j ; add k", [(2, 1), (1, 4)], [(2, 4)], "i 1, 1 j -> i j"),
        ("..., ... -> ...", [(5, 3), (3,)], [(5, 3)], "a b, b -> a b"),
        ("..., ... -> ...", [(5, 1), (1, 3)], [(5, 3)], "a 1, 1 b -> a b"),
        ("..., ... -> ...", [(), (4,)], [(4,)], ", a -> a"),
        ("... M M, ... M n -> ... M n", [(7, 2, 2), (7, 2, 9)], [(7, 2, 9)],
         "a M M, a M n -> a M n"),
        ("a b, _ -> a ; add b", [(4, 6), (1,)], [(4,)], "a b, _ -> a"),
        ("b N, = -> (b N)", [(4, 6), (1,)], [(24,)], "b N, _ -> b*6"),
        ("(b N), = -> b N", [(24,), (2,)], [(4, 6)], "b*6, _ -> b N"),
        ("b N, = -> (b N)", [(1, 6), (1,)], [(6,)], "1 N, _ -> N"),
        ("=, -> i j", [(2,), ()], [(3, 4)], "_,  -> i j"),
        (" -> N", [], [(5,)], " -> N"),
    ],
)  # fmt: skip
def test_bound(text: str, operands: list, results: list, bound: str) -> None:
    rule = bind(text, operands, results)
    left = ", ".join(letters(axes) for axes in rule.operands)
    assert f"{left} -> {', '.join(letters(axes) for axes in rule.results)}" == bound
    assert str(rule) == text


@pytest.mark.parametrize(
    ("text", "operands", "results", "says"),
    [
        ("i j", [(2, 3)], [(2, 3)], "no '->'"),
        ("i j -> i", [(2, 3)], [(2,)], "no combiner for the reduced 'j'"),
        ("i j -> i ; mean j", [(2, 3)], [(2,)], "unknown combiner 'mean'"),
        ("i i -> i", [(2, 3)], [(2,)], "'i' is 2 and 3"),
        ("i -> i", [(2, 3)], [(2, 3)], "does not fit the shape (2, 3)"),
        ("i -> i", [(None,)], [(None,)], "unknown shape"),
        ("i, j -> i", [(2,)], [(2,)], "2 operands and 1 results, the op 1 and 1"),
        ("i $ -> i", [(2, 3)], [(2,)], "cannot read 'i $'"),
        ("... i ... -> i", [(2, 3)], [(2,)], "more than one '...'"),
    ],
)
def test_refused(text: str, operands: list, results: list, says: str) -> None:
    with pytest.raises(AxisRuleError) as error:
        bind(text, operands, results)
    assert says in str(error.value)


def test_axes_of_a_label() -> None:
    rule = bind("i k, k J -> i J ; add k", [(2, 3), (3, 4)], [(2, 4)])
    assert rule.operand_axis(1, "k") == (0, Axis("k"))
    assert rule.operand_axis(1, "i") is None
    assert rule.result_axis(0, "k") is None
    assert rule.labels() == ("i", "k")
    assert rule.combine == {"k": "add"}
    assert not Axis("J").splittable
