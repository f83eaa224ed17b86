// rope, kv_write, and the fused rope_kv_write: rotating q and k and writing k and v into the cache in one launch.
#include "backends/common/attention_request.h"
#include "backends/cpu/kernels/attention/kv_store.h"
#include "backends/cpu/kernels/attention/rope_math.h"
#include "backends/cpu/kernels/kernels.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

// Activations [T, heads, D], the last axis contiguous.
struct Heads {
  int64_t tokens = 0;
  int64_t heads = 0;
  int64_t dim = 0;
  int64_t token_stride = 0;
  int64_t head_stride = 0;

  int64_t total() const { return tokens * heads * dim; }
};

bool read_heads(const abi::TensorView& x, Heads& heads) {
  if (!is_plain(x, DType::f32) || x.rank != 3 || (x.strides[2] != 1 && x.shape[2] != 1)) return false;
  heads = {x.shape[0], x.shape[1], x.shape[2], x.strides[0], x.strides[1]};
  return true;
}

bool is_ids(const abi::TensorView& view, int64_t count) { return has_shape(view, DType::i32, {count}); }

bool is_page_table(const abi::TensorView& view) {
  return view.rank == 2 && has_shape(view, DType::i32, {view.shape[0], view.shape[1]});
}

PageTable page_table(const abi::TensorView& view) {
  return {static_cast<const int32_t*>(view.data), view.shape[0], view.shape[1]};
}

// Tokens that a worker takes at a time.
constexpr int64_t kTokenGrain = 8;

class Rope : public Kernel {
 public:
  Rope(const Heads& x, const RopeShape& shape) : x_(x), shape_(shape) {
    implementation = "rope";
    bytes = 8.0 * static_cast<double>(x.total());
    flops = 3.0 * static_cast<double>(x.total());
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    using In = abi::RopeInput;
    const auto* x = static_cast<const float*>(launch.inputs[In::kX].data);
    const auto* positions = static_cast<const int32_t*>(launch.inputs[In::kPositions].data);
    const auto* frequencies = static_cast<const float*>(launch.inputs[In::kFrequencies].data);
    auto* y = static_cast<float*>(launch.outputs[0].data);
    worker.parallel_for(x_.tokens, kTokenGrain, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const Rotation rotation(shape_, frequencies, positions[t]);
        for (int64_t h = 0; h < x_.heads; ++h) {
          rotation.apply(x + t * x_.token_stride + h * x_.head_stride, y + (t * x_.heads + h) * x_.dim, x_.dim);
        }
      }
    });
  }

 private:
  Heads x_;
  RopeShape shape_;
};

class KvWrite : public Kernel {
 public:
  KvWrite(const Heads& x, const KvShape& shape, bool keys) : x_(x), shape_(shape), keys_(keys) {
    implementation = keys ? "kv_write keys" : "kv_write values";
    bytes = 6.0 * static_cast<double>(x.total());
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    using In = abi::KvWriteInput;
    const KvTarget target{launch.inputs[In::kCache].data, shape_.scaled() ? launch.inputs[In::kScale].data : nullptr};
    const auto* x = static_cast<const float*>(launch.inputs[In::kX].data);
    const PageTable table = page_table(launch.inputs[In::kPageTable]);
    const auto* sequence = static_cast<const int32_t*>(launch.inputs[In::kSequence].data);
    const auto* positions = static_cast<const int32_t*>(launch.inputs[In::kPositions].data);
    worker.parallel_for(x_.tokens, kTokenGrain, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        if (const auto slot = slot_of(shape_, table, sequence[t], positions[t]))
          store_token(shape_, target, *slot, keys_, x + t * x_.token_stride, x_.head_stride);
      }
    });
  }

 private:
  Heads x_;
  KvShape shape_;
  bool keys_;
};

class RopeKvWrite : public Kernel {
 public:
  RopeKvWrite(const Heads& q, const Heads& k, const Heads& v, const RopeShape& rope, const KvShape& kv)
      : q_(q), k_(k), v_(v), rope_(rope), kv_(kv) {
    implementation = std::string("rope_kv_write ") + std::string(dtype_name(kv.dtype));
    bytes = 8.0 * static_cast<double>(q.total()) + 6.0 * static_cast<double>(k.total() + v.total());
    flops = 3.0 * static_cast<double>(q.total() + k.total());
  }

  // Whether the rotated keys of one head fit the stack.
  static bool fits(const Heads& k) { return k.dim <= kMaxDim; }

