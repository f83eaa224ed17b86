#include "src/ops/op_table.h"

namespace gabbro {

std::span<const Op* const> op_table() {
  static constexpr const Op* kTable[] = {
      &kReshape,
      &kBroadcast,
      &kPermute,
      &kSlice,  // views
      &kNeg,
      &kAbs,
      &kExp,
      &kLog,
      &kSqrt,
      &kRsqrt,
      &kSin,
      &kCos,
      &kTanh,  // unary
      &kSigmoid,
      &kFloor,
      &kErf,
      &kRelu,
      &kGelu,
      &kGeluTanh,  //
      &kAdd,
      &kSub,
      &kMul,
      &kDiv,
      &kMaximum,
      &kMinimum,
      &kLe,
      &kLt,  // binary
      &kPow,
      &kEq,
      &kNe,
      &kGt,
      &kGe,
      &kLogicalOr,
      &kClamp,
      &kLogicalAnd,
      &kWhere,
      &kCast,  //
      &kSum,
      &kMax,
      &kMin,
      &kProd,
      &kArgmax,
      &kArgmin,
      &kCumsum,  // reductions
      &kTakeAlong,
      &kScatterAdd,
      &kIndexAdd,
      &kSort,
      &kTopk,  // sorting
      &kIm2col,
      &kConv,
      &kConvTranspose,
      &kPool,
      &kAdaptiveAvgPool2d,
      &kUpsample2d,
      &kIota,
      &kRandom,
      &kMatmul,
      &kGather,
      &kConcat,
      &kDequantize,  //
      &kSilu,
      &kSoftmax,
      &kLogSoftmax,
      &kRmsNorm,
      &kLayerNorm,
      &kGroupNorm,
      &kBatchNorm,
      &kMoments,
      &kLinear,
      &kEmbedding,
      &kRope,
      &kKvWrite,
      &kAttention,  // networks
  };
  return kTable;
}

}  // namespace gabbro
