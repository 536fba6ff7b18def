"""Records of ops that compute each element of their result from one element of each operand."""

from __future__ import annotations

from collections.abc import Mapping

from tf_exla.frontends.tf.ops import list_effects, xla, xla_forms
from tf_exla.frontends.tf.ops.bounds import values
from tf_exla.frontends.tf.ops.memory import cpu, gpu
from tf_exla.frontends.tf.ops.memory.call import nothing
from tf_exla.frontends.tf.ops.record import (
    Op,
    binary,
    comparison,
    many,
    pairwise,
    unary,
    unforwarded,
    unmeasured,
    view,
)
from tf_exla.frontends.tf.ops.rules.arithmetic import bias, quantized, quantized_grad, select
from tf_exla.frontends.tf.ops.rules.moving import bitcast
from tf_exla.ir.lists import ListEffect
from tf_exla.vocabulary import rebuild
from tf_exla.vocabulary.table import EXP_FLOPS

OPS: Mapping[str, Op] = {
    **many(unary(xla="well"), "Ceil Floor LeakyRelu LogicalNot Relu Sign Softsign"),
    "Abs": unary(xla="well", values=values.absolute),
    "Neg": unary(xla="well", values=values.negated),
    "Square": unary(xla="well", values=values.squared),
    **many(unary(xla="poorly"), "Acos Acosh Asin Asinh Atan Atanh Tan"),
    "Add": binary(xla="well", values=values.added),
    "AddN": unforwarded(reuses=tuple(range(64)), xla="well", list_effect=ListEffect(anew=True)),
    "AddV2": binary(xla="well", values=values.added, list_effect=ListEffect(anew=True)),
    "Angle": unforwarded(flops=16),
    **many(unmeasured(2), """
        ApproximateEqual BitwiseOr BitwiseXor FakeQuantWithMinMaxArgsGradient LeftShift
        RandomGammaGrad RightShift SeluGrad"""),
    "Atan2": binary(xla="poorly"),
    **many(unmeasured(1), """
        BesselI0 BesselI1 BesselJ0 BesselJ1 BesselK0 BesselK0e BesselK1 BesselK1e BesselY0
        BesselY1 Bucketize CheckNumericsV2 Dawsn DebugGradientIdentity Expint
        FakeQuantWithMinMaxArgs FresnelCos FresnelSin GuaranteeConst Invert PopulationCount
        Spence"""),
    **many(unary(), "BesselI0e BesselI1e"),
    "Betainc": unmeasured(3, flops=200, cpu=cpu.broadcast_blocks),
    "BiasAdd": Op(bias, cpu=cpu.broadcast_blocks, gpu=nothing, reuses=(0,), xla="poorly"),
    "BiasAddV1": Op(bias),
    "Bitcast": Op(bitcast, cpu=nothing, gpu=gpu.moved, view="always"),
    "BitwiseAnd": unmeasured(2, values=values.mask),
    "Cast": unforwarded(view="same", xla=xla.cast, values=values.cast),
    "CheckNumerics": unforwarded(view="always", size="equal"),
    # XLA's code loses NaNs, and returns the other bound if the lower one is above the upper one.
    "ClipByValue": binary(rule="..., ..., ... -> ...", reuses=(0,), values=values.clipped),
    "Complex": unmeasured(2, cpu=cpu.broadcast_blocks, xla="poorly"),
    "ComplexAbs": unforwarded(flops=16, xla="poorly"),
    **many(unforwarded(xla="poorly"), "Conj Imag Real"),
    **many(unary(xla=xla.not_in_float32), "Cos Sin"),
    **many(unary(xla="well"), "Cosh Sinh"),
    **many(unary(flops=150), "Digamma Erfinv Lgamma Ndtri"),
    **many(binary(flops=4, xla=xla.real), "Div RealDiv"),
    "DivNoNan": binary(flops=4, xla="well"),
    **many(unary(flops=EXP_FLOPS, compiled=20, xla="well"), "Elu Selu"),
    **many(unary(xla="well"), "Exp Expm1 Log Log1p Sigmoid Softplus Tanh"),
    "EluGrad": pairwise(flops=3),
    "EnsureShape": view(),
    **many(comparison(), "Equal Greater GreaterEqual Less LessEqual NotEqual"),
    **many(unary(), "Erf Erfc"),
    "FakeQuantWithMinMaxVars": Op("..., _, _ -> ..."),
    "FakeQuantWithMinMaxVarsGradient": Op(quantized_grad()),
    "FakeQuantWithMinMaxVarsPerChannel": Op("... c, c, c -> ... c"),
    "FakeQuantWithMinMaxVarsPerChannelGradient": Op(quantized_grad(by_channel=True)),
    "FloorDiv": binary(xla=xla.real, values=values.quotient),
    "FloorMod": binary(xla=xla.real, values=values.remainder),
    "Identity": view(xla="well", list_effect=list_effects.wrapped),
    "StopGradient": view(xla="well", list_effect=ListEffect()),
    "IdentityN": unforwarded(list_effect=list_effects.wrapped, view="always", size="equal"),
    **many(binary(flops=200), "Igamma Zeta"),
    "IgammaGradA": unmeasured(2, flops=200),
    **many(unmeasured(2, flops=200, cpu=cpu.broadcast_blocks), "Igammac Polygamma"),
    **many(unary(flops=4, xla="well"), "Inv Reciprocal Rsqrt Sqrt"),
    **many(pairwise(form=xla_forms.reciprocal_grad), "InvGrad ReciprocalGrad"),
    **many(unforwarded(xla="well"), "IsFinite IsInf IsNan"),
    "LeakyReluGrad": unmeasured(2, xla="well"),
    **many(binary(xla="well"), "LogicalAnd LogicalOr MulNoNan"),
    "Maximum": binary(xla=xla.no_nan, form=xla_forms.extreme("GreaterEqual"),
        values=values.largest),
    "Minimum": binary(xla=xla.no_nan, form=xla_forms.extreme("LessEqual"), values=values.minimum),
    "Mod": binary(flops=4, xla=xla.slow_real, values=values.remainder),
    "Mul": binary(xla="well", values=values.product),
    "NextAfter": binary(),
    **many(unforwarded(xla="well", size="equal", list_effect=ListEffect(anew=True)), """
        OnesLike ZerosLike"""),
    "PlaceholderWithDefault": unmeasured(1, flops=0, rebuild=rebuild.declared_shape),
    "Pow": binary(xla=xla.real),
    "PreventGradient": unforwarded(view="always", xla="poorly", size="equal"),
    **many(Op(quantized), """
        QuantizeAndDequantizeV2 QuantizeAndDequantizeV3 QuantizeAndDequantizeV4"""),
    "Relu6": unary(xla=xla.no_nan),
    "Relu6Grad": unmeasured(2, xla=xla.no_nan),
    "ReluGrad": pairwise(),
    "Rint": unary(xla="poorly"),
    "Round": unary(xla=xla.slow_real),
    "RsqrtGrad": pairwise(flops=4, form=xla_forms.rsqrt_grad),
    "Select": unforwarded(rule=select, reuses=(1, 2), xla="well"),
    "SelectV2": binary(reuses=(1, 2), xla="well",
        values=values.either),
    "SigmoidGrad": pairwise(flops=3, form=xla_forms.sigmoid_grad),
    "Snapshot": unforwarded(reuses=(0,), xla="poorly", values=values.of_operand,
        list_effect=ListEffect()),
    **many(pairwise(flops=3, xla="well"), "SoftplusGrad TanhGrad"),
    "SoftsignGrad": pairwise(xla="well"),
    "SqrtGrad": pairwise(flops=4, form=xla_forms.sqrt_grad),
    "SquaredDifference": binary(xla="well"),
    "Sub": binary(xla="well", values=values.difference),
    "TruncateDiv": binary(values=values.quotient),
    "TruncateMod": binary(flops=4, values=values.remainder),
    "Xdivy": binary(xla="poorly"),
    "Xlog1py": unmeasured(2, flops=EXP_FLOPS, cpu=cpu.broadcast_blocks, xla="poorly"),
    "Xlogy": binary(flops=EXP_FLOPS, xla="poorly"),
}  # fmt: skip
