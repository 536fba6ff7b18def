"""Primitives that are no op of the vocabulary: the law of their axis rules.

For each label that may be split: the operands cut along it unevenly, the node made again for each
part, the parts' results put together are those of the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax._src.lax import linalg
from jax_captured import Primitives, bind, capture, rand, run
from jax_x64 import enable_x64

from tf_exla.frontends.jax.op_set import JaxOps
from tf_exla.frontends.jax.primitives.records import RECORDS
from tf_exla.ir.axis_rule import AxisRule
from tf_exla.ir.graph import Array, Node, SplitAxis, Tensor
from tf_exla.vocabulary.rules.builders import pointwise_list

X = Any
OPS = JaxOps()


@pytest.fixture(autouse=True)
def _x64() -> Iterator[None]:
    with enable_x64():
        yield


def _conv(x: X, f: X, **how: Any) -> X:
    return lax.conv_general_dilated(x, f, (1, 2), "SAME", **how)


def _spd(x: X) -> X:
    return jnp.einsum("...ij,...kj->...ik", x, x) + 3 * jnp.eye(x.shape[-2])


A = rand(3, 4, 4)
P = np.abs(rand(3, 4, seed=1)) + 0.5
N = np.arange(12, dtype=np.int64).reshape(3, 4) - 5
INTO = np.array([[1, 0], [2, 3], [0, 1]])

CASES: Mapping[str, tuple[Callable[..., X], list[Array], str]] = {
    "rem": (lax.rem, [N, N * 0 + 3], "..., ... -> ..."),
    "shift_left": (lax.shift_left, [N, N * 0 + 3], "..., ... -> ..."),
    "lgamma": (lax.lgamma, [P], "... -> ..."),
    "regularized_incomplete_beta": (lax.betainc, [P, P, P / 9], "..., ..., ... -> ..."),
    "reduce_precision": (lambda x: lax.reduce_precision(x, 8, 7), [P], "... -> ..."),
    "bitcast_convert_type": (lambda x: lax.bitcast_convert_type(x, np.uint64), [P],
        "... -> ..."),
    "select_n": (lambda i, x: lax.select_n(i, x, -x, x * 2), [(N % 3).astype(np.int32), P],
        "..., ..., ..., ... -> ..."),
    "reduce_xor": (lambda x: lax.reduce_xor(x, (1,)), [N], "a B -> a"),
    "reduce": (lambda x: lax.reduce(x, 1.0, lambda a, b: a * b, (0,)), [P], "A b,  -> b"),
    "cummax": (lambda x: lax.cummax(x, 1), [P], "a B -> a B"),
    "cumlogsumexp": (lambda x: lax.cumlogsumexp(x, 0), [P], "A b -> A b"),
    "sort": (lambda x, y: lax.sort((x, y), dimension=1), [P, N], "a B, a B -> a B, a B"),
    "approx_top_k": (lambda x: lax.approx_max_k(x, 2), [P], "a A -> a B, a B"),
    "dot_general": (lambda x, y: lax.dot_general(x, y, (((2,), (1,)), ((0,), (0,))),
        precision="highest"), [A.astype("float32"), A[:, :, :2].astype("float32")],
        "a b c, a c f0 -> a b f0 ; add c"),
    "eigh": (lambda x: jnp.abs(lax.linalg.eigh(x)[0]), [A + A.swapaxes(1, 2)],
        "a A B -> a C D, a E"),
    "svd": (lambda x: jnp.linalg.svd(x, compute_uv=False), [A], "a A B -> a C"),
    "lu": (lax.linalg.lu, [A], "a A B -> a C D, a E, a F"),
    "lu_pivots_to_permutation": (lambda x: lax.linalg.lu_pivots_to_permutation(x, 4),
        [np.array([[0, 2, 2, 3], [1, 1, 3, 3]], np.int32)], "a A -> a B"),
    "geqrf": (lambda x: linalg.geqrf(x)[1], [A], "a A B -> a C D, a E"),
    "triangular_solve": (lambda x, y: lax.linalg.triangular_solve(
        x, y, left_side=True, unit_diagonal=True), [A, A[:, :, :2]],
        "... M M, ... M n -> ... M n"),
    "triangular_solve right": (lambda x, y: lax.linalg.triangular_solve(x, y, unit_diagonal=True),
        [A, A[:, :2]], "... M M, ... n M -> ... n M"),
    "threefry2x32": (lambda k: jax.random.bits(k, (3, 4)), [np.array([1, 2], np.uint32)],
        "..., ..., ..., ... -> ..., ..."),
    "tridiagonal_solve": (lax.linalg.tridiagonal_solve, [P, P + 3, P, A[:, :, :2]],
        "... M, ... M, ... M, ... M n -> ... M n"),
    "fft": (lambda x: jnp.fft.rfft(x), [A], "a b A -> a b B"),
    "conv_general_dilated": (_conv, [rand(3, 2, 5, 4), rand(4, 2, 3, 2)],
        "a c A0 B0, b c C0 D0 -> a b E0 F0 ; add c"),
    "conv_general_dilated grouped": (lambda x, f: _conv(x, f, feature_group_count=2),
        [rand(3, 2, 5, 4), rand(4, 1, 3, 2)], "a R A0 B0, F G C0 D0 -> a I E0 F0"),
    "reduce_window_sum": (lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 2, 3), (1, 1, 2),
        "SAME"), [A], "a A C -> a B D"),
    "select_and_scatter_add": (jax.grad(lambda x: jnp.sum(jnp.sin(lax.reduce_window(
        x, -jnp.inf, lax.max, (1, 2, 2), (1, 2, 2), "VALID")))), [A],
        "a A D, a B E -> a C F"),
    "dynamic_slice": (lambda x, i: lax.dynamic_slice(x, (0, i, i), (3, 2, 2)), [A, np.int64(1)],
        "a A C, , ,  -> a B D"),
    "dynamic_update_slice": (lambda x, y, i: lax.dynamic_update_slice(x, y, (0, i, 0)),
        [A, A[:, :2], np.int64(1)], "a A b, a B b, , ,  -> a A b"),
    "gather": (lambda x, i: x[:, i[:, 0], i[:, 1]], [A, INTO], "b B C, a A -> b a"),
    "gather windows": (lambda x, i: jax.vmap(
        lambda j: lax.dynamic_slice(x, (j, 0, 0), (2, 4, 3)))(i), [A, INTO[:, 0]],
        "B D F, a A -> a C E G"),
    "scatter": (lambda x, i: x.at[:, i[:, 0], i[:, 1]].set(7.0), [A, INTO],
        "a C D, A B, a A -> a C D"),
    "scatter-add": (lambda x, i: x.at[i[:, 0]].add(x), [A, INTO], "C a b, A B, A a b -> C a b"),
    "scatter-max": (lambda x, i: jax.vmap(lambda a, j: a.at[j].max(0.0))(x, i), [A, INTO],
        "a D b, a B C, a B b -> a D b"),
}  # fmt: skip
"""A function, its operands, and the rule of the primitive in it. The first word names it."""


def _node(name: str) -> tuple[Node, list[Array], list[Array]]:
    """Return the primitive in a captured function, the values of its operands, its results."""
    function, operands, _ = CASES[name]
    kernels = Primitives()
    run(capture(function, *operands), *operands, kernels=kernels)
    op = f"lax.{name.split()[0]}"
    return next(one for one in kernels.seen if one[0].op == op)  # type: ignore[return-value]


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", CASES)
def test_a_rule_keeps_its_law(name: str) -> None:
    node, values, whole = _node(name)
    rule = OPS.rule(node)
    assert isinstance(rule, AxisRule), rule
    assert str(rule) == CASES[name][2]
    for label in rule.labels():
        where, results = rule.slots(label, 1)
        size = rule.sizes[label]
        parts = []
        for start, stop in pairwise(sorted({0, 1, 1 + (size - 1) // 3, size})):
            cut = [_cut(one, slot, start, stop) for one, slot in zip(values, where, strict=True)]
            inputs = [
                Tensor(one.shape, old.dtype, old.name)
                for one, old in zip(cut, node.inputs, strict=True)
            ]
            shapes = [
                _cut(one, slot, start, stop).shape for one, slot in zip(whole, results, strict=True)
            ]
            *_, again = OPS.resized(node, inputs, shapes)
            parts.append(bind(again, cut))
        for k, (slot, expected) in enumerate(zip(results, whole, strict=True)):
            pieces = [part[k] for part in parts]
            if slot is None:
                assert rule.combine[label] == "add"
                found = sum(pieces)
            else:
                found = np.concatenate(pieces, slot.axis)
            np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-6)


def _cut(value: Array, slot: SplitAxis | None, start: int, stop: int) -> Array:
    if slot is None:
        return value
    index = [slice(None)] * value.ndim
    index[slot.axis] = slice(start * slot.block, stop * slot.block)
    return value[tuple(index)]


POINTWISE = {op for op, record in RECORDS.items() if record.rule is pointwise_list}
NOT_MADE = {
    "lax.cholesky": "batched, as lu", "lax.cholesky_update": "batched, as lu",
    "lax.eig": "batched, as eigh", "lax.schur": "batched, as eigh",
    "lax.hessenberg": "batched, as eigh", "lax.tridiagonal": "batched, as eigh",
    "lax.geqp3": "batched, as geqrf", "lax.householder_product": "batched, as geqrf",
    "lax.qr": "batched, as geqrf", "lax.cummin": "as cummax",
    "lax.reduce_window_max": "as reduce_window_sum", "lax.reduce_window_min": "likewise",
    "lax.select_and_gather_add": "as select_and_scatter_add", "lax.scatter-mul": "as scatter-add",
    "lax.scatter-min": "as scatter-max", "lax.scatter-sub": "as scatter-add",
}  # fmt: skip


def test_every_record_has_a_case() -> None:
    ruled = {op for op, record in RECORDS.items() if record.rule is not None}
    reduced = {op for op in ruled if RECORDS[op].rule is RECORDS["lax.reduce_xor"].rule}
    cases = {f"lax.{name.split()[0]}" for name in CASES}
    assert ruled - POINTWISE - reduced - NOT_MADE.keys() <= cases
