"""Rows of the op table as data."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from tf_exla.fuzz.values import FLOATS, INTEGERS, Draw, Pool, Shape, Step, broadcast, count

Row = Callable[[Draw, Pool], Step | None]
Result = Callable[[Shape, int], Shape | None]


# Many parameters: the columns of a table, whose rows name the few that they need.
def row(
    code: str,
    dtypes: tuple[str, ...] = FLOATS,
    result: Result | None = None,
    *,
    rank: int | None = None,
    least: int = 0,
    exact: bool = False,
    ordered: bool = False,
    dtype: str = "",
    most: int | None = None,
) -> Row:
    """Return a row of the expression `code`, in which braces are filled in.

    {a}: an operand of `dtypes` and `rank`, or of rank `least` or more, of at most `most` elements.
    {b}: another operand of its dtype. {c}: a bool operand. The shapes broadcast. {axis}: an axis of
    `a` with at least one index. {size}: its size. {n}, {k}: the first and the last size of `a`.
    {shape}, {dtype}: those of `a`. {seed}: a small number.

    `result`: the shape of the result from the shape of the operands and the axis; None refuses.
    `dtype`: the dtype of the result, if it differs from that of the operands. `exact`: whether the
    bits of the result depend only on the bits of the operands; for integers and booleans they
    always do. `ordered`: the operands must be exact, since their last bits decide.
    """

    def draw_step(draw: Draw, pool: Pool) -> Step | None:
        a = pool.pick(draw, dtypes, rank, least, ordered)
        if a is None or (most is not None and a.size > most):
            return None
        shape, kept = a.shape, a.exact
        fields: dict[str, object] = {"a": a.name, "shape": list(a.shape), "dtype": a.dtype}
        fields |= {"n": a.shape[0], "k": a.shape[-1]} if a.shape else {}
        for name, wanted in (("b", a.dtype), ("c", "bool")):
            if f"{{{name}}}" not in code:
                continue
            other = pool.pick(draw, (wanted,), exact=ordered)
            common = None if other is None else broadcast(shape, other.shape)
            if other is None or common is None:
                return None
            shape, kept = common, kept and other.exact
            fields[name] = other.name
        axis = 0
        if "{axis}" in code:
            if not a.shape:
                return None
            axis = draw(st.integers(0, len(a.shape) - 1))
            if not a.shape[axis]:
                return None
            fields |= {"axis": axis, "size": a.shape[axis]}
        if "{seed}" in code:
            fields["seed"] = draw(st.integers(0, 3))
        made = shape if result is None else result(shape, axis)
        if made is None:
            return None
        whole = exact or a.dtype in INTEGERS or a.dtype == "bool"
        return Step(code.format(**fields), made, dtype or a.dtype, whole and kept)

    return draw_step


def dropped(shape: Shape, axis: int) -> Shape:
    """Return the shape without an axis."""
    return shape[:axis] + shape[axis + 1 :]


def kept(shape: Shape, axis: int) -> Shape:
    """Return the shape with an axis reduced to one index."""
    return (*shape[:axis], 1, *shape[axis + 1 :])


def scalar(shape: Shape, axis: int) -> Shape:
    """Return the shape of a scalar."""
    return ()


def sized(*sizes: int) -> Result:
    """Return a rule that replaces the last sizes of a shape by `sizes`."""
    return lambda shape, axis: (*shape[: -len(sizes)], *sizes)


def square(shape: Shape, axis: int) -> Shape | None:
    """Return the shape if its last two sizes are equal, else None."""
    return shape if shape[-2] == shape[-1] else None


def filled(result: Result) -> Result:
    """Return `result`, refusing operands without elements."""
    return lambda shape, axis: result(shape, axis) if count(shape) else None


def same(shape: Shape, axis: int) -> Shape:
    """Return the shape unchanged."""
    return shape
