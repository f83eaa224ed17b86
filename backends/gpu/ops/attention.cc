// `attention` over the paged cache, and `attention_step` with the writes of a decode step.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "backends/common/attention_request.h"
#include "backends/common/request.h"
#include "backends/gpu/clusters.h"
#include "backends/gpu/kernel_table.h"
#include "backends/gpu/ops/rope_kv.h"
#include "kernels/attention/kv_cache.h"

namespace gabbro::gpu {
namespace {

bool fits_vec16(const KvShape& kv) { return kv.dim % 8 == 0 && kv.dim <= 128 && kv.page >= 16; }
// A tile of tokens walks over the keys of all of its sequences: with less than half a tile of tokens for each sequence,
// as in decode, the kernels for few tokens read fewer keys.
bool takes_tiles(const KvShape& kv, KvType type, int64_t tokens, int64_t sequences, int64_t group, const Chip& chip) {
  if (tokens < chip.tiled_attention_tokens || !fits_vec16(kv) || group > kQueryRows || !is_common(type)) return false;
  return sequences == 1 || tokens >= sequences * std::max<int64_t>(2, kQueryRows / group / 2);
}
// Fewer tokens: elements are read in pairs.
bool takes_pairs(const KvShape& kv) { return kv.dim % 2 == 0 && kv.page >= 2; }

// Into how many splits the keys are cut: `enough` blocks keep the device busy, and each split has `blocks` of them; a
// split has `least` keys or more when the cache is full.
i32 splits_for(int64_t blocks, int64_t enough, int64_t capacity, int64_t least) {
  return static_cast<i32>(std::clamp<int64_t>(std::min(enough / blocks, capacity / least), 1, kMaxSplits));
}
size_t partial_bytes(int64_t rows, const AttentionArgs& args) {
  return args.splits == 1 ? 0 : static_cast<size_t>(rows * args.splits * partial_floats(args.kv.dim)) * sizeof(float);
}
std::string split_note(i32 splits) { return splits == 1 ? "" : " in " + std::to_string(splits); }

// Few tokens: the common part of `attention` and `attention_step`.
struct Decode {
  const api::Function* function = nullptr;
  std::string name;
  Dim grid;
  u32 cluster = 1;

  // Sets the number of splits as well.
  Decode(const std::string& op, KvType type, int64_t heads, int64_t capacity, const MakeContext& context,
         AttentionArgs& args)
      : name(op + "_" + type_suffix(type) + (is_common(type) && args.kv.dim <= 128 ? "_128" : "_256")) {
    int64_t least_keys = kShareKeys, block_heads = kBlockHeads;
    const std::string size = args.kv.dim <= 64 ? "_64" : "_128";
    const api::Function *in_cluster = nullptr, *compact = nullptr;
    if (type == KvType::kF16 && fits_vec16(args.kv)) {
      const std::string on_matrix_cores = op + "_matrix" + size;
      function = context.function_if_any(on_matrix_cores);
      if (function != nullptr) {
        name = on_matrix_cores;
        least_keys = kMatrixShareKeys;
        block_heads = kMatrixHeads;
        in_cluster = context.function_if_any(op + "_cluster" + size);
        compact = context.function_if_any(op + "_compact" + size);
      }
    }
    if (function == nullptr) function = context.function(name);
    args.group = static_cast<i32>(heads / args.kv.heads);
    args.parts = decode_parts(args.group, block_heads);
    args.part_heads = (args.group + args.parts - 1) / args.parts;
    grid = {static_cast<u32>(args.tokens), static_cast<u32>(args.kv.heads * args.parts)};
    const int64_t blocks = int64_t{grid.x} * grid.y;
    const int64_t enough = api::resident_blocks(function);
    // Blocks of half the size; more of them run at a time: 64 sequences on an H200 44 us instead of 48.
    if (compact != nullptr && blocks > enough && api::resident_blocks(compact) > enough) {
      function = compact;
      name = op + "_compact" + size;
    }
    args.splits = blocks > kCounters ? 1 : splits_for(blocks, enough, capacity, least_keys);
    // With eight sequences on an H200 clusters of three are 2 % faster; with one token, where several clusters would
    // share the keys, clusters of eight are 2 % slower.
    if (in_cluster != nullptr && enough / blocks <= kMaxCluster)
      cluster = cluster_size(in_cluster, blocks, enough / blocks);
    if (cluster > 1) {
      function = in_cluster;
      name = op + "_cluster" + size;
      args.splits = static_cast<i32>(cluster);
    }
    grid.z = static_cast<u32>(args.splits);
  }
};

// The operands of a launch, whose positions In names: abi::AttentionInput, or RopeKvInput for attention_step.
template <class In>
void set_operands(AttentionArgs& args, const abi::Launch& launch, KvType type) {
  const bool scaled = has_scales(type);
  args.q = heads_view(launch.inputs[In::kQ]);
  args.keys = side(launch, In::kKeys, scaled ? In::kKeyScale : -1);
  args.values = side(launch, In::kValues, scaled ? In::kValueScale : -1);
  args.table = page_table(launch.inputs[In::kPageTable]);
  args.sequence = input<i32>(launch, In::kSequence);
  args.positions = input<i32>(launch, In::kPositions);
  args.y = output<float>(launch, 0);
  args.partials = static_cast<float*>(launch.scratch);
}

class Attention : public Kernel {
 public:
  Attention(const AttentionArgs& fixed, int64_t heads, int64_t capacity, KvType type, const MakeContext& context)
      : fixed_(fixed), type_(type) {
    const Decode decode("attention", type, heads, capacity, context, fixed_);
    function_ = decode.function;
    grid_ = decode.grid;
    implementation = decode.name + split_note(fixed_.splits);
    scratch_bytes = partial_bytes(fixed.tokens * heads, fixed_);
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    AttentionArgs own = args(launch);
    own.arrived = run.counters;
    run(function_, grid_, own);
  }

