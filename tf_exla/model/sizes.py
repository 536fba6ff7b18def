"""Upper bounds of bytes that static shapes do not determine: of unknown sizes, and of lists.

One walk follows a graph in its order, and its sub-graphs with the bounds of their operands. The
bound of a size that is known only at run time follows from the bounds of the operands. A list has
the bytes of the tensors that were put into it. A size without a bound has a *cause*: the first node
on the path to it that gives no bound for its result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

from tf_exla.ir.bounds import HANDLES, Most
from tf_exla.ir.control_flow import body_of, cond_of, is_while
from tf_exla.ir.graph import Graph, Loop, Node, Tensor, item_bytes
from tf_exla.ir.lists import EMPTY, UNKNOWN, Held, after_loop, either, is_list, made, read
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.open_sizes import is_of_unknown_size, may_be_a_size, nodes_with_bounds
from tf_exla.model.causes import Causes
from tf_exla.model.known_loops import KnownLoops
from tf_exla.model.settings import SETTINGS

_Known = tuple[Most, Held, Node | None, bool]
"""Of an operand: its bounds, a list's contents, the cause if unbounded, if its size is unknown."""


@dataclass
class Sizes:
    """Bounds of the tensors of graphs; for a sub-graph, those for the operands of its last walk."""

    ops: OpSet
    _most: WeakKeyDictionary[Tensor, Most] = field(default_factory=WeakKeyDictionary)
    _fitted: WeakKeyDictionary[Tensor, int] = field(default_factory=WeakKeyDictionary)
    _causes: Causes = field(default_factory=Causes)
    _lists: WeakKeyDictionary[Graph, dict[Tensor, Held]] = field(default_factory=WeakKeyDictionary)
    _held: WeakKeyDictionary[Tensor, Held] = field(default_factory=WeakKeyDictionary)
    _given: WeakKeyDictionary[Graph, tuple[_Known, ...]] = field(default_factory=WeakKeyDictionary)

    def __post_init__(self) -> None:
        self._loops = KnownLoops((self._most, self._held, self._causes.of))

    def nbytes(self, tensor: Tensor) -> int:
        """Return an upper bound of a tensor's bytes; 0 if there is no bound."""
        if tensor.is_static or tensor.dtype in HANDLES:
            return tensor.nbytes
        return (self.most(tensor).size or 0) * item_bytes(tensor.dtype)

    def most(self, tensor: Tensor) -> Most:
        """Return the bounds of a tensor."""
        return self._most.get(tensor) or Most.of(tensor)

    def lists(self, graph: Graph) -> dict[Tensor, Held]:
        """Return the contents of the lists that nodes of `graph` make."""
        if not graph.is_open:
            return {}
        if graph not in self._lists:
            for tensor in graph.inputs:  # lists here are inputs of a sub-graph not entered yet
                if is_list(tensor):
                    self._held.setdefault(tensor, Held(total=tensor.held))
            self._walk(graph)
        return self._lists[graph]

    def given(self, graph: Graph) -> object:
        """Return the bounds of an open graph's inputs: projections depend on them."""
        self.lists(graph)
        return self._given.get(graph, ()) if graph.is_open else ()

    def follow(self, made: Graph, graph: Graph) -> None:
        """Reuse the walk over `graph` for `made`, whose other nodes all have static sizes."""
        self._lists[made] = self.lists(graph)

    def cause(self, tensor: Tensor) -> Node | None:
        """Return the first node on the way to a tensor that gives no bound for its result."""
        return self._causes.of.get(tensor)

    # The walk.

    def _walk(self, graph: Graph) -> None:
        self._lists[graph] = self._forward(graph)
        while self._backward(graph):
            self._lists[graph] = self._forward(graph)

    def _backward(self, graph: Graph) -> bool:
        """Bound operands by results that are not smaller; return whether any bound was found.

        The sum of a matrix [n, n] and of an identity of unknown size bounds the identity.
        """
        found = False
        for node in reversed(graph.nodes):
            if not node.is_open or len(node.outputs) != 1 or not self.ops.not_smaller(node):
                continue
            size = self.most(node.output).size
            if not size:
                continue
            for tensor in node.inputs:
                known = self._fitted.get(tensor, self.most(tensor).size)
                if is_of_unknown_size(tensor) and (known is None or size < known):
                    self._fitted[tensor] = size
                    self._most[tensor] = self.most(tensor).at_most(size)
                    found = True
        return found

    def _forward(self, graph: Graph) -> dict[Tensor, Held]:
        found: dict[Tensor, Held] = {}
        for node in nodes_with_bounds(graph):
            if isinstance(node, Loop):
                self._split(node)
            elif is_while(node):
                self._while(node)
            elif node.subgraphs:
                self._choice(node)
            else:
                self._plain(node)
            for tensor in node.outputs:
                if is_list(tensor) and tensor in self._held:
                    found[tensor] = self._held[tensor]
        return found

    def _plain(self, node: Node) -> None:
        if any(is_list(tensor) for tensor in node.outputs):
            self._list(node)
            if not any(is_of_unknown_size(t) or may_be_a_size(t) for t in node.outputs):
                return
        operands = [self.most(tensor) for tensor in node.inputs]
        from_list = next((k for k, t in enumerate(node.inputs) if is_list(t)), None)
        if from_list is not None:
            of = self._held.get(node.inputs[from_list])
            effect = self.ops.keeps(node)
            bounds = [Most() if of is None else read(effect, of, one) for one in node.outputs]
        else:
            bounds = list(self.ops.bounds(node, operands))
        for tensor, most in zip(node.outputs, bounds, strict=True):
            if not is_of_unknown_size(tensor) and most.top is None:
                # The values of this tensor may become the size of another one.
                self._causes.put(tensor, self._causes.first_of(node.inputs))
                self._most[tensor] = Most.of(tensor) if most.value is None else most
                continue
            self._most[tensor] = most.at_most(self._fitted.get(tensor)).within(tensor.shape)
            if self._most[tensor].size is None:
                self._causes.blame(tensor, node, lambda one: self.most(one).size is not None)
            else:
                self._causes.put(tensor, None)

    def _list(self, node: Node) -> None:
        effect = self.ops.keeps(node)
        lists = [tensor for tensor in node.outputs if is_list(tensor)]
        if effect is None:
            for tensor in lists:
                self._causes.put(tensor, node)
            return
        operands = [(self.most(one), self._held.get(one, EMPTY)) for one in node.inputs]
        one = made(node, effect, operands, [self.nbytes(tensor) for tensor in node.inputs])
        self._held[lists[0]] = one
        for inner in lists[1:]:  # a list that was in a list
            self._held[inner] = Held(total=one.total, derived=one.derived, top=one.top)

    def _enter(self, graph: Graph, given: Sequence[_Known]) -> None:
        """Walk a sub-graph with the bounds of its operands."""
        known = tuple(given)
        if self._given.get(graph) == known:
            return
        self._given[graph] = known
        for tensor, (most, held, cause, is_open) in zip(graph.inputs, known, strict=False):
            if is_open or is_of_unknown_size(tensor) or most.value is not None:
                self._most[tensor] = most.within(tensor.shape)
            else:  # forget the bounds of another walk
                self._most.pop(tensor, None)
            self._causes.put(tensor, cause if most.size is None or held is UNKNOWN else None)
            if is_list(tensor):
                self._held[tensor] = held
        self._walk(graph)

    def _operand(self, tensor: Tensor) -> _Known:
        cause = self.cause(tensor)
        held = self._held.get(tensor, UNKNOWN if is_list(tensor) and cause else EMPTY)
        return self.most(tensor), held, cause, is_of_unknown_size(tensor)

    def _split(self, loop: Loop) -> None:
        for _, body in loop.subgraphs:
            sliced = loop.sliced(body)
            operands = [
                self._operand(inner if inner in sliced else outer)
                for inner, outer in zip(body.inputs, loop.inputs, strict=False)
            ]
            self._enter(body, operands)

    def _choice(self, node: Node) -> None:
        operands = [self._operand(tensor) for tensor in node.inputs]
        for _, sub in node.subgraphs:
            self._enter(sub, operands[len(operands) - len(sub.inputs) :])
        before = sum(one.total for _, one, _, _ in operands)
        for k, tensor in enumerate(node.outputs):
            results = [sub.outputs[k] for _, sub in node.subgraphs]
            if is_list(tensor):
                inner = [self._held.get(one, EMPTY) for one in results]
                self._held[tensor] = either(inner, before)
            if is_of_unknown_size(tensor) or may_be_a_size(tensor):
                most = self.most(results[0])
                for one in results[1:]:
                    most = most.join(self.most(one))
                self._set(tensor, most, results)

    def _while(self, node: Node) -> None:
        if not self._loops.recall(node, self._given_to(node)):
            self._iterate(node)
            self._loops.keep(node, self._given_to(node))

    def _given_to(self, node: Node) -> object:
        """Return everything on which the bounds of a While and of its sub-graphs depend."""
        fitted = [self._fitted.get(tensor) for tensor in node.outputs]
        operands = [self._operand(tensor) for tensor in node.inputs]
        return operands, fitted, [self._given.get(sub) for _, sub in node.subgraphs]

    def _iterate(self, node: Node) -> None:
        body, cond = body_of(node), cond_of(node)
        passed = [a is b for a, b in zip(body.inputs, body.outputs, strict=False)]
        times = self.iterations(node)
        counters = {} if times is None else self.ops.counted(node, times)
        counted = {
            tensor: Most(tensor.shape, tensor.size, (max(0, most),), max(0, -least))
            for tensor, (least, most) in counters.items()
        }
        first = []
        for tensor, same, result in zip(node.inputs, passed, node.outputs, strict=True):
            most, held, cause, is_open = self._operand(tensor)
            if not same:  # unless an iteration exceeds them, the first integers are a bound
                top = most.top if may_be_a_size(result) else None
                most = replace(most, value=None if top is None else (top,))
                most = counted.get(result, most)
            start = replace(held, growth=0, total=0, added=0, derived=True)
            first.append((most, start, cause, is_open))
        free = {k for k, tensor in enumerate(node.outputs) if tensor in counted}
        variables = self._followed(body, first, times, free)
        kept = dict(self.kept(node))
        for k, tensor in enumerate(node.outputs):
            if is_list(tensor):
                old = self._held.get(node.inputs[k], EMPTY)
                self._held[tensor] = after_loop(old, kept.get(k, EMPTY), times)
        final = []
        for tensor, (most, _, cause, is_open) in zip(node.outputs, variables, strict=True):
            one = self._held.get(tensor, EMPTY)
            one = replace(one, growth=0, added=0, derived=True)
            final.append((most, one, cause, is_open))
        self._enter(body, final)
        results = [self.most(tensor) for tensor in body.outputs]
        while self._grows(node, final) or self._exceeds(body, final, free, results):
            self._enter(body, final)
        self._enter(cond, final)
        for k, tensor in enumerate(node.outputs):
            value, below = final[k][0].value, final[k][0].below
            if is_of_unknown_size(tensor):
                self._set(tensor, final[k][0], [body.outputs[k], node.inputs[k]])
            elif may_be_a_size(tensor):
                self._most[tensor] = replace(Most.of(tensor), value=value, below=below)
        self._most.update(counted)

    def _exceeds(
        self, body: Graph, given: list[_Known], free: Set[int], results: Sequence[Most] = ()
    ) -> bool:
        """Forget bounds of integers that an iteration exceeds; return whether there were any.

        By induction, a bound of the initial value holds for all iterations if an iteration that
        begins within the bounds also ends within them. `free`: variables with another proof, such
        as counters. `results`: bounds of an earlier walk; a size that differs from them was derived
        from a bound that has been forgotten since.
        """
        found = False
        for k, (most, held, cause, is_open) in enumerate(given):
            before, result = body.inputs[k], body.outputs[k]
            after = self.most(result)
            follows = is_of_unknown_size(before) and most.size is not None
            if results and follows and after != results[k]:
                given[k] = Most().within(before.shape), held, cause or self.cause(result), True
                found = True
            elif k not in free and result is not before and not after.integers_within(most):
                given[k] = replace(most, value=None, below=0), held, cause, is_open
                found = True
        return found

    def _grows(self, node: Node, given: list[_Known]) -> bool:
        """Forget lengths and bounds of lists that an iteration changes; return whether it did."""
        found = False
        for k, kept in self.kept(node):
            most, one, cause, is_open = given[k]
            wider = replace(
                one,
                length=one.length if one.length == kept.length else None,
                top=one.top if one.top == kept.top else None,
            )
            if wider != one:
                found = True
                given[k] = most, wider, cause, is_open
                result = node.outputs[k]
                self._held[result] = replace(self._held[result], length=wider.length, top=wider.top)
        return found

    def _followed(
        self, body: Graph, variables: list[_Known], times: int | None, free: Set[int]
    ) -> list[_Known]:
        """Return bounds of a While's variables for all of its iterations, `times` if known."""
        exact = times is not None and times <= SETTINGS.followed
        # Bounds pass from one variable to the next: as many iterations suffice as there are.
        left = times if exact and times is not None else len(variables)
        while True:
            self._enter(body, variables)
            grown = list(variables)
            for k, (most, held, cause, is_open) in enumerate(variables):
                after = body.outputs[k]
                if not (is_open or is_of_unknown_size(body.inputs[k])):
                    continue
                joined = most.join(self.most(after)).within(body.inputs[k].shape)
                joined = replace(joined, value=most.value, below=most.below)
                if joined != most:
                    grown[k] = joined, held, cause or self.cause(after), True
            self._exceeds(body, grown, free)
            if grown == variables or (exact and left == 0) or left < -2 * len(variables):
                return variables
            if left <= 0:
                # Variables whose bounds still grow get none.
                grown = [
                    one if one == old else (Most().within(tensor.shape), one[1], one[2], True)
                    for one, old, tensor in zip(grown, variables, body.inputs, strict=True)
                ]
            left -= 1
            variables = grown

    def iterations(self, node: Node) -> int | None:
        """Return an upper bound of a While's iterations; None if there is none."""
        known = {}
        for tensor in node.inputs:
            if tensor.value is None and (top := self.most(tensor).top) is not None:
                known[tensor] = top
        return self.ops.iterations(node, known)

    def kept(self, node: Node) -> Iterator[tuple[int, Held]]:
        """Yield the positions of lists that a While changes, and their contents in the body."""
        body = body_of(node)
        for k, tensor in enumerate(body.outputs[: len(body.inputs)]):
            if is_list(tensor) and tensor is not body.inputs[k]:
                yield k, self._held.get(tensor, EMPTY)

    def _set(self, tensor: Tensor, most: Most, sources: Sequence[Tensor]) -> None:
        self._most[tensor] = most.at_most(self._fitted.get(tensor)).within(tensor.shape)
        if self._most[tensor].size is None:
            cause = self._causes.first_of(sources)
            if cause is not None:
                self._causes.put(tensor, cause)
