// `rope`, `kv_write` and `rope_kv_write` of the paged cache.
#include "backends/gpu/ops/rope_kv.h"

#include <string>

#include "backends/common/attention_request.h"
#include "backends/common/request.h"
#include "backends/gpu/kernel_table.h"
#include "kernels/attention/kv_cache.h"

namespace gabbro::gpu {
namespace {

bool read_rope(const abi::KernelRequest& request, const abi::TensorView& frequencies, int64_t dim, RopeArgs& rope) {
  if (frequencies.rank != 1 || !has_shape(frequencies, DType::f32, {frequencies.shape[0]})) return false;
  rope.half = static_cast<i32>(frequencies.shape[0]);
  rope.interleaved = integer_attribute(request, "interleaved", 0) != 0;
  rope.magnitude = static_cast<float>(real_attribute(request, "magnitude", 1));
  return 2 * frequencies.shape[0] <= dim;
}

// The launches of rope, kv_write and both together.
class RopeKvFunctions {
 public:
  explicit RopeKvFunctions(const MakeContext& context)
      : all_(context.function("rope_kv")),
        types_(context.function("rope_kv_types")),
        keys_(context.function("rope_keys")) {}

  // Fills in what depends on the numbers of tokens and heads.
  void operator()(const Launcher& run, int64_t tokens, RopeKvArgs args) const {
    constexpr int64_t kManyKeys = 64;
    // One token of each sequence has no neighbors in the cache.
    const bool neighbors = tokens >= 2 * int64_t{args.table.sequences};
    args.tokens = static_cast<i32>(tokens);
    args.heads_of_block = rope_heads_of_block(tokens);
    if (tokens >= kManyKeys && neighbors && args.k.heads > 0 && args.type == KvType::kF16) {
      run(keys_, {blocks_for(tokens, kKeyTokens), static_cast<u32>(args.k.heads)}, args);
      args.k.heads = 0;
    }
    const i32 heads = args.q.heads + args.k.heads + args.v.heads;
    const api::Function* function = is_common(args.type) ? all_ : types_;
    run(function, {static_cast<u32>(tokens), blocks_for(heads, static_cast<u32>(args.heads_of_block))}, args);
  }

 private:
  const api::Function* all_;
  const api::Function* types_;  // caches of f32, bf16 and u4
  const api::Function* keys_;
};

class Rope : public Kernel {
 public:
  Rope(const abi::KernelRequest& request, const RopeArgs& rope, const MakeContext& context)
      : functions_(context), rope_(rope) {
    implementation = "rope";
    bytes = 8.0 * static_cast<double>(elements(request.inputs[abi::RopeInput::kX]));
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    using In = abi::RopeInput;
    const abi::TensorView& x = launch.inputs[In::kX];
    RopeKvArgs args = {.q = heads_view(x),
                       .y = output<float>(launch, 0),
                       .rope = rope_,
                       .dim = static_cast<i32>(x.shape[2]),
                       .positions = input<i32>(launch, In::kPositions)};
    args.rope.inverse_frequencies = input<float>(launch, In::kFrequencies);
    functions_(run, x.shape[0], args);
  }

 private:
  RopeKvFunctions functions_;
  RopeArgs rope_;
};

class KvWrite : public Kernel {
 public:
  KvWrite(const KvShape& kv, bool keys, KvType type, const MakeContext& context)
      : functions_(context), kv_(kv), keys_(keys), type_(type) {
    implementation = keys ? "kv_write keys" : "kv_write values";
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    using In = abi::KvWriteInput;
    const abi::TensorView& x = launch.inputs[In::kX];
    RopeKvArgs args = {.kv = kv_,
                       .dim = kv_.dim,
                       .table = page_table(launch.inputs[In::kPageTable]),
                       .sequence = input<i32>(launch, In::kSequence),
                       .positions = input<i32>(launch, In::kPositions),
                       .type = type_};
    (keys_ ? args.k : args.v) = heads_view(x);
    (keys_ ? args.keys : args.values) = side(launch, In::kCache, has_scales(type_) ? In::kScale : -1);
    functions_(run, x.shape[0], args);
  }

 private:
  RopeKvFunctions functions_;
  KvShape kv_;
  bool keys_;
  KvType type_;
};

class RopeKvWrite : public Kernel {
 public:
  RopeKvWrite(const RopeArgs& rope, const KvShape& kv, KvType type, const MakeContext& context)
      : functions_(context), rope_(rope), kv_(kv), type_(type) {
    implementation = std::string("rope_kv_write ") + type_suffix(type);
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    using In = abi::RopeKvInput;
    const abi::TensorView& q = launch.inputs[In::kQ];
    RopeKvArgs args = {.q = heads_view(q),
                       .k = heads_view(launch.inputs[In::kK]),
                       .v = heads_view(launch.inputs[In::kV]),
                       .y = output<float>(launch, 0),
                       .rope = rope_,
                       .keys = side(launch, In::kKeys, has_scales(type_) ? In::kKeyScale : -1),
                       .values = side(launch, In::kValues, has_scales(type_) ? In::kValueScale : -1),
                       .kv = kv_,
                       .dim = kv_.dim,
                       .table = page_table(launch.inputs[In::kPageTable]),
                       .sequence = input<i32>(launch, In::kSequence),
                       .positions = input<i32>(launch, In::kPositions),
                       .type = type_};
    args.rope.inverse_frequencies = input<float>(launch, In::kFrequencies);
    functions_(run, q.shape[0], args);
  }