 protected:
  Attention(const AttentionArgs& fixed, KvType type) : fixed_(fixed), type_(type) {}

  AttentionArgs args(const abi::Launch& launch) const {
    AttentionArgs args = fixed_;
    using In = abi::AttentionInput;
    set_operands<In>(args, launch, type_);
    const int count = has_scales(type_) ? In::kScaledCount : In::kCount;
    if (launch.input_count > count) args.sinks = input<float>(launch, count);
    return args;
  }

  const api::Function* function_ = nullptr;
  AttentionArgs fixed_;
  Dim grid_;
  KvType type_;
};

// Many tokens.
class AttentionTiled : public Attention {
 public:
  AttentionTiled(const AttentionArgs& fixed, int64_t heads, int64_t capacity, KvType type, const MakeContext& context)
      : Attention(fixed, type), merge_(context.function("attention_merge")) {
    const std::string name =
        std::string("attention_") + type_suffix(type) + "_tiled_" + (fixed.kv.dim <= 64 ? "64" : "128");
    function_ = context.function(name);
    grid_ = {static_cast<u32>(fixed.kv.heads),
             blocks_for(fixed.tokens, static_cast<u32>(kQueryRows / (heads / fixed.kv.heads)))};
    const Chip& chip = context.chip();
    fixed_.splits = splits_for(int64_t{grid_.x} * grid_.y, chip.attention_blocks, capacity, chip.split_keys);
    grid_.z = static_cast<u32>(fixed_.splits);
    implementation = name + split_note(fixed_.splits);
    scratch_bytes = partial_bytes(fixed.tokens * heads, fixed_);
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    const AttentionArgs own = args(launch);
    run(function_, grid_, own);
    if (own.splits == 1) return;
    const Dim rows = {static_cast<u32>(own.tokens), static_cast<u32>(own.q.heads)};
    run(merge_, rows, AttentionMergeArgs{own.partials, own.y, own.sinks, own.q.heads, own.kv.dim, own.splits});
  }