  void run(const abi::Launch& launch, Worker& worker) const override {
    using In = abi::RopeKvInput;
    const auto* q = static_cast<const float*>(launch.inputs[In::kQ].data);
    const auto* k = static_cast<const float*>(launch.inputs[In::kK].data);
    const auto* v = static_cast<const float*>(launch.inputs[In::kV].data);
    const auto* positions = static_cast<const int32_t*>(launch.inputs[In::kPositions].data);
    const auto* frequencies = static_cast<const float*>(launch.inputs[In::kFrequencies].data);
    const KvTarget keys{launch.inputs[In::kKeys].data, kv_.scaled() ? launch.inputs[In::kKeyScale].data : nullptr};
    const KvTarget values{launch.inputs[In::kValues].data,
                          kv_.scaled() ? launch.inputs[In::kValueScale].data : nullptr};
    const PageTable table = page_table(launch.inputs[In::kPageTable]);
    const auto* sequence = static_cast<const int32_t*>(launch.inputs[In::kSequence].data);
    auto* y = static_cast<float*>(launch.outputs[0].data);
    worker.parallel_for(q_.tokens, kTokenGrain, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const Rotation rotation(rope_, frequencies, positions[t]);
        for (int64_t h = 0; h < q_.heads; ++h) {
          rotation.apply(q + t * q_.token_stride + h * q_.head_stride, y + (t * q_.heads + h) * q_.dim, q_.dim);
        }
        if (const auto slot = slot_of(kv_, table, sequence[t], positions[t])) {
          write_keys(rotation, keys, *slot, k + t * k_.token_stride);
          store_token(kv_, values, *slot, false, v + t * v_.token_stride, v_.head_stride);
        }
      }
    });
  }

 private:
  static constexpr int64_t kMaxDim = 2 * RopeShape::kMaxPairs;

  void write_keys(const Rotation& rotation, const KvTarget& target, CacheSlot slot, const float* k) const {
    for (int64_t head = 0; head < k_.heads; ++head) {
      float rotated[kMaxDim];
      rotation.apply(k + head * k_.head_stride, rotated, k_.dim);
      const KvBlock block = key_block(kv_, target.cache, target.scale, slot.page, head, slot.token);
      store_head(kv_, rotated, const_cast<void*>(block.data), const_cast<uint16_t*>(block.scale), kv_.page);
    }
  }

  Heads q_;
  Heads k_;
  Heads v_;
  RopeShape rope_;
  KvShape kv_;
};

}  // namespace

KernelPointer make_rope(const abi::KernelRequest& request, const MakeContext&) {
  using In = abi::RopeInput;
  Heads x;
  RopeShape shape;
  if (!has_operands(request, In::kCount, 1) || !read_heads(request.inputs[In::kX], x)) return nullptr;
  if (!is_ids(request.inputs[In::kPositions], x.tokens) ||
      !read_rope_shape(request, request.inputs[In::kFrequencies], x.dim, shape))
    return nullptr;
  if (!has_shape(request.outputs[0], DType::f32, {x.tokens, x.heads, x.dim})) return nullptr;
  return std::make_unique<Rope>(x, shape);
}

KernelPointer make_kv_write(const abi::KernelRequest& request, const MakeContext&) {
  using In = abi::KvWriteInput;
  const bool scaled = request.input_count == In::kScaledCount;
  if (!has_operands(request, scaled ? In::kScaledCount : In::kCount, scaled ? 2 : 1)) return nullptr;
  const abi::TensorView* in = request.inputs;
  const bool keys = integer_attribute(request, "keys", 0) != 0;
  Heads x;
  KvShape shape;
  if (!read_kv_shape(in[In::kCache], scaled ? &in[In::kScale] : nullptr, keys, shape) || !read_heads(in[In::kX], x))
    return nullptr;
  if (x.heads != shape.heads || x.dim != shape.dim || !is_page_table(in[In::kPageTable])) return nullptr;
  if (!is_ids(in[In::kSequence], x.tokens) || !is_ids(in[In::kPositions], x.tokens)) return nullptr;
  if (!(scaled ? has_aliases(request, 0, {In::kCache, In::kScale}) : has_aliases(request, 0, {In::kCache})))
    return nullptr;
  return std::make_unique<KvWrite>(x, shape, keys);
}

KernelPointer make_rope_kv_write(const abi::KernelRequest& request, const MakeContext&) {
  using In = abi::RopeKvInput;
  const bool scaled = request.input_count == In::kScaledCount;
  if (!has_operands(request, scaled ? In::kScaledCount : In::kCount, scaled ? 5 : 3) ||
      !abi::writes_kv(request, scaled))
    return nullptr;
  const abi::TensorView* in = request.inputs;
  Heads q;
  Heads k;
  Heads v;
  RopeShape rope;
  KvShape keys;
  KvShape values;
  if (!read_heads(in[In::kQ], q) || !read_heads(in[In::kK], k) || !read_heads(in[In::kV], v)) return nullptr;
  if (!read_kv_shape(in[In::kKeys], scaled ? &in[In::kKeyScale] : nullptr, true, keys)) return nullptr;
  if (!read_kv_shape(in[In::kValues], scaled ? &in[In::kValueScale] : nullptr, false, values) || !same_kv(keys, values))
    return nullptr;
  for (const Heads* x : {&k, &v}) {
    if (x->tokens != q.tokens || x->heads != keys.heads || x->dim != keys.dim) return nullptr;
  }
  if (q.dim != k.dim || !RopeKvWrite::fits(k) || !read_rope_shape(request, in[In::kFrequencies], q.dim, rope))
    return nullptr;
  if (!is_ids(in[In::kPositions], q.tokens) || !is_page_table(in[In::kPageTable]) ||
      !is_ids(in[In::kSequence], q.tokens))
    return nullptr;
  if (!has_shape(request.outputs[0], DType::f32, {q.tokens, q.heads, q.dim})) return nullptr;
  return std::make_unique<RopeKvWrite>(q, k, v, rope, keys);
}

}  // namespace gabbro::cpu::GABBRO_ISA
