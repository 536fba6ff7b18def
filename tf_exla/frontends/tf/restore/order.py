"""Order: the control edges that make large ops of a graph wait for earlier ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import tensorflow as tf
from tensorflow.python.framework import func_graph

from tf_exla.frontends.tf.nodes.emit import emit
from tf_exla.ir.graph import Node
from tf_exla.model.concurrency import Place


class Order:
    """The order of the large ops of one graph, which is being emitted.

    The large ops of a node run one after the other, and after the nodes that its place names, or
    after all nodes before it if it has no place. Nodes that are emitted while another node is
    emitted count as parts of it.
    """

    def __init__(self, graph: func_graph.FuncGraph, places: Mapping[Node, Place]) -> None:
        self.places = places
        self._graph = graph
        self._depth = 0
        self._last: tf.Operation | None = None  # last large op of the node being emitted
        self._finished: tf.Operation | None = None  # waits for all nodes not in `_running`
        self._running: list[tuple[int, tf.Operation, tf.Operation | None]] = []

    @property
    def last(self) -> tf.Operation | None:
        """The op that the next large op waits for."""
        if self._depth:
            return self._last
        self._finish(None)
        return self._finished

    @last.setter
    def last(self, op: tf.Operation) -> None:
        if self._depth:
            self._last = op
        else:
            self._finished, self._running = op, []

    def begin(self, node: Node) -> None:
        """Begin emitting the ops of a node."""
        if self._depth == 0:
            place = self.places.get(node)
            self._finish(None if place is None else place.after)
            self._last = self._finished
        self._depth += 1

    def end(self, node: Node) -> None:
        """End emitting the ops of a node."""
        self._depth -= 1
        if self._depth == 0 and self._last is not None and self._last is not self._finished:
            place = self.places.get(node)
            position = -1 if place is None else place.position
            self._running.append((position, self._last, self._finished))

    @contextmanager
    def around(self) -> Iterator[list[tf.Tensor]]:
        """Order the ops that TensorFlow's own functions add in this context as one large op.

        The caller puts the results into the yielded list; later large ops wait for them.
        """
        results: list[tf.Tensor] = []
        last = [] if self.last is None else [self.last]
        with self._graph.as_default(), tf.control_dependencies(last):
            yield results
        self.wait_for(results)

    def wait_for(self, results: Sequence[tf.Tensor]) -> None:
        """Make later large ops wait for results.

        The results are read: a control edge from an `If` waits only until the branch is chosen, not
        until it has run.
        """
        read = [
            emit(self._graph, "Identity", [result], {}, name="done")
            for result in results
            if result.dtype not in (tf.resource, tf.variant)
        ]
        if read:
            self.last = emit(self._graph, "NoOp", [], {}, control=read, name="done")

    def _finish(self, count: int | None) -> None:
        """Make the next node wait for the first `count` nodes of the graph, or for all if None."""
        ended = [one for one in self._running if count is None or one[0] < count]
        if not ended:
            return
        self._running = [one for one in self._running if one not in ended]
        if len(ended) == 1 and ended[0][2] is self._finished:
            self._finished = ended[0][1]
            return
        before = [] if self._finished is None else [self._finished]
        control = [*before, *(op for _, op, _ in ended)]
        self._finished = emit(self._graph, "NoOp", [], {}, control=control, name="done")