 private:
  const api::Function* merge_;
};

// Inputs as of rope_kv_write.
class AttentionStep : public Kernel {
 public:
  AttentionStep(const AttentionArgs& fixed, const RopeArgs& rope, int64_t heads, int64_t capacity, KvType type,
                const MakeContext& context)
      : fixed_(fixed), rope_(rope), type_(type) {
    const Decode decode("attention_step", type, heads, capacity, context, fixed_);
    function_ = decode.function;
    grid_ = decode.grid;
    cluster_ = decode.cluster;
    implementation = decode.name + split_note(fixed_.splits);
    scratch_bytes = partial_bytes(fixed.tokens * heads, fixed_);
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    using In = abi::RopeKvInput;
    AttentionStepArgs args = {.attention = fixed_,
                              .k = heads_view(launch.inputs[In::kK]),
                              .v = heads_view(launch.inputs[In::kV]),
                              .rope = rope_};
    args.rope.inverse_frequencies = input<float>(launch, In::kFrequencies);
    set_operands<In>(args.attention, launch, type_);
    args.attention.arrived = run.counters;
    args.attention.settled =
        run.settled(launch, {In::kKeys, In::kValues, In::kPageTable, In::kSequence, In::kPositions, In::kFrequencies});
    run(function_, grid_, args, cluster_);
  }

 private:
  const api::Function* function_;
  Dim grid_;
  u32 cluster_;
  AttentionArgs fixed_;
  RopeArgs rope_;
  KvType type_;
};

// The attributes of an attention.
AttentionArgs read_attention(const abi::KernelRequest& request, const KvShape& kv, int64_t tokens) {
  const double scale = real_attribute(request, "scale", 1.0 / std::sqrt(static_cast<double>(kv.dim)));
  return {.kv = kv,
          .window = static_cast<i32>(std::max<int64_t>(0, integer_attribute(request, "window", 0))),
          .chunk = static_cast<i32>(std::max<int64_t>(0, integer_attribute(request, "chunk", 0))),
          .scale = static_cast<float>(scale),
          .softcap = static_cast<float>(real_attribute(request, "softcap", 0)),
          .tokens = static_cast<i32>(tokens)};
}

}  // namespace

std::unique_ptr<Kernel> make_attention_step(const abi::KernelRequest& request, const MakeContext& context) {
  using In = abi::RopeKvInput;
  const auto read = read_rope_kv(request);
  if (!read) return nullptr;
  const abi::TensorView &q = request.inputs[In::kQ], &table = request.inputs[In::kPageTable];
  const int64_t tokens = q.shape[0], heads = q.shape[1];
  if (!is_common(read->type) || (tokens != 1 && integer_attribute(request, "separate", 0) == 0)) return nullptr;
  if (heads % read->kv.heads != 0 || !takes_pairs(read->kv)) return nullptr;
  if (!has_shape(request.outputs[0], DType::f32, {tokens, heads, read->kv.dim})) return nullptr;
  return std::make_unique<AttentionStep>(read_attention(request, read->kv, tokens), read->rope, heads,
                                         table.shape[1] * read->kv.page, read->type, context);
}

std::unique_ptr<Kernel> make_attention(const abi::KernelRequest& request, const MakeContext& context) {
  using In = abi::AttentionInput;
  const bool scaled = In::is_scaled(request), sinks = In::has_sinks(request);
  const int count = scaled ? In::kScaledCount : In::kCount;
  if (!has_operands(request, count + (sinks ? 1 : 0), 1)) return nullptr;
  const abi::TensorView* in = request.inputs;
  KvShape keys{};
  KvType type{};
  if (!is_heads(in[In::kQ])) return nullptr;
  if (!read_kv(in[In::kKeys], in[In::kValues], scaled ? &in[In::kKeyScale] : nullptr, keys, type)) return nullptr;
  const int64_t tokens = in[In::kQ].shape[0], heads = in[In::kQ].shape[1];
  if (in[In::kQ].shape[2] != keys.dim || heads % keys.heads != 0 || !is_page_table(in[In::kPageTable])) return nullptr;
  if (!is_ids(in[In::kSequence], tokens) || !is_ids(in[In::kPositions], tokens)) return nullptr;
  if (!has_shape(request.outputs[0], DType::f32, {tokens, heads, keys.dim})) return nullptr;
  if (sinks && !has_shape(in[count], DType::f32, {heads})) return nullptr;
  const AttentionArgs fixed = read_attention(request, keys, tokens);
  const int64_t capacity = in[In::kPageTable].shape[1] * keys.page;
  if (takes_tiles(keys, type, tokens, in[In::kPageTable].shape[0], heads / keys.heads, context.chip()))
    return std::make_unique<AttentionTiled>(fixed, heads, capacity, type, context);
  if (!takes_pairs(keys)) return nullptr;
  return std::make_unique<Attention>(fixed, heads, capacity, type, context);
}

}  // namespace gabbro::gpu
