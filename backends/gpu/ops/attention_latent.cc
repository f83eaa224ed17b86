// `latent_attention` over the paged cache of latents.
#include "kernels/attention/attention_latent.h"

#include <algorithm>

#include "backends/common/attention_request.h"
#include "backends/gpu/kernel_table.h"
#include "backends/gpu/ops/kv_views.h"

namespace gabbro::gpu {
namespace {

class LatentAttention : public Kernel {
 public:
  LatentAttention(const LatentAttentionArgs& fixed, int64_t tokens, int64_t heads, int64_t capacity, KvType type,
                  const MakeContext& context)
      : fixed_(fixed), tokens_(tokens), heads_(heads), type_(type) {
    const std::string name = std::string("latent_attention_") + type_suffix(type);
    function_ = context.function(name);
    merge_ = context.function("attention_merge");
    const int64_t blocks = tokens * ((heads + kLatentHeads - 1) / kLatentHeads);
    const int64_t wanted = std::min(api::resident_blocks(function_) / blocks, capacity / kLatentShare);
    fixed_.splits = static_cast<i32>(std::clamp<int64_t>(wanted, 1, kMaxSplits));
    if (fixed_.splits > 1)
      scratch_bytes =
          static_cast<size_t>(tokens * heads * fixed_.splits * partial_floats(fixed_.values)) * sizeof(float);
    implementation = name + (fixed_.splits == 1 ? "" : " in " + std::to_string(fixed_.splits));
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    using In = abi::AttentionInput;
    LatentAttentionArgs args = fixed_;
    args.q = heads_view(launch.inputs[In::kQ]);
    args.latents = side(launch, In::kKeys, has_scales(type_) ? In::kKeyScale : -1);
    args.table = page_table(launch.inputs[In::kPageTable]);
    args.sequence = input<i32>(launch, In::kSequence);
    args.positions = input<i32>(launch, In::kPositions);
    args.y = output<float>(launch, 0);
    args.partials = static_cast<float*>(launch.scratch);
    const auto parts = static_cast<u32>((heads_ + kLatentHeads - 1) / kLatentHeads);
    run(function_, {static_cast<u32>(tokens_), parts, static_cast<u32>(args.splits)}, args);
    if (args.splits == 1) return;
    run(merge_, {static_cast<u32>(tokens_), static_cast<u32>(heads_)},
        AttentionMergeArgs{args.partials, args.y, nullptr, static_cast<i32>(heads_), args.values, args.splits});
  }

 private:
  LatentAttentionArgs fixed_;
  int64_t tokens_, heads_;
  KvType type_;
  const api::Function* function_;
  const api::Function* merge_;
};

}  // namespace

std::unique_ptr<Kernel> make_latent_attention(const abi::KernelRequest& request, const MakeContext& context) {
  using In = abi::AttentionInput;
  const bool scaled = In::is_scaled(request);
  if (!has_operands(request, scaled ? In::kScaledCount : In::kCount, 1)) return nullptr;
  const abi::TensorView* in = request.inputs;
  LatentAttentionArgs fixed{};
  KvType type{};
  if (!is_heads(in[In::kQ]) || !is_page_table(in[In::kPageTable])) return nullptr;
  if (!read_kv_shape(in[In::kKeys], scaled ? &in[In::kKeyScale] : nullptr, false, fixed.kv, type)) return nullptr;
  const int64_t tokens = in[In::kQ].shape[0], heads = in[In::kQ].shape[1];
  const int64_t values = integer_attribute(request, "values", 0);
  if (fixed.kv.heads != 1 || in[In::kQ].shape[2] != fixed.kv.dim || fixed.kv.dim > kMaxLatent || fixed.kv.dim % 2 != 0)
    return nullptr;
  if (values < 1 || values > fixed.kv.dim || !has_shape(request.outputs[0], DType::f32, {tokens, heads, values}))
    return nullptr;
  if (!is_ids(in[In::kSequence], tokens) || !is_ids(in[In::kPositions], tokens)) return nullptr;
  fixed.values = static_cast<i32>(values);
  fixed.scale = static_cast<float>(real_attribute(request, "scale", 1));
  return std::make_unique<LatentAttention>(fixed, tokens, heads, in[In::kPageTable].shape[1] * fixed.kv.page, type,
                                           context);
}

}  // namespace gabbro::gpu
