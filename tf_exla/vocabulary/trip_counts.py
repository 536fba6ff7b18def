"""Upper bounds of a While's iterations, which bound the memory that a loop keeps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tf_exla.ir.control_flow import body_of, cond_of
from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.ir.static_integers import static_integer
from tf_exla.ir.traverse import producers


def exact_iterations(node: Node) -> int | None:
    """Return the number of a While's iterations; None unless known counters alone decide it."""
    return iterations(node, {}, exact=True)


def iterations(node: Node, bounds: Mapping[Tensor, int], exact: bool = False) -> int | None:
    """Return an upper bound of a While's iterations, from a counter that its condition compares.

    `bounds`: upper bounds of tensors, such as the number of iterations that another loop counted.
    `exact`: None if something else than counters may end the loop.
    """
    cond, body = cond_of(node), body_of(node)
    made, stepped = producers(cond), producers(body)

    def bound(test: Tensor) -> int | None:
        maker = made.get(test)
        if maker is None:
            return None
        if maker.op == "identity" or (not exact and _is_false_without_predicate(maker, test)):
            return bound(maker.inputs[0])
        if maker.op == "logical_and":
            return _least(map(bound, maker.inputs), exact)
        if maker.op not in _COMPARISONS:
            return None
        left, right = maker.inputs
        if maker.op.startswith("greater"):
            left, right = right, left
        return count(left, right, maker.op.endswith("equal"))

    def count(counter: Tensor, limit: Tensor, inclusive: bool) -> int | None:
        """Count the steps of a rising counter below a limit, or of a limit that falls to it."""
        low, high = progress(counter, {}), progress(limit, bounds)
        if low is None or high is None:
            return None
        closer = low[1] - high[1]
        gap = high[0] - low[0] + (1 if inclusive else 0)
        return max(0, -(-gap // closer)) if closer > 0 else None

    def progress(tensor: Tensor, most: Mapping[Tensor, int]) -> tuple[int, int] | None:
        """Return the first value of a number in the condition, and its change per iteration."""
        if (known := static_integer(tensor)) is not None:
            return known, 0
        if tensor not in cond.inputs:
            return combined(made.get(tensor), most)
        k = cond.inputs.index(tensor)
        first = static_integer(node.inputs[k])
        if first is None:
            first = most.get(node.inputs[k])
        step = step_of(body, stepped, k)
        return None if first is None or step is None else (first, step)

    def combined(maker: Node | None, most: Mapping[Tensor, int]) -> tuple[int, int] | None:
        """Return the same for a sum or a difference; the subtrahend must be known."""
        if maker is None or maker.op not in ("add", "identity", "subtract"):
            return None
        if maker.op == "identity":
            return progress(maker.inputs[0], most)
        sign = -1 if maker.op == "subtract" else 1
        left, right = maker.inputs
        one, two = progress(left, most), progress(right, {} if sign < 0 else most)
        if one is None or two is None:
            return None
        return one[0] + sign * two[0], one[1] + sign * two[1]

    return bound(cond.outputs[0])


def _least(counts: Iterable[int | None], exact: bool) -> int | None:
    """Return the least of the known numbers; None if none is, or if `exact` and not all are."""
    numbers = list(counts)
    found = [one for one in numbers if one is not None]
    return None if exact and len(found) < len(numbers) else min(found, default=None)


def _is_false_without_predicate(choice: Node, test: Tensor) -> bool:
    """Return whether a result of a choice is false if its predicate is, as in `a and b`.

    The other branch returns false, or the predicate itself.
    """
    other = choice.attrs.get("else_branch")
    if choice.op != "cond" or not isinstance(other, Graph):
        return False
    result = other.outputs[choice.outputs.index(test)]
    if result in other.inputs:
        return choice.inputs[1 + other.inputs.index(result)] is choice.inputs[0]
    return result.value is not None and not result.value.any()


def counted(node: Node, times: int) -> dict[Tensor, tuple[int, int]]:
    """Return the least and the largest that a While's counters may be in `times` iterations."""
    body = body_of(node)
    stepped = producers(body)
    found = {}
    for k, tensor in enumerate(node.outputs):
        first, step = static_integer(node.inputs[k]), step_of(body, stepped, k)
        if first is not None and step is not None:
            found[tensor] = first + times * min(step, 0), first + times * max(step, 0)
    return found


def step_of(body: Graph, made: Mapping[Tensor, Node], k: int) -> int | None:
    """Return the change of variable `k` per iteration; None if it is not constant."""

    def plain(tensor: Tensor) -> Tensor:
        while tensor in made and made[tensor].op == "identity":
            tensor = made[tensor].inputs[0]
        return tensor

    before, after = body.inputs[k], plain(body.outputs[k])
    if after is before:
        return 0
    maker = made.get(after)
    if maker is None or maker.op not in ("add", "subtract"):
        return None
    left, right = map(plain, maker.inputs)
    if right is before and maker.op != "subtract":
        left, right = right, left
    step = static_integer(right)
    if left is not before or step is None:
        return None
    return -step if maker.op == "subtract" else step


_COMPARISONS = frozenset({"greater", "greater_equal", "less", "less_equal"})
