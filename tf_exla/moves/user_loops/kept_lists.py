"""Lists in which a While keeps results for its gradient, one tensor for each iteration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tf_exla.ir.control_flow import Variable, body_of, cond_of
from tf_exla.ir.graph import Graph, Node, Tensor, const
from tf_exla.ir.lists import is_list
from tf_exla.ir.traverse import consumers, producers, reads


@dataclass(frozen=True)
class KeptList:
    """A list that one While fills and another one, its gradient, empties.

    `at`, `end`: its positions among the variables of the former and of the latter. `start`: the
    node that makes the empty list. `push`, `pop`: the only nodes of the two bodies that read it.
    """

    at: int
    end: int
    start: Node
    push: Node
    pop: Node

    @property
    def item(self) -> Tensor:
        """The tensor that an iteration adds."""
        return self.push.inputs[1]


def kept_lists(graph: Graph, forward: Node, backward: Node) -> Iterator[KeptList]:
    """Yield the lists to which each iteration of `forward` adds a tensor that `backward` pops.

    The lists have no other use.
    """
    uses, made_by = consumers(graph), producers(graph)
    read = reads(graph)
    for end, tensor in enumerate(backward.inputs):
        if not is_list(tensor) or tensor not in forward.outputs:
            continue
        if len(uses[tensor]) > 1 or tensor in graph.outputs or backward.outputs[end] in read:
            continue
        at = forward.outputs.index(tensor)
        start = made_by.get(forward.inputs[at])
        push, pop = only_reader(forward, at), only_reader(backward, end)
        if start is None or push is None or pop is None:
            continue
        if (
            push.inputs[0] is not body_of(forward).inputs[at]
            or pop.inputs[0] is not body_of(backward).inputs[end]
        ):
            continue
        if (start.op, push.op, pop.op) == ("list_empty", "list_push", "list_pop"):
            yield KeptList(at, end, start, push, pop)


def only_reader(node: Node, at: int) -> Node | None:
    """Return the node of a While's body that makes the next value of its variable at `at`.

    None if it is not the only reader of the variable, or if its result has another use.
    """
    body, cond = body_of(node), cond_of(node)
    before, after = body.inputs[at], body.outputs[at]
    readers = [one for one in body.nodes if before in one.inputs]
    if len(readers) != 1 or cond.inputs[at] in reads(cond):
        return None
    if before in body.outputs or body.outputs.count(after) > 1:
        return None
    if readers[0].outputs[0] is not after or any(after in one.inputs for one in body.nodes):
        return None
    return readers[0]


class NewList(NamedTuple):
    """A further list between a While and its gradient, and the nodes that use it.

    `starts`: the nodes that make the empty list. `push`: the node for the body that fills it, whose
    variable is `pushed`. `pops`: the nodes for the body that empties it, whose variable is `read`;
    they make `value`, the popped tensor.
    """

    starts: list[Node]
    push: Node
    pushed: Variable
    pops: list[Node]
    read: Variable
    value: Tensor


def new_list(like: KeptList, kept: Tensor) -> NewList:
    """Return a list of the same length as `like`, to which each iteration adds `kept`."""
    empty, before, after, full, rest = (
        Tensor((), "variant", f"{kept.name}/kept", items=kept.shape) for _ in range(5)
    )
    dtype = {"element_dtype": kept.dtype}
    sizes, again = (const(np.array(kept.dims, np.int32), f"{kept.name}/sizes") for _ in "12")
    most = like.start.inputs[1]
    attrs = {**like.start.attrs, **dtype}
    start = like.start.replace(inputs=(sizes.output, most), outputs=(empty,), attrs=attrs)
    value = Tensor(kept.shape, kept.dtype, kept.name)
    attrs = {**like.pop.attrs, **dtype}
    pop = like.pop.replace(inputs=(full, again.output), outputs=(rest, value), attrs=attrs)
    return NewList(
        [sizes, start],
        like.push.replace(inputs=(before, kept), outputs=(after,)),
        Variable(empty, before, after),
        [again, pop],
        Variable(empty, full, rest),
        value,
    )
