// The fusion rules; what the fused ops mean is in docs/design/fused_ops.md.
#pragma once

#include "src/ops/op_table.h"
#include "src/ops/rules.h"
#include "src/plan/fusion.h"

namespace gabbro {

inline const Op kLinearFused = {.name = "linear_fused"};
// Its attribute `epilogue`.
enum Epilogue : int64_t { kNoEpilogue = 0, kAddResidual = 1, kSiluMul = 2 };

inline const Op kRopeKvWrite = {.name = "rope_kv_write", .in_place = {5, 6, 9, 10}, .first_in_place = 1};

// The attribute `activation` of matmul_fused and batch_norm_fused; 0 is none.
struct FusedActivation {
  const Op* op;
  int64_t number;
};
inline constexpr FusedActivation kActivations[] = {{&kRelu, 1}, {&kGeluTanh, 2}, {&kSilu, 3}};

// Whether the activation of a value that is not rounded to `dtype` is that of the rounded one: results do not depend on
// fusion. Rounding keeps signs, so relu may follow in any dtype.
inline bool may_follow(const Op& activation, DType dtype) { return &activation == &kRelu || !is_half(dtype); }

void fuse_linears(Program& program, const HasKernel& has_kernel);         // linear.cc
void fuse_feed_forward(Program& program, const HasKernel& has_kernel);    // feed_forward.cc
void fuse_experts(Program& program, const HasKernel& has_kernel);         // experts.cc
void fuse_rope_kv_write(Program& program, const HasKernel& has_kernel);   // rope_kv_write.cc
void fuse_attention_step(Program& program, const HasKernel& has_kernel);  // attention_step.cc
void fuse_rank_sums(Program& program, const HasKernel& has_kernel);       // rank_sum.cc
void fuse_matmuls(Program& program, const HasKernel& has_kernel);         // matmul.cc
void fuse_attention_rows(Program& program, const HasKernel& has_kernel);  // attention_rows.cc
void fuse_elementwise(Program& program, const HasKernel& has_kernel);     // elementwise.cc
void fuse_norms(Program& program, const HasKernel& has_kernel);           // norm.cc

}  // namespace gabbro