 private:
  RopeKvFunctions functions_;
  RopeArgs rope_;
  KvShape kv_;
  KvType type_;
};

}  // namespace

bool read_kv(const abi::TensorView& keys, const abi::TensorView& values, const abi::TensorView* scales, KvShape& kv,
             KvType& type) {
  KvShape other{};
  KvType other_type{};
  return read_kv_shape(keys, scales, true, kv, type) &&
         read_kv_shape(values, scales == nullptr ? nullptr : scales + 1, false, other, other_type) && same(kv, other) &&
         type == other_type;
}

std::optional<RopeKvRequest> read_rope_kv(const abi::KernelRequest& request) {
  using In = abi::RopeKvInput;
  RopeKvRequest result;
  const bool scaled = request.input_count == In::kScaledCount;
  if (!has_operands(request, scaled ? In::kScaledCount : In::kCount, scaled ? 5 : 3)) return std::nullopt;
  if (!abi::writes_kv(request, scaled)) return std::nullopt;
  const abi::TensorView* in = request.inputs;
  KvShape& keys = result.kv;
  if (!is_heads(in[In::kQ]) || !is_heads(in[In::kK]) || !is_heads(in[In::kV])) return std::nullopt;
  if (!read_kv(in[In::kKeys], in[In::kValues], scaled ? &in[In::kKeyScale] : nullptr, keys, result.type))
    return std::nullopt;
  for (const int i : {In::kK, In::kV}) {
    if (in[i].shape[0] != in[In::kQ].shape[0] || in[i].shape[1] != keys.heads || in[i].shape[2] != keys.dim)
      return std::nullopt;
  }
  if (in[In::kQ].shape[2] != keys.dim || !read_rope(request, in[In::kFrequencies], keys.dim, result.rope))
    return std::nullopt;
  if (!is_ids(in[In::kPositions], in[In::kQ].shape[0]) || !is_page_table(in[In::kPageTable]) ||
      !is_ids(in[In::kSequence], in[In::kQ].shape[0]))
    return std::nullopt;
  return result;
}

std::unique_ptr<Kernel> make_rope(const abi::KernelRequest& request, const MakeContext& context) {
  using In = abi::RopeInput;
  RopeArgs rope{};
  if (!has_operands(request, In::kCount, 1) || !is_heads(request.inputs[In::kX])) return nullptr;
  const abi::TensorView& x = request.inputs[In::kX];
  if (!is_ids(request.inputs[In::kPositions], x.shape[0]) ||
      !read_rope(request, request.inputs[In::kFrequencies], x.shape[2], rope))
    return nullptr;
  if (!has_shape(request.outputs[0], DType::f32, {x.shape[0], x.shape[1], x.shape[2]})) return nullptr;
  return std::make_unique<Rope>(request, rope, context);
}

std::unique_ptr<Kernel> make_kv_write(const abi::KernelRequest& request, const MakeContext& context) {
  using In = abi::KvWriteInput;
  const bool scaled = request.input_count == In::kScaledCount;
  if (!has_operands(request, scaled ? In::kScaledCount : In::kCount, scaled ? 2 : 1)) return nullptr;
  const abi::TensorView* in = request.inputs;
  const bool keys = integer_attribute(request, "keys", 0) != 0;
  KvShape kv{};
  KvType type{};
  if (!read_kv_shape(in[In::kCache], scaled ? &in[In::kScale] : nullptr, keys, kv, type) || !is_heads(in[In::kX]))
    return nullptr;
  if (in[In::kX].shape[1] != kv.heads || in[In::kX].shape[2] != kv.dim || !is_page_table(in[In::kPageTable]))
    return nullptr;
  if (!is_ids(in[In::kSequence], in[In::kX].shape[0]) || !is_ids(in[In::kPositions], in[In::kX].shape[0]))
    return nullptr;
  if (!(scaled ? has_aliases(request, 0, {In::kCache, In::kScale}) : has_aliases(request, 0, {In::kCache})))
    return nullptr;
  return std::make_unique<KvWrite>(kv, keys, type, context);
}

std::unique_ptr<Kernel> make_rope_kv_write(const abi::KernelRequest& request, const MakeContext& context) {
  const auto read = read_rope_kv(request);
  return read ? std::make_unique<RopeKvWrite>(read->rope, read->kv, read->type, context) : nullptr;
}

}  // namespace gabbro::gpu
