// The visible list of all ops, by file: a declaration and a row of the table each.
#pragma once

#include <span>

#include "gabbro/ops.h"  // before the names of ops: g++ 12 takes enumerators such as Reduce::kSum for shadows of them
#include "src/graph/node.h"

namespace gabbro {

// view.cc
extern const Op kReshape, kBroadcast, kPermute, kSlice, kIdentity;
// elementwise.cc
extern const Op kNeg, kAbs, kExp, kLog, kSqrt, kRsqrt, kSin, kCos, kTanh, kSigmoid, kFloor, kErf;
extern const Op kAdd, kSub, kMul, kDiv, kMaximum, kMinimum, kLe, kLt, kLogicalAnd, kWhere, kCast;
extern const Op kPow, kEq, kNe, kGt, kGe, kLogicalOr, kClamp;
// elementwise_math.cc
extern const Op kCeil, kRound, kTrunc, kSign, kExpm1, kLog1p, kLog2, kLog10, kTan, kSinh, kCosh, kAsin, kAcos, kAtan;
extern const Op kAsinh, kAcosh, kAtanh, kAtan2, kHypot, kFloorDivide, kRemainder;
extern const Op kBitwiseAnd, kBitwiseOr, kBitwiseXor, kLeftShift, kRightShift;
// reduce.cc
extern const Op kSum, kMax, kMin, kProd, kArgmax, kArgmin, kCumsum;
// along_axis.cc
extern const Op kTakeAlong, kScatterAdd, kIndexAdd;
// indexing.cc
extern const Op kScatterSet;
// sort.cc, sampling.cc
extern const Op kSort, kTopk, kSampling;
// conv.cc, pool.cc, functions/resize.cc
extern const Op kIm2col, kConv, kConvTranspose, kConvWeightGradient, kPool, kMaxPoolGradient, kAdaptiveAvgPool2d,
    kUpsample2d;
// conv_nhwc.cc, group_norm_nhwc.cc
extern const Op kConvNhwc, kGroupNormNhwc;
// random.cc, loss.cc
extern const Op kRandom, kBce, kLabelLogProbability;
// layer_norm.cc
extern const Op kLayerNorm, kGroupNorm, kBatchNorm, kMoments, kBatchNormSums;
// flip.cc, recurrent.cc
extern const Op kFlip, kRecurrent, kRecurrentGradient;
// recurrence.cc
extern const Op kCausalConv, kSelectiveScan, kGatedDeltaRule;
// create.cc, matmul.cc, rows.cc
extern const Op kIota, kMatmul, kGather, kConcat, kDequantize;
// index_rules.cc
extern const Op kResolveIndex;
// activation.cc, rms_norm.cc, linear.cc, expert_linear.cc, rope.cc, kv_cache.cc, attention.cc,
// dot_product_attention.cc
extern const Op kRelu, kGelu, kGeluTanh;
extern const Op kSilu, kSoftmax, kLogSoftmax, kRmsNorm, kLinear, kEmbedding, kRope, kKvWrite, kAttention;
extern const Op kExpertLinear, kDotProductAttention, kLatentAttention;
// rank_sum.cc; it is of a group's devices, and no row of the table
extern const Op kRankSum;

// clang-format off
inline constexpr const Op* kOpTable[] = {
    // view.cc
    &kReshape, &kBroadcast, &kPermute, &kSlice, &kIdentity,
    // elementwise.cc
    &kNeg, &kAbs, &kExp, &kLog, &kSqrt, &kRsqrt, &kSin, &kCos, &kTanh, &kSigmoid, &kFloor, &kErf,
    &kAdd, &kSub, &kMul, &kDiv, &kMaximum, &kMinimum, &kLe, &kLt, &kLogicalAnd, &kWhere, &kCast,
    &kPow, &kEq, &kNe, &kGt, &kGe, &kLogicalOr, &kClamp,
    // elementwise_math.cc
    &kCeil, &kRound, &kTrunc, &kSign, &kExpm1, &kLog1p, &kLog2, &kLog10, &kTan, &kSinh, &kCosh, &kAsin, &kAcos,
    &kAtan, &kAsinh, &kAcosh, &kAtanh, &kAtan2, &kHypot, &kFloorDivide, &kRemainder,
    &kBitwiseAnd, &kBitwiseOr, &kBitwiseXor, &kLeftShift, &kRightShift,
    // reduce.cc
    &kSum, &kMax, &kMin, &kProd, &kArgmax, &kArgmin, &kCumsum,
    // along_axis.cc
    &kTakeAlong, &kScatterAdd, &kIndexAdd,
    // indexing.cc
    &kScatterSet,
    // sort.cc, sampling.cc
    &kSort, &kTopk, &kSampling,
    // conv.cc, pool.cc, functions/resize.cc
    &kIm2col, &kConv, &kConvTranspose, &kConvWeightGradient, &kPool, &kMaxPoolGradient, &kAdaptiveAvgPool2d,
    &kUpsample2d,
    // conv_nhwc.cc, group_norm_nhwc.cc
    &kConvNhwc, &kGroupNormNhwc,
    // random.cc, loss.cc
    &kRandom, &kBce, &kLabelLogProbability,
    // layer_norm.cc
    &kLayerNorm, &kGroupNorm, &kBatchNorm, &kMoments, &kBatchNormSums,
    // flip.cc, recurrent.cc
    &kFlip, &kRecurrent, &kRecurrentGradient,
    // recurrence.cc
    &kCausalConv, &kSelectiveScan, &kGatedDeltaRule,
    // create.cc, matmul.cc, rows.cc
    &kIota, &kMatmul, &kGather, &kConcat, &kDequantize,
    // index_rules.cc
    &kResolveIndex,
    // activation.cc, rms_norm.cc, linear.cc, expert_linear.cc, rope.cc, kv_cache.cc, attention.cc,
    // dot_product_attention.cc
    &kRelu, &kGelu, &kGeluTanh,
    &kSilu, &kSoftmax, &kLogSoftmax, &kRmsNorm, &kLinear, &kEmbedding, &kRope, &kKvWrite, &kAttention,
    &kExpertLinear, &kDotProductAttention, &kLatentAttention,
};
// clang-format on

inline std::span<const Op* const> op_table() { return kOpTable; }

}  // namespace gabbro
