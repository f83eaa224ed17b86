#include "backends/gpu/ops/linear_batch.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "backends/common/dequantized.h"
#include "backends/common/request.h"
#include "backends/gpu/clusters.h"
#include "src/base/round_up.h"

namespace gabbro::gpu {
namespace {

int tile_of(int64_t tokens) { return tokens <= 16 ? 16 : tokens <= 32 ? 32 : kMaxBatchTile; }

std::string batch_kernel_name(const abi::TensorView& weight, int64_t tile) {
  return "linear_" + std::string(kernel_format(weight.dtype)) + "_batch_" + std::to_string(tile);
}

// Whether there are kernels for it: not for f32 and unaligned weights, nor on targets without matrix cores.
bool has_batch(const abi::TensorView& weight, int64_t tokens, const MakeContext& context) {
  return takes_f16(weight) && context.function_if_any(batch_kernel_name(weight, tile_of(tokens))) != nullptr;
}

// Whether the blocks convert the activations of few tokens, each for its part of K. With weights of 16 bits all of K,
// as without splits, takes them longer than a launch before: gate and up of an 8B model 65 us instead of 62 (H200).
bool blocks_convert(const abi::KernelRequest& request, int matrices, int64_t tokens, const MakeContext& context) {
  constexpr int64_t kMostColumns = 2048;
  if (tokens > kOwnTokens) return false;
  if (is_quantized(request.inputs[1].dtype)) return true;
  int64_t rows = 0;
  for (int m = 0; m < matrices; ++m) rows += request.inputs[1 + m].shape[0];
  const int64_t blocks = std::max<int64_t>(1, blocks_for(rows, kBatchRows * kBatchThreads / context.wave()));
  return request.inputs[1].shape[1] <= kMostColumns * std::max<int64_t>(1, 2 * context.compute_units() / blocks);
}

struct Splits {
  u32 count = 1;
  bool cluster = false;  // their blocks are one
};

// The blocks of a launch: their waves have up to `tile_rows` rows each, and K is split.
struct Division {
  i32 tile_rows = kBatchRows;
  i32 tiles = 0;
  u32 blocks = 0;
  Splits splits;
};

// A product whose rows and K are divided.
struct BatchProduct {
  const api::Function* function;
  int64_t token_tiles, columns;
  int64_t enough;                   // blocks, which run at the same time: two a unit at most
  int64_t most_columns_of_cluster;  // of a block
  i32 least_rows;                   // of a wave
};

// In how many parts K is split: as many as leave each unit two blocks at most. All of them run at the same time, since
// blocks of a split wait for each other. Clusters exchange their sums 2 us faster, which outweighs a quarter fewer
// blocks.
Splits splits_of(const BatchProduct& product, int64_t blocks) {
  constexpr int64_t kMaxSplits = 16;
  const int64_t steps = (product.columns + kBatchDepth - 1) / kBatchDepth;
  if (2 * blocks > kCounters) return {};  // two for each block of a split
  const int64_t splits = std::clamp<int64_t>(product.enough / blocks, 1, std::min(kMaxSplits, steps));
  const u32 cluster = cluster_size(product.function, blocks, splits);
  if (cluster > 1 && product.columns <= cluster * product.most_columns_of_cluster) return {cluster, true};
  return {static_cast<u32>(splits), false};
}

// The division whose largest share of the work is smallest. Fewer rows of a wave may give all units the same number of
// blocks: gate and up of an 8B model are 224 blocks of eight waves with 16 rows, or 256 with 14. An H200 runs
// 264 of them. With f16 and 64 tokens they take 62 us instead of 65, and all products of a layer 10 us less.
Division divide(const std::vector<int64_t>& rows, Epilogue epilogue, u32 waves, const BatchProduct& product) {
  constexpr double kGain = 0.95;          // by which another number of rows has to be better
  constexpr double kClusterShare = 0.75;  // see splits_of()
  Division best;
  double least = std::numeric_limits<double>::infinity();
  for (i32 tile_rows = kBatchRows; tile_rows >= product.least_rows; --tile_rows) {
    Division division = {.tile_rows = tile_rows};
    for (const int64_t count : rows) division.tiles += batch_tiles(count, tile_rows, epilogue);
    division.blocks = blocks_for(division.tiles, waves);
    const int64_t blocks = division.blocks * product.token_tiles;
    division.splits = splits_of(product, blocks);
    const auto& [splits, cluster] = division.splits;
    const int64_t rounds = (blocks * splits + product.enough - 1) / product.enough;
    const double share = static_cast<double>(tile_rows * rounds) / splits * (cluster ? kClusterShare : 1);
    if (share > kGain * least) continue;
    least = share;
    best = division;
  }
  return best;
}

class LinearBatch : public Kernel {
 public:
  LinearBatch(const abi::KernelRequest& request, const abi::LinearOptions& options, const MakeContext& context)
      : options_(options),
        columns_(request.inputs[1].shape[1]),
        tokens_(elements(request.inputs[0]) / columns_),
        padded_(round_up(tokens_, tile_of(tokens_))),
        depth_(round_up(columns_, kBatchDepth)),
        blocks_(is_quantized(request.inputs[1].dtype)),
        own_(blocks_convert(request, options.count, tokens_, context)) {
    int64_t partial_floats = 0, square_floats = 0;
    for (int m = 0; m < options.count; ++m) {
      const abi::TensorView& weight = request.inputs[1 + m];
      add(batch_kernel_name(weight, own_ ? kOwnTokens : tile_of(tokens_)), weight, m, context);
      const auto rows = static_cast<double>(weight.shape[0]);
      bytes += rows * static_cast<double>(columns_) * dtype_info(weight.dtype).block_bytes /
                   dtype_info(weight.dtype).block_elements +
               static_cast<double>(tokens_) * rows * 4;
      flops += 2 * static_cast<double>(tokens_) * rows * static_cast<double>(columns_);
    }
    for (Group& group : groups_) {
      const BatchProduct product = {
          group.function,
          padded_ / tile_of(tokens_),
          columns_,
          std::min<int64_t>(2 * context.compute_units(), api::resident_blocks(group.function)),
          most_columns_of_cluster(),
          least_rows(request.inputs[1 + group.first].dtype)};
      const u32 waves = api::block_threads(group.function) / context.wave();
      group.division = divide(group.rows, static_cast<Epilogue>(options.epilogue), waves, product);
      const auto& [count, cluster] = group.division.splits;
      if (count == 1 || cluster) continue;
      partial_floats = std::max(partial_floats, int64_t{group.division.tiles} * count * kBatchRows * padded_);
      square_floats = std::max(square_floats, int64_t{group.division.blocks} * count * kOwnTokens);
    }
    ScratchLayout layout;
    if (!own_) {
      const u32 first = groups_[0].division.splits.count;
      const auto same = [&](const Group& group) { return group.division.splits.count == first; };
      if (std::ranges::all_of(groups_, same)) parts_ = first;
      convert_ = context.function(convert_batch_name());
      f16_at_ = layout.place(padded_ * depth_ * 2);
      scales_at_ = layout.place(tokens_ * parts_ * 4);
      row_squares_at_ = layout.place(options.norm ? tokens_ * parts_ * 4 : 0);
    }
    partials_at_ = layout.place(partial_floats * 4);
    squares_at_ = layout.place(square_floats * 4);
    scratch_bytes = layout.bytes();
    implementation = std::string(request.op) + " " + groups_.front().name;
  }

