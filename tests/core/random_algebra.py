"""Random programs of linear algebra: sizes coincide, operands repeat, scalars have several ranks.

Numbers are plus or minus powers of two between 1/2 and 2, so that few sums round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from random import Random
from typing import Any

import numpy as np

Array = Any
LARGEST = 600
"""Elements of a result, at most."""


class Misfit(Exception):
    """No operand fits the drawn op."""


def draw_inputs(rng: Random) -> list[np.ndarray]:
    """Return arrays of few shapes, with axes of few sizes."""
    n, m, p = sizes = [rng.choice([1, 2, 2, 3, 3, 4]) for _ in range(3)]
    if rng.random() < 0.4:
        n, m, p = [sizes[0]] * 3
    b = n if rng.random() < 0.2 else rng.choice([1, 2, 3])
    shapes: list[tuple[int, ...]] = [
        (n, m), (m, p), (n, p), (n, n), (m, m), (n,), (m,), (n, 1), (1, m), (1, 1), (1,), (), (),
        (b, n, m), (b, m, p), (1, n, m), (b, 1, m), (b, n, 1), (b, n, n), (b, n), (b, 1, 1), (n, m),
    ]  # fmt: skip
    chosen = [(n, m), *rng.sample(shapes, rng.randint(3, 7))]
    numbers = np.random.default_rng(rng.randrange(2**32))
    return [
        np.where(numbers.random(shape) < 0.5, 1, -1) * 2.0 ** numbers.integers(-1, 2, shape)
        for shape in chosen
    ]


@dataclass
class Drawing:
    """The arrays of a program under construction; `inputs` have no zeros."""

    rng: Random
    xp: Any
    inputs: Sequence[Array]
    pool: list[Array] = field(default_factory=list)

    def pick(self, fits: Callable[[Array], bool] = lambda x: True) -> Array:
        """Return an array, more often one of the last."""
        found = [x for x in self.pool if fits(x)]
        if not found:
            raise Misfit
        return self.rng.choice(found[-5:] if self.rng.random() < 0.6 else found)

    def flip(self, chance: float = 0.5) -> bool:
        return self.rng.random() < chance


def is_matrix(x: Array) -> bool:
    return len(x.shape) >= 2


def _broadcasts(x: Array, y: Array) -> bool:
    pairs = zip(x.shape[::-1], y.shape[::-1], strict=False)
    return all(a == b or 1 in (a, b) for a, b in pairs)


def product(d: Drawing) -> Array:
    a, flips = d.pick(is_matrix), (d.flip(0.3), d.flip(0.3))
    inner = a.shape[-2] if flips[0] else a.shape[-1]
    batch = np.empty(a.shape[:-2])

    def fits(b: Array) -> bool:
        if not is_matrix(b) or (b.shape[-1] if flips[1] else b.shape[-2]) != inner:
            return False
        return _broadcasts(batch, np.empty(b.shape[:-2]))

    return d.xp.matmul(a, d.pick(fits), transpose_a=flips[0], transpose_b=flips[1])


def gram(d: Drawing) -> Array:
    a, left = d.pick(is_matrix), d.flip()
    return d.xp.matmul(a, a, transpose_a=left, transpose_b=not left)


def two_products(d: Drawing) -> Array:
    """Add products of equal shapes, which may share operands."""
    a, b = product(d), product(d)
    if a.shape != b.shape:
        raise Misfit
    return a - b if d.flip(0.3) else a + b


def with_vectors(d: Drawing) -> Array:
    """Add a column, a row or both to a product."""
    a = product(d)
    for shape in ((*a.shape[:-1], 1), (*a.shape[:-2], 1, a.shape[-1])):
        found = [x for x in d.pool if x.shape == shape]
        if found and d.flip(0.7):
            a = a + d.rng.choice(found)
    return a


def diagonal_of_product(d: Drawing) -> Array:
    return d.xp.linalg.diagonal(product(d))


def pointwise(d: Drawing) -> Array:
    a, op = d.pick(), d.rng.choice(["add", "subtract", "multiply"])
    b = d.pick(lambda b: _broadcasts(a, b) and (d.flip(0.4) or a.shape == b.shape))
    left, right = (a, b) if d.flip() else (b, a)
    return {"add": left + right, "subtract": left - right, "multiply": left * right}[op]


def quotient(d: Drawing) -> Array:
    a = d.pick()
    found = [b for b in d.inputs if _broadcasts(a, b)]
    if not found:
        raise Misfit
    return a / d.rng.choice(found)


def scaled(d: Drawing) -> Array:
    a = d.pick(is_matrix)
    s = d.pick(lambda s: prod(s.shape) == 1 and len(s.shape) <= len(a.shape))
    return s * a if d.flip() else a * s


def constant(d: Drawing) -> Array:
    a, c = d.pick(), d.rng.choice([2.0, -1.0, 0.5, -3.0, 1.0, 0.0])
    return a + c if d.flip(0.2) else a / (c or 4.0) if d.flip(0.3) else a * (c or -0.25)


def negative(d: Drawing) -> Array:
    return -d.pick()


def transpose(d: Drawing) -> Array:
    return d.xp.matrix_transpose(d.pick(is_matrix))


def permute(d: Drawing) -> Array:
    a = d.pick(is_matrix)
    return d.xp.permute_dims(a, d.rng.sample(range(len(a.shape)), len(a.shape)))


def reduce(d: Drawing) -> Array:
    a = d.pick(lambda a: len(a.shape) >= 1)
    rank = len(a.shape)
    axes = [k - rank * d.flip(0.3) for k in d.rng.sample(range(rank), d.rng.randint(1, rank))]
    op = d.rng.choice(["sum", "sum", "sum", "mean", "max"])
    return getattr(d.xp, op)(a, axis=tuple(axes), keepdims=d.flip())


def reshape(d: Drawing) -> Array:
    a = d.pick()
    shape = list(a.shape)
    others = ([1, *shape], [*shape, 1], [size for size in shape if size != 1], shape[::-1])
    return d.xp.reshape(a, d.rng.choice(others))


def diagonal(d: Drawing) -> Array:
    if d.flip():
        return d.xp.diag(d.pick(lambda a: 1 <= len(a.shape) <= 2))
    return d.xp.linalg.diagonal(d.pick(is_matrix))


def uniform_product(d: Drawing) -> Array:
    """A product with a matrix that is one number off its diagonal, or the diagonal of one."""
    a = d.pick(is_matrix)
    size = a.shape[-1]
    ones = d.xp.eye(size, dtype=a.dtype)
    number = d.pick(lambda s: prod(s.shape) == 1 and len(s.shape) <= 2) if d.flip() else 0.5
    matrix = d.xp.diag(d.pick(lambda v: v.shape == (size,))) if d.flip() else ones
    matrix = number - matrix if d.flip() else matrix - number
    made = matrix @ d.xp.matrix_transpose(a) if d.flip() else a @ matrix
    return d.xp.linalg.diagonal(made) if d.flip(0.3) else made


def triangle(d: Drawing) -> Array:
    return (d.xp.tril if d.flip() else d.xp.triu)(d.pick(is_matrix))


def join(d: Drawing) -> Array:
    a = d.pick(lambda a: len(a.shape) >= 1)
    axis = d.rng.randrange(len(a.shape))

    def rest(x: Array) -> tuple[int, ...]:
        return x.shape[:axis] + x.shape[axis + 1 :]

    alike = lambda b: len(b.shape) == len(a.shape) and rest(b) == rest(a)  # noqa: E731
    return d.xp.concat([a, *(d.pick(alike) for _ in range(d.rng.randint(1, 2)))], axis)


def distance(d: Drawing) -> Array:
    a = d.pick(lambda a: len(a.shape) == 2)
    b = d.pick(lambda b: len(b.shape) == 2 and b.shape[1] == a.shape[1])
    gap = d.xp.expand_dims(a, -2) - d.xp.expand_dims(b, -3)
    if d.flip(0.3):
        gap = gap * d.rng.choice([x for x in (*d.inputs, 2.0) if np.shape(x) in ((), (1,))])
    terms = abs(gap) if d.flip(0.3) else gap * gap if d.flip() else gap**2
    return d.xp.sum(terms, axis=-1, keepdims=d.flip(0.3))


def einsum(d: Drawing) -> Array:
    small = lambda x: 1 <= len(x.shape) <= 3  # noqa: E731
    a, b = d.pick(small), d.pick(small)
    left, right = (d.rng.sample("ijkl", len(x.shape)) for x in (a, b))
    sizes: dict[str, int] = {}
    pairs = zip([*left, *right], [*a.shape, *b.shape], strict=True)
    if not all(sizes.setdefault(letter, size) == size for letter, size in pairs):
        raise Misfit
    kept = [letter for letter in sizes if d.flip(0.6)][:3]
    d.rng.shuffle(kept)
    return d.xp.einsum(f"{''.join(left)},{''.join(right)}->{''.join(kept)}", a, b)


OPS: dict[Callable[[Drawing], Array], int] = {
    product: 8, gram: 2, two_products: 2, with_vectors: 3, diagonal_of_product: 1, pointwise: 14,
    quotient: 2, scaled: 6, constant: 4, negative: 3, transpose: 5, permute: 2, reduce: 6,
    reshape: 2, diagonal: 4, uniform_product: 2, triangle: 2, join: 2, distance: 3,
    einsum: 2,
}  # fmt: skip
"""Ops and how often they are drawn."""


def program(rng: Random) -> Callable[..., list[Array]]:
    """Return a function of `xp` and arrays. It draws from `rng`: call it once."""

    def fn(xp: Any, *arrays: Array) -> list[Array]:
        d = Drawing(rng, xp, arrays, list(arrays))
        for _ in range(rng.randint(3, 14)):
            (op,) = rng.choices(list(OPS), list(OPS.values()))
            try:
                made = op(d)
            except Misfit:
                continue
            if len(made.shape) <= 3 and prod(made.shape) <= LARGEST:
                d.pool.append(made)
        made = d.pool[len(arrays) :] or d.pool
        return [made[-1], *(x for x in made[:-1] if rng.random() < 0.15)]

    return fn
