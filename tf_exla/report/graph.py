"""A graph as plain data for a report: the op, the inputs and the loop of each node."""

from __future__ import annotations

from dataclasses import dataclass

from tf_exla.ir.graph import Graph, Loop, Node, Tensor

INPUT = "input"


@dataclass(frozen=True, slots=True)
class GraphNode:
    """One node, described by its first output; `bytes` is the size of its largest output.

    `inputs` are positions of other nodes. `loop`: the number of the innermost loop around it, in
    the order of `MemoryReport.loops`; None outside. `output`: it makes a result of the program.
    """

    op: str
    name: str
    shape: tuple[int | None, ...]
    dtype: str
    bytes: int
    inputs: tuple[int, ...]
    loop: int | None = None
    output: bool = False


def graph_nodes(graph: Graph) -> tuple[GraphNode, ...]:
    """List the inputs and nodes of `graph`, with the body for one chunk in place of each loop."""
    made: list[GraphNode] = []
    place: dict[Tensor, int] = {}
    loops = 0

    def add(
        op: str, tensors: tuple[Tensor, ...], inputs: tuple[int, ...], loop: int | None
    ) -> None:
        first = tensors[0] if tensors else Tensor((), "")
        largest = max((tensor.nbytes for tensor in tensors), default=0)
        place.update(dict.fromkeys(tensors, len(made)))
        made.append(
            GraphNode(op, first.name, first.shape or (), first.dtype, largest, inputs, loop)
        )

    def places(node: Node) -> tuple[int, ...]:
        return tuple(dict.fromkeys(place[tensor] for tensor in node.inputs if tensor in place))

    def enter(body: Graph, node: Node, loop: int | None) -> None:
        # A loop's body may have more inputs: values carried over from the previous chunk.
        for inner, outer in zip(body.inputs, node.inputs, strict=False):
            if outer in place:
                place[inner] = place[outer]
        visit(body.nodes, loop)
        for inner, outer in zip(body.outputs, node.outputs, strict=True):
            if inner in place:
                place[outer] = place[inner]

    def visit(nodes: tuple[Node, ...], loop: int | None) -> None:
        nonlocal loops
        for node in nodes:
            if node.op == "xla_cluster":  # a run of nodes that XLA compiles: shown one by one
                (body,) = (inner for _, inner in node.subgraphs)
                enter(body, node, loop)
                continue
            if not isinstance(node, Loop):
                add(node.op, node.outputs, places(node), loop)
                continue
            number, loops = loops, loops + 1
            enter(node.body, node, number)

    for tensor in graph.inputs:
        add(INPUT, (tensor,), (), None)
    visit(graph.nodes, None)
    results = {place[tensor] for tensor in graph.outputs if tensor in place}
    return tuple(
        GraphNode(n.op, n.name, n.shape, n.dtype, n.bytes, n.inputs, n.loop, i in results)
        for i, n in enumerate(made)
    )
