"""Build the loops over segments of a loop and of its gradient (`segments.py`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tf_exla.ir.builder import Builder
from tf_exla.ir.control_flow import body_of, cond_of, is_while, passed_on
from tf_exla.ir.copying import copy_nodes
from tf_exla.ir.graph import Array, Graph, Node, Tensor
from tf_exla.ir.lists import is_list
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.traverse import producers, put_in_order
from tf_exla.moves.user_loops.kept_lists import KeptList, NewList, new_list, only_reader
from tf_exla.vocabulary.trip_counts import step_of


@dataclass(frozen=True)
class Kept:
    """The part of a loop that runs again to fill its `lists`.

    `nodes`: nodes of the loop's body, in order. They read the variables at the positions `carried`,
    which an iteration changes, and `same`, which it passes on. `counters`: the first value and the
    step of variables that count; these need not be kept.
    """

    loop: Node
    lists: tuple[KeptList, ...]
    nodes: tuple[Node, ...]
    carried: tuple[int, ...]
    same: tuple[int, ...]
    counters: Mapping[int, tuple[int, int]]


class Segmented:
    """Loops and their gradient, divided into `count` segments of `length` iterations.

    `sizes`: (`length`, `count`). `made`: the new loops over segments. `begins`: what the gradient
    runs each segment again from.
    """

    def __init__(
        self, backward: Node, parts: Sequence[Kept], sizes: tuple[int, int], ops: OpSet
    ) -> None:
        self.backward, self.parts, self.ops = backward, parts, ops
        self.length, self.count = sizes
        self.copied: list[dict[int, Tensor]] = []
        self.starts: list[dict[int, NewList]] = []
        for part in parts:
            inputs = body_of(part.loop).inputs
            copied = {k: inputs[k].fresh_copy() for k in part.carried}
            self.copied.append(copied)
            self.starts.append({k: new_list(part.lists[0], t) for k, t in copied.items()})
        self.begins = {one.value for starts in self.starts for one in starts.values()}
        self.made: set[Node] = set()

    def replaced(self, graph: Graph) -> Graph:
        """Return the graph with all these loops in segments."""
        w = Builder(self.backward, self.ops)
        zero = w.const(0)
        made, checkpoints = list[Node](), list[Tensor]()
        for part, copied, starts in zip(self.parts, self.copied, self.starts, strict=True):
            made += [node for one in starts.values() for node in one.starts]
            made.append(self._forward(part, copied, starts, zero))
            checkpoints += made[-1].outputs[len(made[-1].outputs) - len(starts) - 1 : -1]
        made.append(self._backward(zero, checkpoints))
        old = {self.backward, *(part.loop for part in self.parts)}
        rest = (node for node in graph.nodes if node not in old)
        self.made = {node for node in made if is_while(node)}
        return graph.replace(nodes=put_in_order([*w.nodes, *made, *rest]))

    def _forward(
        self, part: Kept, copied: dict[int, Tensor], starts: dict[int, NewList], zero: Tensor
    ) -> Node:
        """Return the loop over segments that keeps the variables at the start of each in lists."""
        old, body, cond = part.loop, body_of(part.loop), cond_of(part.loop)
        dropped = {one.at for one in part.lists}
        kept = [k for k in range(len(old.inputs)) if k not in dropped]
        pushes = {one.push for one in part.lists}
        inner = _Loop(old, self.ops)
        for k in kept:
            inner.add(body.inputs[k], body.outputs[k], cond.inputs[k])
        inner.nodes += [node for node in body.nodes if node not in pushes]
        outer = _Loop(old, self.ops)
        at = {k: copied.get(k, body.inputs[k].fresh_copy()) for k in kept}
        outer.nodes += [one.push for one in starts.values()]
        inside = inner.counted(at.values(), outer.zero(), cond, self.length)
        outer.nodes.append(inside)
        same = passed_on(old)
        for k, made in zip(kept, inside.outputs, strict=False):
            outer.add(at[k], at[k] if k in same else made, cond.inputs[k])
        for one in starts.values():
            outer.add(one.pushed.inner, one.pushed.after)
        firsts = [*(old.inputs[k] for k in kept), *(one.pushed.first for one in starts.values())]
        node = outer.counted(firsts, zero, cond, self.count)
        return node.replace(outputs=(*(old.outputs[k] for k in kept), *node.outputs[len(kept) :]))

    def _backward(self, zero: Tensor, checkpoints: Sequence[Tensor]) -> Node:
        """Return the loop over the segments in reverse order, which runs each of them again."""
        old, body, cond = self.backward, body_of(self.backward), cond_of(self.backward)
        outer, trips = _Loop(old, self.ops), zero
        filled: dict[int, Tensor] = {}
        given: list[tuple[Tensor, Tensor]] = []
        for part, starts in zip(self.parts, self.starts, strict=True):
            outer.nodes += [node for one in starts.values() for node in one.pops]
            same = {k: part.loop.inputs[k].fresh_copy() for k in part.same}
            given += [(part.loop.inputs[k], tensor) for k, tensor in same.items()]
            values = {**{k: one.value for k, one in starts.items()}, **same}
            values.update(self._begun(part, outer))
            again = self._run_again(part, values, outer)
            ends = (one.end for one in part.lists)
            filled.update(zip(ends, again.outputs[len(values) :], strict=False))
            trips = again.outputs[-1]
        kept = [k for k in range(len(old.inputs)) if k not in filled]
        at = {k: body.inputs[k].fresh_copy() for k in kept}
        inner = _Loop(old, self.ops)
        for before, after in zip(body.inputs, body.outputs, strict=True):
            inner.add(before, after)
        inner.nodes += body.nodes
        firsts = [filled[k] if k in filled else at[k] for k in range(len(old.inputs))]
        w, sums = Builder(old, self.ops), [k for k in kept if self._adds(k)]
        for k in sums:
            dims, dtype = old.inputs[k].dims, old.inputs[k].dtype
            firsts[k] = w.op("full", w.const(dims), w.const(0, dtype))
        outer.nodes += w.nodes
        inside = inner.counted(firsts, outer.zero(), trips, self.length)
        outer.nodes.append(inside)
        results = {k: at[k] if k in passed_on(old) else inside.outputs[k] for k in kept}
        w = Builder(old, self.ops)
        results.update({k: w.op("add", at[k], results[k]) for k in sums})
        results.update(self._advanced(at, trips, w))
        outer.nodes += w.nodes
        for k in kept:
            outer.add(at[k], results[k], cond.inputs[k])
        for one in (one for starts in self.starts for one in starts.values()):
            outer.add(one.read.inner, one.read.after)
        for _, tensor in given:
            outer.add(tensor, tensor)
        firsts = [*(old.inputs[k] for k in kept), *checkpoints, *(first for first, _ in given)]
        node = outer.counted(firsts, zero, cond, self.count)
        return node.replace(outputs=(*(old.outputs[k] for k in kept), *node.outputs[len(kept) :]))

    def _begun(self, part: Kept, outer: _Loop) -> Iterator[tuple[int, Tensor]]:
        """Yield the counters at the start of a segment of `part`, in the body of `outer`.

        The gradient takes the segments in reverse order.
        """
        w = Builder(self.backward, self.ops)
        before = w.op("subtract", w.const(self.count - 1), outer.counter)
        for k, (first, step) in part.counters.items():
            dtype = part.loop.inputs[k].dtype
            passed = w.op("multiply", w.cast(before, dtype), w.const(step * self.length, dtype))
            yield k, w.op("add", passed, w.const(first, dtype))
        outer.nodes += w.nodes

    def _advanced(
        self, at: Mapping[int, Tensor], trips: Tensor, w: Builder
    ) -> Iterator[tuple[int, Tensor]]:
        """Yield the counters among the gradient's variables after `trips` more iterations.

        They are computed outside of the inner loop. That loop can then be split, since all its
        other results are sums over chunks, or carry the axis.
        """
        body = body_of(self.backward)
        made = producers(body)
        for k, before in at.items():
            step = step_of(body, made, k) if before.dtype in ("int32", "int64") else None
            if step:
                passed = w.op("multiply", w.cast(trips, before.dtype), w.const(step, before.dtype))
                yield k, w.op("add", before, passed)

    def _adds(self, k: int) -> bool:
        """Return whether iterations only add to a variable, such as the gradient of a weight.

        Then each segment starts its sum from zero, since only such a sum can be split.
        """
        variable, reader = body_of(self.backward).inputs[k], only_reader(self.backward, k)
        if reader is None or reader.op not in ("add", "add_n") or is_list(variable):
            return False
        return variable.is_static and reader.inputs.count(variable) == 1

    def _run_again(self, part: Kept, values: Mapping[int, Tensor], outer: _Loop) -> Node:
        """Add the loop that fills the lists of one segment, from the `values` of variables."""
        body, cond = body_of(part.loop), cond_of(part.loop)
        loop = _Loop(part.loop, self.ops)
        copies = {body.inputs[k]: body.inputs[k].fresh_copy() for k in values}
        loop.nodes += copy_nodes(part.nodes, copies)
        for k in values:
            loop.add(copies[body.inputs[k]], copies[body.outputs[k]], cond.inputs[k])
        firsts = list(values.values())
        for one in part.lists:
            before, *item = one.push.inputs
            after, copy = one.push.output.fresh_copy(), before.fresh_copy()
            inputs = (copy, *(copies[tensor] for tensor in item))
            loop.nodes.append(one.push.replace(inputs=inputs, outputs=(after,)))
            loop.add(copy, after)
            firsts.append(outer.copied(one.start))
        node = loop.counted(firsts, outer.zero(), cond, self.length)
        outer.nodes.append(node)
        return node


class _Loop:
    """A While under construction that replaces `like`; `nodes`: the nodes of its body."""

    def __init__(self, like: Node, ops: OpSet) -> None:
        self.like, self.ops = like, ops
        self.nodes: list[Node] = []
        self.counter = Tensor((), "int32", "iteration")
        self._variables: list[tuple[Tensor, Tensor, Tensor | None]] = []

    def add(self, before: Tensor, after: Tensor, tested: Tensor | None = None) -> None:
        """Add a variable; `tested`: the condition's input for it, if a condition reads it."""
        self._variables.append((before, after, tested))

    def zero(self) -> Tensor:
        """Return a zero in the body."""
        w = Builder(self.like, self.ops)
        made = w.const(0)
        self.nodes += w.nodes
        return made

    def copied(self, start: Node) -> Tensor:
        """Return an empty list in the body, made as by the node `start` outside of it."""
        w = Builder(start, self.ops)
        inputs = tuple(w.const(_value(tensor), tensor.dtype) for tensor in start.inputs)
        made = start.replace(inputs=inputs, outputs=(start.output.fresh_copy(),))
        self.nodes += [*w.nodes, made]
        return made.output

    def counted(
        self, firsts: Iterable[Tensor], zero: Tensor, test: Graph | Tensor, most: int
    ) -> Node:
        """Return the While of at most `most` iterations, with their counter as its last variable.

        `firsts`: the first values of the variables. `zero`: that of the counter. `test`: the
        condition of another While, or the number of iterations, which becomes the variable before
        the counter.
        """
        firsts = list(firsts)
        if isinstance(test, Tensor):
            limit = test.fresh_copy()
            self.add(limit, limit)
            firsts.append(test)
        before, tested = self.counter, self.counter.fresh_copy()
        w = Builder(self.like, self.ops)
        after = w.op("add", before, w.const(1))
        nodes = (*self.nodes, *w.nodes)
        self.add(before, after)
        ins, outs, read = zip(*self._variables, strict=True)
        body = Graph(ins, nodes, outs)
        w = Builder(self.like, self.ops)
        names = [t.fresh_copy() for t in ins[:-1]]
        few = w.op("less", tested, w.const(most))
        if isinstance(test, Tensor):
            goes = w.op("less", tested, names[-1])
        else:
            copies = {one: new for one, new in zip(read, names, strict=False) if one is not None}
            unread = (tensor for tensor in test.inputs if tensor not in copies)
            copies.update({tensor: tensor.fresh_copy() for tensor in unread})
            w.nodes += copy_nodes(test.nodes, copies)
            goes = copies[test.outputs[0]]
        goes = w.op("logical_and", goes, few)
        cond = Graph((*names, tested), tuple(w.nodes), (goes,))
        return self.like.replace(
            inputs=(*firsts, zero),
            outputs=tuple(tensor.fresh_copy() for tensor in outs),
            attrs={**self.like.attrs, "body": body, "cond": cond},
        )


def _value(tensor: Tensor) -> Array:
    assert tensor.value is not None
    return tensor.value
