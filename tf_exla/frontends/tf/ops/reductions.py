"""Records of ops that reduce axes, search along them, sort or accumulate."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from tf_exla.frontends.tf.ops import xla
from tf_exla.frontends.tf.ops.bounds import sizes, values
from tf_exla.frontends.tf.ops.memory import cpu, gpu
from tf_exla.frontends.tf.ops.memory.call import copy_of_output, nothing
from tf_exla.frontends.tf.ops.record import Op, many, reducer, without_scratch
from tf_exla.frontends.tf.ops.rules.arithmetic import bias_grad, counts, histogram, sum_all
from tf_exla.vocabulary import flops
from tf_exla.vocabulary.rules.builders import along, reduction

cumulative = partial(without_scratch, along(1, keeps=True), flops=flops.accumulated, work="serial",
    cpu=copy_of_output, gpu=nothing, size="not larger")  # fmt: skip

OPS: Mapping[str, Op] = {
    "All": reducer(reduction("and")),
    "Any": reducer(reduction("or")),
    **many(without_scratch(along(1, keeps=False), flops=flops.searched, gpu=gpu.reduction,
        size="not larger", values=values.position), """
        ArgMax ArgMin"""),
    "BiasAddGrad": without_scratch(bias_grad, flops=flops.per_operand, cpu=cpu.channel_sums,
        gpu=gpu.sums, unordered=True),
    **many(Op(counts(weights_at=2), bounds=sizes.counted), "Bincount DenseBincount"),
    "Cumprod": cumulative(),
    "Cumsum": cumulative(values=values.running),
    "CumulativeLogsumexp": Op(along(1, keeps=True), cpu=copy_of_output),
    "EuclideanNorm": Op(),
    "HistogramFixedWidth": Op(histogram, cpu=cpu.histogram, values=values.size),
    "InTopK": Op("a B, a -> a"),
    "InTopKV2": Op("a B, a, _ -> a"),
    "IsotonicRegression": Op("... A -> ... A, ... A"),
    "L2Loss": without_scratch(sum_all, flops=flops.per_operand, gpu=gpu.sums),
    **many(without_scratch(cpu=cpu.softmax, gpu=gpu.softmax,
        reuses=(0,), xla="poorly", size="not larger"), """
        LogSoftmax Softmax"""),
    **many(without_scratch("a b, a c -> a c ; add b"), "LowerBound UpperBound"),
    "Max": reducer(xla=xla.no_nan, values=values.of_operand),
    "max_with_position": Op(),
    "Mean": reducer(xla=xla.short_mean),
    "Min": reducer(xla=xla.no_nan, values=values.of_operand),
    "min_with_position": Op(),
    "NearestNeighbors": Op("a D, C D, _ -> a K, a K"),
    "NthElement": Op("... A, _ -> ...", cpu=cpu.nth_element, chooses=True),
    "Prod": reducer(xla=xla.short_sum, values=values.power),
    "radix_counts": Op(cpu=cpu.radix_counts),
    "radix_step": Op(cpu=cpu.radix_step),
    "radix_values": Op(),
    "SoftmaxCrossEntropyWithLogits": without_scratch(
        cpu=cpu.cross_entropy, gpu=gpu.cross_entropy),
    "SparseSoftmaxCrossEntropyWithLogits": without_scratch(
        cpu=cpu.number_of_each_row, gpu=gpu.cross_entropy),
    "Sum": reducer(xla=xla.short_sum, values=values.total),
    "TopKV2": without_scratch(cpu=cpu.top_k, gpu=gpu.top_k, values=values.top_k, shape_operand=1),
}  # fmt: skip