  // The epilogue joins the two matrices, so both have to be of one launch.
  bool taken() const { return options_.epilogue != abi::Epilogue::kSiluMul || groups_.size() == 1; }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    auto* scratch = static_cast<std::byte*>(launch.scratch);
    const auto at = [&](int64_t offset) { return reinterpret_cast<float*>(scratch + offset); };
    const ConvertBatchArgs rows = {.x = input<float>(launch, 0),
                                   .norm = options_.norm ? input<float>(launch, options_.norm_at()) : nullptr,
                                   .f16 = reinterpret_cast<Half*>(scratch + f16_at_),
                                   .scales = at(scales_at_),
                                   .squares = at(row_squares_at_),
                                   .columns = static_cast<i32>(columns_),
                                   .depth = static_cast<i32>(depth_),
                                   .tokens = static_cast<i32>(tokens_),
                                   .padded = static_cast<i32>(padded_),
                                   .blocks = blocks_};
    if (convert_ != nullptr) run(convert_, {static_cast<u32>(padded_), parts_}, rows);
    LinearBatchArgs args = {.columns = rows.columns,
                            .tokens = rows.tokens,
                            .padded = rows.padded,
                            .epilogue = static_cast<Epilogue>(options_.epilogue),
                            .f16 = rows.f16,
                            .scales = rows.scales,
                            .row_squares = rows.squares,
                            .parts = static_cast<i32>(parts_),
                            .x = rows.x,
                            .norm = rows.norm,
                            .epsilon = options_.epsilon,
                            .partials = at(partials_at_),
                            .squares = at(squares_at_),
                            .arrived = run.counters};
    if (options_.epilogue == abi::Epilogue::kAdd) args.residual = input<float>(launch, options_.residual_at());
    for (const Group& group : groups_) {
      for (int i = 0; i < group.count; ++i) args.matrices[i] = matrix(launch, group.first + i);
      const auto& [tile_rows, tiles, blocks, of_k] = group.division;
      args.tile_rows = tile_rows;
      args.tiles = tiles;
      const auto [splits, cluster] = of_k;
      run(group.function, {blocks, static_cast<u32>(padded_ / tile_of(tokens_)), splits}, args, cluster ? splits : 1);
    }
  }

