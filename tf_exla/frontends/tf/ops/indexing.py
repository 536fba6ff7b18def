"""Records of ops that read or write by index: gather, scatter, segments."""

from __future__ import annotations

from collections.abc import Mapping

from tf_exla.frontends.tf.ops.bounds import sizes, values
from tf_exla.frontends.tf.ops.memory import cpu
from tf_exla.frontends.tf.ops.record import Op, many, moved, without_scratch
from tf_exla.frontends.tf.ops.rules.moving import (
    resource_gather,
    resource_gather_nd,
    sorted_segments,
    stitch,
    unravel,
)
from tf_exla.vocabulary import flops, lookups
from tf_exla.vocabulary.rules.indexing import (
    gather,
    gather_nd,
    segments,
    tensor_scatter,
)

OPS: Mapping[str, Op] = {
    **many(Op(stitch, bounds=sizes.stitched, values=values.stitched), """
        DynamicStitch ParallelDynamicStitch"""),
    "Gather": Op(gather, flops=0, lookups=lookups.gathered),
    "GatherNd": moved(gather_nd, lookups=lookups.points, values=values.of_operand),
    "GatherV2": moved(values=values.of_operand),
    "OneHot": moved(xla="well", shape_operand=1),
    "ResourceGather": Op(resource_gather, flops=0, lookups=lookups.of_indices,
        bounds=sizes.gathered),
    "ResourceGatherNd": Op(resource_gather_nd, lookups=lookups.points, bounds=sizes.gathered),
    "ScatterNd": without_scratch(shape_operand=2, unordered=True),
    **many(Op(tensor_scatter), "ScatterNdNonAliasingAdd TensorScatterMax TensorScatterMin"),
    "scatter_rows": Op(cpu=cpu.scatter_rows(0)),
    **many(Op(sorted_segments, bounds=sizes.segments(1)), """
        SegmentMean SegmentProd SegmentSum"""),
    **many(Op(sorted_segments, bounds=sizes.segments(1), chooses=True), "SegmentMax SegmentMin"),
    **many(Op(sorted_segments, bounds=sizes.segments(2)), """
        SparseSegmentMean SparseSegmentSqrtN SparseSegmentSum"""),
    **many(Op(sorted_segments), """
        SparseSegmentMeanGrad SparseSegmentMeanWithNumSegments SparseSegmentSqrtNGrad
        SparseSegmentSqrtNWithNumSegments SparseSegmentSumGrad SparseSegmentSumWithNumSegments"""),
    "TensorScatterAdd": without_scratch(unordered=True),
    "TensorScatterSub": Op(unordered=True),
    "TensorScatterUpdate": moved(),
    "UnravelIndex": Op(unravel),
    "UnsortedSegmentMax": Op(segments("max"), flops=flops.per_operand,
        lookups=lookups.segments, cpu=cpu.rows_of_segments, shape_operand=2),
    "UnsortedSegmentMin": Op(segments("min"), flops=flops.per_operand,
        lookups=lookups.segments, cpu=cpu.rows_of_segments, shape_operand=2),
    "UnsortedSegmentProd": Op(segments("mul"), flops=flops.per_operand,
        lookups=lookups.segments, cpu=cpu.rows_of_segments, shape_operand=2, unordered=True),
    "UnsortedSegmentSum": Op(cpu=cpu.rows_of_segments, shape_operand=2, unordered=True),
    "update_rows": Op(cpu=cpu.scatter_rows(1)),
}  # fmt: skip
