"""Records of ops whose results do not come from data: ranges, shapes, random numbers."""

from __future__ import annotations

from collections.abc import Mapping

from tf_exla.frontends.tf.ops.bounds import sizes, values
from tf_exla.frontends.tf.ops.memory import cpu
from tf_exla.frontends.tf.ops.record import Op, many, moved, without_scratch
from tf_exla.vocabulary.rules.builders import made_whole, whole

OPS: Mapping[str, Op] = {
    "InvertPermutation": without_scratch(whole, size="not larger"),
    "LinSpace": moved(made_whole, shape_operand=2),
    "random_rows": Op(cpu=cpu.random_rows),
    "Range": moved(bounds=sizes.ranged),
    "Rank": moved(whole),
    "ReadVariableOp": moved(view="always"),
    "Shape": moved(values=values.shape),
    "ShapeN": Op(whole, flops=0, values=values.shape),
    "Size": moved(values=values.size),
    **many(Op(made_whole), """
        SobolSample StatelessMultinomial StatelessParameterizedTruncatedNormal
        StatelessRandomBinomial StatelessRandomGammaV2 StatelessRandomGammaV3
        StatelessRandomNormal StatelessRandomPoisson StatelessRandomUniform
        StatelessRandomUniformFullInt StatelessRandomUniformInt StatelessTruncatedNormal"""),
    **many(Op(shape_operand=0), """
        StatelessRandomNormalV2 StatelessRandomUniformFullIntV2 StatelessRandomUniformIntV2
        StatelessRandomUniformV2 StatelessTruncatedNormalV2"""),
    "StatelessShuffle": Op("A ..., _, _, _ -> A ..."),
}  # fmt: skip
