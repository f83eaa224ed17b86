// `scaled_dot_product_attention` of f16 and bf16, and the same with the heads of a query together.
#include "kernels/attention/attention_dense.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "backends/common/request.h"
#include "backends/gpu/kernel_table.h"
#include "backends/gpu/ops/row_kernels.h"

namespace gabbro::gpu {
namespace {

// A smaller scale would let keys that are not seen come too near to those that are
// (kernels/attention/attention_scores.h).
constexpr double kLeastScale = 1e-20;

constexpr int64_t kVectorElements = kVectorBytes / static_cast<int64_t>(sizeof(Half));

// Strides of [B, heads, rows, D], if its kernel can read them; `loose` becomes true if vectors are not aligned.
bool read_heads(const abi::TensorView& x, DType dtype, StridedHeads& heads, bool& loose) {
  if (x.rank != 4 || !is_plain(x, dtype) || (x.strides[3] != 1 && x.shape[3] != 1)) return false;
  heads = {.data = nullptr, .batch = x.strides[0], .head = x.strides[1], .row = x.strides[2]};
  for (int axis = 0; axis < 3; ++axis) loose |= x.shape[axis] > 1 && x.strides[axis] % kVectorElements != 0;
  loose |= x.shape[3] % kVectorElements != 0;
  return true;
}

std::optional<MaskType> mask_type(DType dtype) {
  if (dtype == DType::boolean) return MaskType::kBool;
  if (dtype == DType::f32) return MaskType::kFloat;
  if (dtype == DType::f16) return MaskType::kHalf;
  if (dtype == DType::bf16) return MaskType::kBFloat;
  return std::nullopt;
}

// `scores`: [B, H, L, S]; the mask has each of these lengths, or 1.
bool read_mask(const abi::TensorView& view, const int64_t (&scores)[4], AttentionMask& mask) {
  const std::optional<MaskType> type = mask_type(view.dtype);
  if (view.rank != 4 || !type || !is_plain(view, view.dtype)) return false;
  for (int axis = 0; axis < 4; ++axis)
    if (view.shape[axis] != scores[axis] && view.shape[axis] != 1) return false;
  const auto step = [&](int axis) { return view.shape[axis] == 1 ? 0 : view.strides[axis]; };
  mask = {.data = nullptr, .type = *type, .batch = step(0), .head = step(1), .row = step(2), .key = step(3)};
  return true;
}

// The kernel of the smallest heads that hold the request's heads.
std::string plain_kernel(const DenseAttentionArgs& args, const std::string& type) {
  return "attention_dense_" + type + (args.dim <= 64 ? "_64" : args.dim <= 128 ? "_128" : "_256");
}

// Rows of a block of plain_kernel().
int64_t plain_rows(const DenseAttentionArgs& args) { return args.dim <= 128 ? kDenseRows : kWideDenseRows; }

// A kernel with the rows of its blocks.
struct Choice {
  std::string name;
  const api::Function* function;
  int64_t rows;
};

// Products of four waves together (kernels/attention/attention_together.cc) are for aligned rows of queries that see
// all keys, on targets that have them. The kernels of the smallest heads that hold the request's heads have tiles of
// several sizes: the one with the least estimated time is taken.
Choice choose(const DenseAttentionArgs& args, const std::string& type, int64_t heads, const MakeContext& context) {
  struct Tile {
    int dim, keys, threads;
    float time;
  };
#define GABBRO_APPLY(dim, keys, threads, blocks, time) {dim, keys, threads, time},
  static constexpr Tile kTiles[] = {GABBRO_TOGETHER_TILES(GABBRO_APPLY)};
#undef GABBRO_APPLY
  constexpr int kLeastOfWide = 128;  // up to here the kernel of f16 products has heads of that size
  const std::string plain = plain_kernel(args, type);
  Choice best{plain, context.function(plain), plain_rows(args)};
  if (args.mask.type != MaskType::kNone || args.causal != 0 || args.loose != 0) return best;
  double least = std::numeric_limits<double>::infinity();
  int dim = 0;
  for (const Tile& tile : kTiles) {
    if (args.dim > tile.dim || (dim != 0 && tile.dim != dim)) continue;
    if (tile.dim > kLeastOfWide && args.dim <= kLeastOfWide) continue;
    const std::string name = fmt::format("attention_together_{}_{}_{}", type, tile.dim, tile.keys);
    const api::Function* const function = context.function_if_any(name);
    if (function == nullptr) continue;
    dim = tile.dim;
    const int64_t rows = tile.threads / 2, blocks = heads * blocks_for(args.queries, static_cast<u32>(rows));
    const int64_t rounds = blocks_for(blocks, static_cast<u32>(api::resident_blocks(function)));
    const int64_t keys = int64_t{blocks_for(args.keys, static_cast<u32>(tile.keys))} * tile.keys;
    const double time = static_cast<double>(rounds * keys) * tile.time;
    if (time >= least) continue;
    least = time;
    best = {name, function, rows};
  }
  return best;
}

class AttentionDense : public Kernel {
 public:
  AttentionDense(const DenseAttentionArgs& args, DType dtype, int64_t batches, const MakeContext& context)
      : args_(args) {
    const std::string type(dtype_name(dtype));
    const int64_t heads = batches * args.heads;
    const Choice choice = choose(args, type, heads, context);
    function_ = choice.function;
    loose_function_ = context.function(plain_kernel(args, type));
    grid_ = {static_cast<u32>(heads), blocks_for(args.queries, static_cast<u32>(choice.rows))};
    loose_grid_ = {grid_.x, blocks_for(args.queries, static_cast<u32>(plain_rows(args)))};
    // The keys are dealt out where there would be too few blocks to keep the device busy.
    const int64_t blocks = int64_t{grid_.x} * grid_.y, enough = api::resident_blocks(function_);
    args_.splits = static_cast<i32>(
        std::clamp<int64_t>(std::min(enough / blocks, args.keys / context.chip().split_keys), 1, kMost));
    grid_.z = loose_grid_.z = static_cast<u32>(args_.splits);
    implementation = choice.name;
    rows_ = heads * args.queries;
    if (args_.splits > 1) {
      merge_ = context.function("attention_dense_merge_" + type);
      implementation += " in " + std::to_string(args_.splits);
      scratch_bytes = static_cast<size_t>(rows_ * args_.splits * partial_floats(args.dim)) * sizeof(float);
    }
    const double pairs = static_cast<double>(heads) * args.queries * args.keys;
    flops = 4 * pairs * args.dim * (args.causal != 0 ? 0.5 : 1);
    bytes = 2.0 * static_cast<double>(dtype_bytes(dtype, 1)) * static_cast<double>(heads) * args.dim *
            (static_cast<double>(args.queries) + static_cast<double>(args.keys) / args.group);
  }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    DenseAttentionArgs args = args_;
    args.q.data = input<void>(launch, 0);
    args.k.data = input<void>(launch, 1);
    args.v.data = input<void>(launch, 2);
    if (args.mask.type != MaskType::kNone) args.mask.data = input<void>(launch, 3);
    for (const void* data : {args.q.data, args.k.data, args.v.data})
      if (!is_16_byte_aligned(data)) args.loose = 1;
    args.y = output<void>(launch, 0);
    args.partials = static_cast<float*>(launch.scratch);
    args.loose != 0 ? run(loose_function_, loose_grid_, args) : run(function_, grid_, args);
    if (merge_ == nullptr) return;
    run(merge_, {static_cast<u32>(rows_)},
        AttentionMergeArgs{args.partials, args.y, nullptr, 1, args.dim, args.splits});
  }

