"""Formulas written for a namespace `xp`: that of NumPy, TensorFlow, JAX, or of a tracer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Formula = Callable[..., Any]

FORMULAS: dict[str, tuple[Formula, list[tuple[int, ...]]]] = {
    "kernel matvec": (
        lambda xp, x, y, v: xp.exp(-0.5 * xp.sum(xp.square(x[:, None] - y[None]), axis=-1)) @ v,
        [(40, 3), (30, 3), (30, 2)],
    ),
    "products and transposes": (
        lambda xp, a, b: [
            a @ b,
            xp.matrix_transpose(b) @ xp.permute_dims(a, (1, 0)),
            xp.matmul(b, a, transpose_a=True, transpose_b=True),
        ],
        [(4, 5), (5, 3)],
    ),
    "batches": (
        lambda xp, a, b: xp.matmul(a, b) - xp.linalg.matrix_transpose(a)[:, :1, :4] * 2.0,
        [(3, 5, 4), (3, 4, 4)],
    ),
    "matrix and vector": (lambda xp, a, v: xp.matmul(a, v), [(4, 5), (5,)]),
    "reductions": (
        lambda xp, x: [
            xp.sum(x), xp.max(x, axis=-1), xp.min(x, axis=0, keepdims=True), xp.mean(x, axis=1),
            xp.prod(x, axis=(0, 1)), xp.all(x > 0, axis=1), xp.any(x >= 1.0), xp.argmax(x, axis=-1),
        ],
        [(4, 5)],
    ),
    "Cholesky": (
        lambda xp, a, b: xp.linalg.solve_triangular(
            xp.linalg.cholesky(a @ xp.matrix_transpose(a) + xp.eye(40)), b, lower=True
        ),
        [(40, 40), (40, 3)],
    ),
    "diagonals": (
        lambda xp, a, d: [
            xp.linalg.diagonal(a), xp.linalg.trace(a), xp.diag(d), xp.tril(a), xp.triu(a),
        ],
        [(4, 4), (4,)],
    ),
    "movement": (
        lambda xp, x: [
            xp.reshape(x, (3, 8)), xp.concat([x, x], axis=1), xp.stack([x, x], axis=1),
            xp.roll(x, 1, axis=0), xp.tile(x, (2, 1)), xp.pad(x, ((1, 0), (0, 2))),
            xp.take(x, [2, 0], axis=0), xp.flip(x, axis=1), xp.broadcast_to(x[0], (2, 6)),
            xp.squeeze(xp.expand_dims(x, -1), -1), x[..., ::2], x[1, 2:, None],
        ],
        [(4, 6)],
    ),
    "choices": (
        lambda xp, x, y: xp.where((x < y) & ~(x == 0.0), xp.maximum(x, y), abs(x) ** 2),
        [(4, 5), (4, 1)],
    ),
    "attention": (
        lambda xp, q, k, v: xp.softmax(q @ xp.matrix_transpose(k)) @ v,
        [(6, 3), (7, 3), (7, 3)],
    ),
    "neighbours": (lambda xp, x: xp.top_k(-x, 3), [(4, 9)]),
    "einsum": (lambda xp, a, b: xp.einsum("bij,bkj->bik", a, b), [(2, 3, 4), (2, 5, 4)]),
    "loop": (
        lambda xp, x: xp.while_loop(
            lambda xp, i, y: i < 3, lambda xp, i, y: [i + 1, xp.cumsum(y * 0.5, axis=0)], [0, x]
        )[1],
        [(4, 5)],
    ),
}  # fmt: skip
