"""Records of ops without an axis rule."""

from __future__ import annotations

from collections.abc import Mapping

from tf_exla.frontends.tf.ops.bounds import sizes
from tf_exla.frontends.tf.ops.memory import cpu
from tf_exla.frontends.tf.ops.memory.call import nothing
from tf_exla.frontends.tf.ops.record import Op, many, moved

DATA_SIZE = "its size depends on the values of its operands"
STATEFUL_RANDOM = "it draws other numbers each time, and is never split nor computed twice"
# Eager calls replace these ops, except in loops and branches (`random_state.py`).
KERNEL_STATE = "in graphs and loops its kernel has the state, never split nor computed twice"

OPS: Mapping[str, Op] = {
    "AssignVariableOp": moved(stores=1),
    **many(Op(size="not smaller"), "BatchMatrixBandPart BatchMatrixDiag"),
    **many(Op(bounds=sizes.axes), "BroadcastArgs BroadcastGradientArgs"),
    **many(Op(reason="it holds sub-graphs, which are split one by one"), """
        Case If StatelessCase StatelessIf"""),
    "Const": moved(),
    **many(Op(bounds=sizes.decoded), "CTCBeamSearchDecoder CTCGreedyDecoder"),
    "DeepCopy": moved(flops=1),
    "DenseToDenseSetOperation": Op(bounds=sizes.set_operation(0, 1)),
    "DenseToSparseSetOperation": Op(bounds=sizes.set_operation(0, 2)),
    "DynamicPartition": Op(reason=DATA_SIZE, bounds=sizes.partitioned),
    "Empty": moved(flops=1, shape_operand=0),
    "ListDiff": Op(reason=DATA_SIZE, bounds=sizes.rows_of(0), cpu=cpu.difference),
    "loop": Op(),
    **many(Op(reason=STATEFUL_RANDOM), "Multinomial RandomGamma RandomPoissonV2 RandomShuffle"),
    "NoOp": moved(),
    **many(Op(bounds=sizes.picked), "NonMaxSuppression NonMaxSuppressionV2"),
    **many(Op(reason=DATA_SIZE, bounds=sizes.picked), """
        NonMaxSuppressionV3 NonMaxSuppressionV4 NonMaxSuppressionV5"""),
    "ParameterizedTruncatedNormal": Op(reason=STATEFUL_RANDOM, shape_operand=0),
    **many(Op(reason=KERNEL_STATE, shape_operand=0), """
        RandomStandardNormal RandomUniform RandomUniformInt TruncatedNormal"""),
    **many(Op(reason="it is a call that is not inlined"), """
        PartitionedCall StatefulPartitionedCall"""),
    **many(Op(flops=0), "Placeholder VarHandleOp"),
    **many(Op(bounds=sizes.of_total, cpu=cpu.row_slices), "ragged_gather ragged_range"),
    "RaggedTensorToTensor": Op(bounds=sizes.padded, cpu=cpu.padded),
    **many(Op(cpu=cpu.of_variable), """
        ResourceScatterAdd ResourceScatterDiv ResourceScatterMax ResourceScatterMin
        ResourceScatterMul ResourceScatterSub ResourceScatterUpdate ResourceScatterNdAdd
        ResourceScatterNdMax ResourceScatterNdMin ResourceScatterNdSub ResourceScatterNdUpdate"""),
    "running_top_k": Op(cpu=cpu.running_top_k),
    **many(Op(bounds=sizes.rows_of_both(0, 3)), """
        SparseAdd SparseSparseMaximum SparseSparseMinimum"""),
    **many(Op(bounds=sizes.crossed), "SparseCross SparseCrossHashed SparseCrossV2"),
    "SparseFillEmptyRows": Op(bounds=sizes.filled_rows),
    **many(Op(cpu=cpu.reordered), "SparseReduceMax SparseSoftmax"),
    **many(Op(bounds=sizes.rows_of(0), cpu=cpu.reordered),
        "SparseReduceMaxSparse SparseReduceSumSparse"),
    "SparseReduceSum": Op(bounds=sizes.dense, cpu=cpu.reordered),
    "SparseSlice": Op(bounds=sizes.rows_of(0)),
    "SparseToDense": Op(shape_operand=1),
    "SparseToSparseSetOperation": Op(bounds=sizes.set_operation(1, 4)),
    **many(Op(reason="its iterations depend on each other"), "StatelessWhile While"),
    **many(Op(reason=DATA_SIZE, bounds=sizes.unique, cpu=cpu.distinct), """
        Unique UniqueV2 UniqueWithCounts UniqueWithCountsV2"""),
    "Where": Op(reason=DATA_SIZE, bounds=sizes.where, cpu=nothing),
}  # fmt: skip