 private:
  static constexpr int64_t kMost = 16;  // splits

  DenseAttentionArgs args_;
  const api::Function* function_ = nullptr;
  const api::Function* loose_function_ = nullptr;  // for operands that are not aligned
  const api::Function* merge_ = nullptr;
  Dim grid_, loose_grid_;
  int64_t rows_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_attention_dense(const abi::KernelRequest& request, const MakeContext& context) {
  constexpr int64_t kMostRows = int64_t{1} << 30, kMostBlocks = 65535 * int64_t{kWideDenseRows};
  const bool masked = request.input_count == 4;
  if (!has_operands(request, masked ? 4 : 3, 1)) return nullptr;
  const abi::TensorView &q = request.inputs[0], &k = request.inputs[1], &v = request.inputs[2];
  DenseAttentionArgs args{};
  if (q.dtype != DType::f16 && q.dtype != DType::bf16) return nullptr;
  bool loose = false;
  if (!read_heads(q, q.dtype, args.q, loose) || !read_heads(k, q.dtype, args.k, loose)) return nullptr;
  if (!read_heads(v, q.dtype, args.v, loose)) return nullptr;
  const int64_t batches = q.shape[0], heads = q.shape[1], queries = q.shape[2], dim = q.shape[3];
  const int64_t groups = k.shape[1], keys = k.shape[2];
  if (std::min({batches, heads, groups, queries, keys, dim}) == 0 || dim > kMaxDenseDim) return nullptr;
  if (heads % groups != 0 || k.shape[0] != batches || k.shape[3] != dim || !same_shape(k, v)) return nullptr;
  if (batches * heads > kMostRows / queries || queries > kMostBlocks || keys > kMostRows) return nullptr;
  const bool rows_first = request.op == std::string_view("attention_rows_first");
  if (!has_shape(request.outputs[0], q.dtype,
                 {batches, rows_first ? queries : heads, rows_first ? heads : queries, dim}))
    return nullptr;
  if (masked && !read_mask(request.inputs[3], {batches, heads, queries, keys}, args.mask)) return nullptr;
  const double scale = real_attribute(request, "scale", 0);
  if (!(scale >= kLeastScale) || scale > 1e20) return nullptr;
  args.heads = static_cast<i32>(heads);
  args.group = static_cast<i32>(heads / groups);
  args.queries = static_cast<i32>(queries);
  args.keys = static_cast<i32>(keys);
  args.dim = static_cast<i32>(dim);
  args.loose = loose;
  args.rows_first = rows_first;
  args.causal = integer_attribute(request, "causal", 0) != 0;
  args.scale = static_cast<float>(scale);
  return std::make_unique<AttentionDense>(args, q.dtype, batches, context);
}

}  // namespace gabbro::gpu
