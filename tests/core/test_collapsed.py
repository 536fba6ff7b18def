"""Graphs of a report by name scopes: few nodes, in order, and none is lost."""

from __future__ import annotations

import random
import re

import pytest

from tf_exla.report.collapse import GROUPS, collapsed
from tf_exla.report.graph import INPUT, GraphNode


def node(name: str, *inputs: int, op: str = "add", size: int = 8, **more: object) -> GraphNode:
    return GraphNode(op, name, (size // 8,), "float64", size, inputs, **more)  # type: ignore[arg-type]


def count(one: GraphNode) -> int:
    found = re.search(r"\((\d+)\)$", one.op)
    return int(found[1]) if found else 1


def check(nodes: list[GraphNode], made: list[GraphNode]) -> None:
    assert sum(map(count, made)) == len(nodes)
    assert all(k < at for at, one in enumerate(made) for k in one.inputs)
    assert sum(n.bytes for n in made) <= sum(n.bytes for n in nodes)
    assert max(n.bytes for n in made) == max(n.bytes for n in nodes)


def test_a_scope_is_one_node_of_its_largest_tensor() -> None:
    nodes = [
        node("X", op=INPUT),
        node("sgpr/elbo/Kuf/square", 0, size=80),
        node("sgpr/elbo/Kuf/exp", 1, op="exp", size=800),
        node("sgpr/elbo/solve", 2, op="solve_triangular"),
        node("gradient_tape/sgpr/elbo/Kuf/mul", 3, output=True),
    ]
    made = collapsed(nodes)
    assert [one.op for one in made] == [INPUT, "sgpr/elbo/Kuf (2)", "solve_triangular", "add"]
    check(nodes, made)
    assert made[1].shape == (100,)
    assert "exp sgpr/elbo/Kuf/exp, 800 B" in made[1].name
    assert made[-1].output


def test_names_of_few_nodes_lose_their_inner_scopes() -> None:
    nodes = [node("X", op=INPUT)]
    nodes += [node(f"model/layer_{k // 20}/part_{k}/op", k) for k in range(200)]
    made = collapsed(nodes)
    assert [one.op for one in made[1:]] == [f"model/layer_{k} (20)" for k in range(10)]


def test_what_is_between_two_parts_of_a_scope_divides_it() -> None:
    nodes = [node("a/first"), node("b/middle", 0), node("a/last", 1)]
    made = collapsed(nodes)
    assert [one.inputs for one in made] == [(), (0,), (1,)]


def test_loops_stay_alone() -> None:
    nodes = [node("a/x"), node("a/loop", 0, loop=0), node("a/y")]
    made = collapsed(nodes)
    assert sorted(one.op for one in made) == ["a (2)", "add"]
    assert [one.loop for one in made if one.op == "add"] == [0]


def test_thousands_of_nodes_are_joined_by_their_order_first() -> None:
    rng = random.Random(0)
    nodes = [node("x", op=INPUT)]
    for k in range(1, 12_000):
        nodes.append(node(f"op_{k}", *sorted({max(0, k - 1 - rng.randrange(40)) for _ in "ab"})))
    made = collapsed(nodes)
    check(nodes, made)
    assert len(made) <= 1 + GROUPS


@pytest.mark.parametrize("seed", range(20))
def test_graphs_of_any_shape(seed: int) -> None:
    rng = random.Random(seed)
    nodes = [node(f"input_{k}", op=INPUT) for k in range(3)]
    for k in range(3, 300):
        scope = rng.choice(
            ["", "a/", "a/b/", "c/d/e/f/g/", "gradient_tape/", f"s{rng.randrange(99)}/"]
        )
        inputs = sorted(rng.sample(range(k), min(k, rng.randrange(4))))
        nodes.append(node(f"{scope}op_{k}", *inputs, size=8 * rng.randrange(1, 10**6)))
    made = collapsed(nodes)
    check(nodes, made)
    assert len(made) <= 3 + 2 * GROUPS  # what has no neighbour cannot join one
