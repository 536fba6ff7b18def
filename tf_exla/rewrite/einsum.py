"""An einsum that is equivalent to a product, a sum or a transpose becomes that op.

Then all other rewrites apply to it. An einsum that would need axes merged or copied into another
order is not changed, since it could then no longer be split along each of its axes.
"""

from __future__ import annotations

import string

from tf_exla.ir.graph import Node, Tensor
from tf_exla.ir.refusal import Refusal
from tf_exla.rewrite.algebra import (
    Factor,
    half_reason,
    is_float,
    product,
    reduce_sum,
    reshape,
)
from tf_exla.rewrite.context import RewriteContext
from tf_exla.rewrite.rewrite import Proposals, Rewrite

FAMILY = "cleanup"


def einsum_is_product(site: RewriteContext, node: Node) -> Proposals:
    """einsum("bij,bjk->bik", x, y) = x y, and so for sums, transposes and elementwise products"""
    if not node.output.is_static or not all(tensor.is_static for tensor in node.inputs):
        return
    if not is_float(node.output):
        yield Refusal(half_reason(node.output))
        return
    parsed = _parsed(node)
    if isinstance(parsed, Refusal):
        yield parsed
        return
    terms, out = parsed
    if len(terms) == 1:
        yield _of_one(site, node.inputs[0], terms[0], out)
    elif len(terms) == 2:
        yield _of_two(site, node, terms[0], terms[1], out)


def _parsed(node: Node) -> tuple[list[str], str] | Refusal:
    """Return the terms and the result of the equation, in which `...` is replaced by letters."""
    equation = node.attrs.get("equation", "")
    if isinstance(equation, bytes):
        equation = equation.decode()
    left, _, out = str(equation).replace(" ", "").partition("->")
    terms = left.split(",")
    spare = [letter for letter in string.ascii_letters if letter not in left]
    ranks = [
        len(tensor.dims) - len(term.replace("...", ""))
        for term, tensor in zip(terms, node.inputs, strict=True)
        if "..." in term
    ]
    if max(ranks, default=0) > len(spare):
        return Refusal(f"the equation {equation!r} has too many letters")
    most = "".join(spare[: max(ranks, default=0)])
    full = [
        term.replace("...", most[len(most) - (len(tensor.dims) - len(term.replace("...", ""))) :])
        if "..." in term and len(tensor.dims) > len(term) - 3
        else term.replace("...", "")
        for term, tensor in zip(terms, node.inputs, strict=True)
    ]
    out = out.replace("...", most)
    if any(len(set(term)) < len(term) for term in (*full, out)):
        return Refusal(f"the equation {equation!r} reads or makes a diagonal")
    sizes: dict[str, int] = {}
    for term, tensor in zip(full, node.inputs, strict=True):
        for letter, size in zip(term, tensor.dims, strict=True):
            if sizes.setdefault(letter, size) != size:
                return Refusal(f"an axis of the equation {equation!r} is broadcast")
    return full, out


def _of_one(site: RewriteContext, tensor: Tensor, term: str, out: str) -> Tensor:
    gone = tuple(axis for axis, letter in enumerate(term) if letter not in out)
    if gone:
        tensor = reduce_sum(site, tensor, gone, keep=False)
    left = [letter for letter in term if letter in out]
    if "".join(left) == out:
        return tensor
    return site.emit("permute_dims", tensor, site.axes([left.index(letter) for letter in out]))


def _of_two(site: RewriteContext, node: Node, left: str, right: str, out: str) -> Tensor | Refusal:
    x, y = node.inputs
    if any(letter not in right + out for letter in left) or any(
        letter not in left + out for letter in right
    ):
        return Refusal("an operand is summed over an axis of its own")
    summed = [letter for letter in left if letter in right and letter not in out]
    if len(summed) > 1:
        return Refusal(f"it sums over {len(summed)} axes at once")
    only_left = [letter for letter in out if letter not in right]
    only_right = [letter for letter in out if letter not in left]
    if not summed and not (len(out) == 2 and only_left and only_right):
        wide = [_aligned(site, tensor, term, out) for tensor, term in ((x, left), (y, right))]
        if wide[0] is None or wide[1] is None:
            return Refusal("its axes are in another order than those of the result")
        return site.emit("multiply", wide[0], wide[1])
    if out[-1:] in only_left and out[-2:-1] not in only_right:
        row, column = out[-1:], ""  # the result is a batch of matrices times vectors
    elif out[-1:] in only_right and out[-2:-1] not in only_left:
        row, column = "", out[-1:]
    elif out[-1:] in only_left:
        return _of_two_swapped(site, node, left, right, out)
    else:
        row, column = (out[-2:-1], out[-1:]) if out[-1:] in only_right else ("", "")
    batch = out[: len(out) - len(row) - len(column)]
    if batch and not row and not column:
        return Refusal("it is a batch of inner products")
    key = "".join(summed)
    a = _matrices(site, x, left, batch, row, key)
    b = _matrices(site, y, right, batch, key, column)
    if a is None or b is None:
        return Refusal("its axes interleave: an operand would have to be copied in another order")
    return reshape(site, product(site, a, b), node.output.dims)


def _of_two_swapped(
    site: RewriteContext, node: Node, left: str, right: str, out: str
) -> Tensor | Refusal:
    """Exchange the operands if the result has the right operand's axis first: (x y)ᵀ = yᵀ xᵀ."""
    swapped = Node(node.op, node.inputs[::-1], node.outputs, node.attrs, name=node.name)
    return _of_two(site, swapped, right, left, out)


def _aligned(site: RewriteContext, tensor: Tensor, term: str, out: str) -> Tensor | None:
    """Reshape a tensor to one axis for each letter of the result; None if its order differs."""
    if [letter for letter in out if letter in term] != list(term):
        return None
    sizes = dict(zip(term, tensor.dims, strict=True))
    return reshape(site, tensor, tuple(sizes.get(letter, 1) for letter in out))


def _matrices(
    site: RewriteContext, tensor: Tensor, term: str, batch: str, row: str, column: str
) -> Factor | None:
    """Return a tensor as a batch of matrices, transposed if its last axes are exchanged."""
    own = [letter for letter in batch if letter in term]
    transposed = term == "".join((*own, column, row)) and bool(row) and bool(column)
    if not transposed and term != "".join((*own, row, column)):
        return None
    sizes = dict(zip(term, tensor.dims, strict=True))
    last = (column, row) if transposed else (row, column)
    lead = [sizes.get(letter, 1) for letter in batch]
    while lead and not own:
        lead.pop()
    shape = (*lead, *(sizes.get(letter, 1) for letter in last))
    return Factor(reshape(site, tensor, shape), transposed)


REWRITES = (Rewrite(FAMILY, einsum_is_product, frozenset({"einsum"}), normal=True),)