 private:
  // Matrices of one launch.
  struct Group {
    std::string name;
    const api::Function* function;
    int first;
    int count = 0;
    std::vector<int64_t> rows;  // of the matrices; with kSiluMul of the first
    Division division;
  };

  const char* convert_batch_name() const {
    if (parts_ > 1) return "convert_batch_parts_f16";
    const int64_t vectors = (columns_ + 4 * kConvertThreads - 1) / (4 * kConvertThreads);
    return vectors == 1 ? "convert_batch_f16_1" : vectors == 2 ? "convert_batch_f16_2" : "convert_batch_f16_4";
  }

  // Fewer blocks take longer to convert x, or weights that they have few tokens for. With 32 sequences of an 8B model
  // in Q8_0 on an H200 clusters gain 1.5 us in q, k and v, and 0.7 us in the output projection, and cost 1 us in the
  // projection of the feed-forward, which has 14336 columns.
  int64_t most_columns_of_cluster() const {
    constexpr int64_t kConverted = 1024, kAll = std::numeric_limits<int32_t>::max();
    return own_ || (blocks_ && tile_of(tokens_) < kMaxBatchTile) ? kConverted : kAll;
  }

  // A wave converts as much for fewer rows: weights that are converted from 8 bits or more gain (Q8_0 1 to 4 %), those
  // that are smaller lose (Q4_K 1 to 2 %).
  static i32 least_rows(DType weights) {
    constexpr i32 kLeast = 12;
    return dtype_info(weights).block_bytes >= dtype_info(weights).block_elements ? kLeast : kBatchRows;
  }

  void add(const std::string& name, const abi::TensorView& weight, int m, const MakeContext& context) {
    if (groups_.empty() || groups_.back().name != name || groups_.back().count == kMaxMatrices)
      groups_.push_back({.name = name, .function = context.function(name), .first = m});
    Group& group = groups_.back();
    ++group.count;
    if (options_.epilogue == abi::Epilogue::kSiluMul && !group.rows.empty()) return;
    group.rows.push_back(weight.shape[0]);
  }

  LinearMatrix matrix(const abi::Launch& launch, int m) const {
    LinearMatrix result = linear_matrix(abi::stored_view(launch.inputs[1 + m], has_kernels));
    if (options_.bias) result.bias = input<float>(launch, options_.bias_at(m));
    if (m < launch.output_count) result.y = output<float>(launch, m);
    return result;
  }

  abi::LinearOptions options_;
  int64_t columns_, tokens_;
  int64_t padded_;  // tokens in whole tiles
  int64_t depth_;   // columns in whole chunks
  bool blocks_;
  bool own_;                                // the blocks convert x
  const api::Function* convert_ = nullptr;  // unless they do
  u32 parts_ = 1;                           // in which rows are converted
  std::vector<Group> groups_;
  int64_t f16_at_ = 0, scales_at_ = 0, row_squares_at_ = 0, partials_at_ = 0, squares_at_ = 0;
};

}  // namespace

bool takes_batch(const abi::TensorView& weight, int64_t tokens, const MakeContext& context) {
  return tokens > 1 && tokens <= context.chip().batch_tokens && has_batch(weight, tokens, context);
}

bool asks_batch(const abi::TensorView& weight, int64_t tokens, const MakeContext& context) {
  const Chip& chip = context.chip();
  const int64_t most = is_quantized(weight.dtype) ? chip.batch_tokens : chip.batch_tokens_16bit;
  return tokens > chip.small_batch_tokens && tokens <= most && takes_batch(weight, tokens, context);
}

std::unique_ptr<Kernel> make_linear_batch(const abi::KernelRequest& request, const abi::LinearOptions& options,
                                          const MakeContext& context) {
  const int64_t tokens = elements(request.inputs[0]) / request.inputs[1].shape[1];
  for (int m = 0; m < options.count; ++m) {
    const abi::TensorView& weight = request.inputs[1 + m];
    if (!has_batch(weight, tokens, context)) return nullptr;
    if (is_quantized(weight.dtype) != is_quantized(request.inputs[1].dtype)) return nullptr;
  }
  auto kernel = std::make_unique<LinearBatch>(request, options, context);
  return kernel->taken() ? std::move(kernel) : nullptr;
}

}  // namespace gabbro::gpu
