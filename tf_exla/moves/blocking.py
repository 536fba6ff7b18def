"""Blocking: contractions become loops over blocks of the axis that they reduce.

This is done after all splits, since such a loop is not split along its other axes any more.
"""

from __future__ import annotations

from tf_exla.ir.builder import Builder, make_node
from tf_exla.ir.contraction import BLOCK, Contraction, contraction_of
from tf_exla.ir.graph import COMBINING, Graph, Loop, LoopResult, Node, SplitAxis, Tensor
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.traverse import with_subgraphs
from tf_exla.split.loops.resize import chunk_shape, cut_with_tensors
from tf_exla.split.loops.unrolling import Unroller


def write_out(graph: Graph, ops: OpSet) -> Graph:
    """Replace all contractions of a graph and its sub-graphs by loops."""
    nodes: list[Node] = []
    for node in graph.nodes:
        one = contraction_of(node)
        nodes += [_inside(node, ops)] if one is None else written_out(node, one, ops)
    return graph.with_nodes(nodes)


def _inside(node: Node, ops: OpSet) -> Node:
    return (
        node if node.op == "xla_cluster" else with_subgraphs(node, lambda sub: write_out(sub, ops))
    )


def written_out(node: Node, one: Contraction, ops: OpSet) -> list[Node]:
    """Return the loop that replaces a contraction, after the nodes that permute its operands."""
    w = Builder(node, ops)
    operands: list[Tensor] = []
    slots: list[SplitAxis | None] = []
    for tensor, slot in zip(node.inputs, one.slots, strict=True):
        if slot is not None and _is_strided(tensor, slot):
            others = [axis for axis in range(len(tensor.dims)) if axis != slot.axis]
            tensor = w.op("permute_dims", tensor, w.const([slot.axis, *others]))
            slot = SplitAxis(0)
        operands.append(tensor)
        slots.append(slot)
    block = min(BLOCK, one.extent)
    rest = one.extent % block
    loop = Loop(
        op="loop",
        inputs=tuple(operands),
        outputs=node.outputs,
        name=node.name,
        source=node.source,
        extent=one.extent,
        chunk=block,
        body=_body(ops, one, operands, slots, block, node.name),
        remainder=_body(ops, one, operands, slots, rest, node.name) if rest else None,
        slots=tuple(slots),
        results=(LoopResult(one.combine, accumulates_in_body=True),),
        axis=f"the axis that {node.name} reduces",
    )
    return [*w.nodes, loop]


def _is_strided(tensor: Tensor, slot: SplitAxis) -> bool:
    return any(size > 1 for size in tensor.dims[: slot.axis])


def _body(
    ops: OpSet,
    one: Contraction,
    operands: list[Tensor],
    slots: list[SplitAxis | None],
    size: int,
    name: str,
) -> Graph:
    """Return the body for a block of `size` indices, unrolled.

    Its last input is the result of the previous blocks. Each block is summed by itself before it is
    added to that result. So the rounding error grows with the size of a block plus the number of
    blocks, not with their product.
    """
    template, mirror = cut_with_tensors(ops, one.template, {}, 0)
    chunks: list[Tensor] = []
    stand_ins: list[Tensor] = []
    outermost: dict[tuple[Tensor, SplitAxis], Tensor] = {}
    for inner, operand, slot, own in zip(template.inputs, operands, slots, one.slots, strict=True):
        chunk = stand_in = Tensor(chunk_shape(operand, slot, size), inner.dtype, inner.name)
        if own is not None and own != slot:  # the operand was permuted
            stand_in = Tensor(chunk_shape(inner, own, size), inner.dtype, inner.name)
            outermost[stand_in, own] = chunk
        chunks.append(chunk)
        stand_ins.append(stand_in)
    (result,) = template.outputs
    part = Tensor(result.shape, result.dtype, result.name)
    before = Tensor(result.shape, result.dtype, f"{result.name}/before")
    unroller = Unroller(ops, share=False, outermost=outermost)
    nodes = unroller.written_out(
        Loop(
            op="loop",
            inputs=tuple(stand_ins),
            outputs=(part,),
            name=name,
            extent=size,
            chunk=1,
            slots=one.slots,
            results=(LoopResult(one.combine),),
            template=template,
            split_axes={mirror[tensor]: slot for tensor, slot in one.carried.items()},
        )
    )
    combine = COMBINING[one.combine]
    made = make_node(ops, combine, (before, part), {}, f"{name}/{one.combine}")
    constants = (node for node in template.nodes if node.op == "constant")
    return Graph((*chunks, before), (*constants, *nodes, made), made.outputs)
