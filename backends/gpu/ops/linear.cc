// `linear` and `linear_fused` (docs/design/fused_ops.md): activations are converted to the form that the weights'
// kernels read (normalized, and rounded to 8 bits for block formats, or to f16 for many tokens), which the decode
// kernels do themselves; then matrices of one format share a launch.
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/common/dequantized.h"
#include "backends/common/linear_request.h"
#include "backends/common/request.h"
#include "backends/gpu/kernel_table.h"
#include "backends/gpu/ops/library_matrix.h"
#include "backends/gpu/ops/linear_batch.h"
#include "backends/gpu/ops/weights.h"
#include "backends/gpu/tuning/autotune.h"
#include "backends/gpu/tuning/tuning.h"
#include "kernels/linear/linear.h"
#include "kernels/rows/rms_norm.h"

namespace gabbro::gpu {
namespace {

// A candidate for a product: the kernels for few tokens, those for a small batch, tiles of `tile_tokens` tokens, or a
// library.
struct LinearCandidate {
  int tile_tokens = 0;
  std::string library;
  bool batch = false;
};

class Linear : public Kernel {
 public:
  // The request's operands are checked (below).
  Linear(const abi::KernelRequest& request, const abi::LinearOptions& options, const LinearCandidate& candidate,
         const MakeContext& context)
      : options_(options),
        tile_tokens_(candidate.library.empty() ? candidate.tile_tokens
                                               : kSmallTileTokens),  // a library reads f16 as well
        columns_(request.inputs[1].shape[1]),
        tokens_(elements(request.inputs[0]) / columns_),
        rows_(request.inputs[1].shape[0]),
        depth_(f16_depth(columns_)) {
    const bool paired = options.epilogue == abi::Epilogue::kSiluMul;
    wave_ = context.wave();
    while (width_ < 8 && width_ < tokens_) width_ *= 2;
    if (!candidate.library.empty()) make_library(candidate.library, request, context);
    for (int m = 0; m < options.count; ++m) {
      const abi::TensorView& weight = request.inputs[1 + m];
      Group* last = groups_.empty() ? nullptr : &groups_.back();
      const Reads reads = reads_of(weight);
      const std::string name = kernel_name(weight, reads);
      if (last == nullptr || last->name != name || last->count == kMaxMatrices) {
        groups_.push_back({.name = name,
                           .function = context.function(name),
                           .reads = reads,
                           .first = m,
                           .row_threads = is_quantized(weight.dtype) ? 0 : one_row(weight).threads});
        last = &groups_.back();
      }
      ++last->count;
      if (!paired || m == 0) {
        last->waves += waves_of_matrix(weight, reads);
        last->row_tiles += row_tiles(weight.shape[0], static_cast<Epilogue>(options.epilogue));
      }
      const auto rows = static_cast<double>(weight.shape[0]);
      bytes += rows * weight_row_bytes(weight) + static_cast<double>(tokens_) * rows * 4;
      flops += 2 * static_cast<double>(tokens_) * rows * static_cast<double>(columns_);
    }
    if (reads_any(Reads::kCodes)) quantize_ = context.function("quantize_rows");
    if (reads_any(Reads::kF16)) convert_ = context.function(convert_rows_name(columns_));
    if (!library_.empty()) finish_ = context.function("linear_finish");
    if (reads_any(Reads::kFloats) && options.norm) normalize_ = context.function("rms_norm");
    lay_out_scratch();
    implementation = std::string(request.op) + " " + (library_.empty() ? groups_.front().name : candidate.library);
    taken_ = candidate.library.empty() == library_.empty();
  }

  // Whether the way is one for this request: the library takes all of it, and matrices whose epilogue joins them are of
  // one kernel.
  bool taken() const { return taken_ && (options_.epilogue != abi::Epilogue::kSiluMul || groups_.size() == 1); }

  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    auto* scratch = static_cast<std::byte*>(launch.scratch);
    const float* norm = options_.norm ? input<float>(launch, options_.norm_at()) : nullptr;
    LinearArgs few = {.columns = static_cast<i32>(columns_),
                      .tokens = static_cast<i32>(tokens_),
                      .epilogue = static_cast<Epilogue>(options_.epilogue),
                      .x = input<float>(launch, 0),
                      .norm = norm,
                      .epsilon = options_.epsilon};
    LinearTiledArgs many = {
        .columns = few.columns, .tokens = few.tokens, .epilogue = few.epilogue, .depth = static_cast<i32>(depth_)};
    if (options_.epilogue == abi::Epilogue::kAdd)
      many.residual = few.residual = input<float>(launch, options_.residual_at());
    const Dim rows = {static_cast<u32>(tokens_), slices_of(tokens_, columns_)};
    const i32 slice = slice_of(tokens_, columns_);
    if (quantize_ != nullptr) {
      const QuantizeRowsArgs quantize = {.x = few.x,
                                         .norm = norm,
                                         .codes = reinterpret_cast<i8*>(scratch),
                                         .scales = reinterpret_cast<float*>(scratch + scales_at_),
                                         .sums = reinterpret_cast<i32*>(scratch + sums_at_),
                                         .columns = few.columns,
                                         .slice = slice,
                                         .epsilon = options_.epsilon};
      run(quantize_, rows, quantize);
      few.codes = quantize.codes;
      few.scales = quantize.scales;
      few.sums = quantize.sums;
    }
    if (convert_ != nullptr) {
      const ConvertRowsArgs convert = {.x = few.x,
                                       .norm = norm,
                                       .f16 = reinterpret_cast<Half*>(scratch + f16_at_),
                                       .scales = reinterpret_cast<float*>(scratch + row_scales_at_),
                                       .columns = few.columns,
                                       .depth = many.depth,
                                       .epsilon = options_.epsilon};
      run(convert_, {static_cast<u32>(tokens_)}, convert);
      many.f16 = convert.f16;
      many.scales = convert.scales;
    }
    const float* floats = few.x;
    if (normalize_ != nullptr) {
      auto* normalized = reinterpret_cast<float*>(scratch + normalized_at_);
      run(normalize_, rows,
          RowsArgs{.x = few.x,
                   .weight = norm,
                   .y = normalized,
                   .rows = tokens_,
                   .columns = few.columns,
                   .slice = slice,
                   .epsilon = options_.epsilon});
      floats = normalized;
    }
    if (!library_.empty()) return enqueue_library(launch, run, many);
    for (const Group& group : groups_) {
      if (group.reads == Reads::kF16) {
        for (int i = 0; i < group.count; ++i) many.matrices[i] = matrix(launch, group.first + i);
        run(group.function, {blocks_for(tokens_, static_cast<u32>(tile_tokens_)), static_cast<u32>(group.row_tiles)},
            many);
        continue;
      }
      few.x = group.reads == Reads::kFloats ? floats : input<float>(launch, 0);
      few.count = group.count;
      few.waves = group.waves;
      for (int i = 0; i < group.count; ++i) few.matrices[i] = matrix(launch, group.first + i);
      u32 blocks = blocks_for(group.waves, api::block_threads(group.function) / wave_);
      if (group.reads == Reads::kItself) {  // each block prepares x for itself
        few.row_threads = group.row_threads;
        if (group.row_threads > 0) blocks = static_cast<u32>(group.waves);
        blocks = std::min(blocks, api::resident_blocks(group.function));
      }
      run(group.function, {blocks, blocks_for(tokens_, static_cast<u32>(width_))}, few);
    }
  }

 private:
  enum class Reads { kFloats, kCodes, kF16, kItself };  // the form of the activations; kItself: x itself

  struct Group {
    std::string name;
    const api::Function* function;
    Reads reads;
    int first;
    int count = 0;
    i32 waves = 0;
    i32 row_tiles = 0;
    i32 row_threads = 0;  // of one token
  };

  // All matrices or none.
  void make_library(const std::string& library, const abi::KernelRequest& request, const MakeContext& context) {
    for (int m = 0; m < options_.count; ++m) {
      auto matrix = LibraryMatrix::make(library, request.inputs[1 + m], tokens_, depth_, context);
      if (!matrix) return library_.clear();
      library_.push_back(std::move(*matrix));
    }
  }

  void enqueue_library(const abi::Launch& launch, const Launcher& run, const LinearTiledArgs& many) const {
    auto* scratch = static_cast<std::byte*>(launch.scratch);
    const bool paired = many.epilogue == Epilogue::kSiluMul;
    LinearFinishArgs finish = {.epilogue = many.epilogue, .residual = many.residual, .scales = many.scales};
    for (int m = 0; m < options_.count; ++m) {
      LinearMatrix& own = finish.matrices[paired ? m : 0];
      own = matrix(launch, m);
      if (paired && m == 1) own.y = reinterpret_cast<float*>(scratch + second_at_);
      library_[static_cast<size_t>(m)].enqueue(run, own, many.f16, many.residual, scratch + weights_at_);
      if (paired && m == 0) continue;
      run(finish_, {static_cast<u32>(tokens_), blocks_for(finish.matrices[0].rows, kFinishRows)}, finish);
    }
  }

  bool reads_any(Reads reads) const { return std::ranges::count(groups_, reads, &Group::reads) > 0; }

  // Every form that is read gets its place.
  void lay_out_scratch() {
    ScratchLayout layout;
    const auto place = [&](int64_t count_of_bytes) { return layout.place(count_of_bytes); };
    const int64_t values = tokens_ * columns_;
    if (quantize_ != nullptr) {
      place(values);
      scales_at_ = place(values / 8);
      sums_at_ = place(values / 4);
    }
    if (convert_ != nullptr) {
      f16_at_ = place(tokens_ * depth_ * 2);
      row_scales_at_ = place(tokens_ * 4);
    }
    int64_t weights = 0;
    for (const LibraryMatrix& matrix : library_) weights = std::max(weights, matrix.scratch_bytes());
    weights_at_ = place(weights);
    if (!library_.empty() && options_.epilogue == abi::Epilogue::kSiluMul) second_at_ = place(tokens_ * rows_ * 4);
    if (normalize_ != nullptr) normalized_at_ = place(values * 4);
    scratch_bytes = layout.bytes();
  }

  Reads reads_of(const abi::TensorView& weight) const {
    if (tile_tokens_ > 0 && takes_f16(weight)) return Reads::kF16;
    const bool one =
        tokens_ == 1 && (is_quantized(weight.dtype) ? columns_ <= kMaxOneColumns
                                                    : one_row(weight).slots > 0 && is_16_byte_aligned(weight));
    return one ? Reads::kItself : is_quantized(weight.dtype) ? Reads::kCodes : Reads::kFloats;
  }

  // Decode with plain weights.
  OneRow one_row(const abi::TensorView& weight) const {
    return one_row_of(columns_ * dtype_info(weight.dtype).block_bytes / 16, wave_);
  }
  // See LinearArgs.
  i32 waves_of_matrix(const abi::TensorView& weight, Reads reads) const {
    return reads == Reads::kItself ? static_cast<i32>(weight.shape[0]) : waves_of(weight.shape[0]);
  }

  double weight_row_bytes(const abi::TensorView& weight) const {
    return static_cast<double>(columns_) * dtype_info(weight.dtype).block_bytes /
           dtype_info(weight.dtype).block_elements;
  }

  std::string kernel_name(const abi::TensorView& weight, Reads reads) const {
    const std::string name = "linear_" + std::string(kernel_format(weight.dtype));
    if (reads == Reads::kF16) return name + "_tiled_" + std::to_string(tile_tokens_);
    if (reads == Reads::kItself) {
      const bool paired = options_.epilogue == abi::Epilogue::kSiluMul;
      const std::string slots = is_quantized(weight.dtype) ? "" : "_" + std::to_string(one_row(weight).slots);
      return name + "_1" + slots + (paired ? "_paired" : "");
    }
    const std::string sized = name + "_" + std::to_string(std::max(width_, 2));
    return is_quantized(weight.dtype) || is_16_byte_aligned(weight) ? sized : sized + "_any";
  }

  LinearMatrix matrix(const abi::Launch& launch, int m) const {
    LinearMatrix result = linear_matrix(abi::stored_view(launch.inputs[1 + m], has_kernels));
    if (options_.bias) result.bias = input<float>(launch, options_.bias_at(m));
    if (m < launch.output_count) result.y = output<float>(launch, m);
    return result;
  }

  abi::LinearOptions options_;
  int tile_tokens_;  // 0: no tiles
  bool taken_ = false;
  int64_t columns_;
  int64_t tokens_;
  int64_t rows_;   // of the first matrix
  int64_t depth_;  // columns in whole tiles
  int width_ = 1;  // tokens that a wave handles together
  u32 wave_ = 32;
  std::vector<Group> groups_;
  const api::Function* quantize_ = nullptr;
  std::vector<LibraryMatrix> library_;
  const api::Function* convert_ = nullptr;
  const api::Function* finish_ = nullptr;
  const api::Function* normalize_ = nullptr;
  int64_t scales_at_ = 0, sums_at_ = 0, f16_at_ = 0, row_scales_at_ = 0, weights_at_ = 0, second_at_ = 0,
          normalized_at_ = 0;
};

// All candidates for the request, in the order of the rule of tuning/chip.h. A library that the rule does not ask comes
// last.
std::vector<std::pair<std::string, LinearCandidate>> candidates_of(const abi::KernelRequest& request, int matrices,
                                                                   const MakeContext& context) {
  const std::span<const abi::TensorView> weights(request.inputs + 1, static_cast<size_t>(matrices));
  const int64_t tokens = elements(request.inputs[0]) / weights[0].shape[1];
  const std::pair few("few", LinearCandidate{});
  std::vector<std::pair<std::string, LinearCandidate>> libraries, tiles, candidates;
  const auto wants_batch = [&](const abi::TensorView& weight) { return asks_batch(weight, tokens, context); };
  const auto may_batch = [&](const abi::TensorView& weight) { return takes_batch(weight, tokens, context); };
  const std::pair batch("batch", LinearCandidate{.batch = true});
  const bool takes_ours = std::ranges::all_of(weights, may_batch);
  const Chip& chip = context.chip();
  if (tokens <= chip.small_batch_tokens || std::ranges::none_of(weights, takes_f16)) {
    candidates.push_back(few);
    if (takes_ours) candidates.push_back(batch);
    return candidates;
  }
  const bool asks_ours = std::ranges::all_of(weights, wants_batch);
  if (asks_ours) candidates.push_back(batch);
  const bool asks =
      std::ranges::all_of(weights, [&](const abi::TensorView& weight) { return asks_library(weight, tokens, chip); });
  if (std::ranges::all_of(weights, takes_f16) && (asks || context.tuning().active())) {
    for (const std::string& library : context.libraries()) libraries.push_back({library, {.library = library}});
  }
  for (const int tile : {kSmallTileTokens, kLargeTileTokens}) {
    const std::pair tiled("tiled " + std::to_string(tile), LinearCandidate{.tile_tokens = tile});
    // The larger ones first where they are the rule.
    tiles.insert(tokens > 2 * kSmallTileTokens ? tiles.begin() : tiles.end(), tiled);
  }
  const auto add = [&](const auto& more) { candidates.insert(candidates.end(), more.begin(), more.end()); };
  if (asks) add(libraries);
  if (!asks_ours && takes_ours) candidates.push_back(batch);
  if (tokens <= chip.untiled_tokens) candidates.push_back(few);
  add(tiles);
  if (tokens > chip.untiled_tokens && tokens <= chip.measured_small_batch_tokens) candidates.push_back(few);
  if (!asks) add(libraries);
  return candidates;
}

std::string shape_of(const abi::KernelRequest& request, const abi::LinearOptions& options) {
  const int64_t columns = request.inputs[1].shape[1];
  std::string text =
      fmt::format("linear up to {} tokens x {},", length_class(elements(request.inputs[0]) / columns), columns);
  for (int m = 0; m < options.count; ++m) {
    const abi::TensorView& weight = request.inputs[1 + m];
    const bool same = m > 0 && weight.dtype == request.inputs[m].dtype;
    text += same ? fmt::format(" + {}", weight.shape[0])
                 : fmt::format("{} {} {}", m > 0 ? " +" : "", dtype_name(weight.dtype), weight.shape[0]);
  }
  if (options.norm) text += ", norm";
  if (options.bias) text += ", bias";
  if (options.epilogue == abi::Epilogue::kAdd) text += ", add";
  if (options.epilogue == abi::Epilogue::kSiluMul) text += ", silu_mul";
  return text;
}

}  // namespace

std::unique_ptr<Kernel> make_linear(const abi::KernelRequest& request, const MakeContext& context) {
  if (request.op == std::string_view("linear")) {
    if (auto kernel = make_matmul_fused(request, context)) return kernel;
  }
  const auto options = abi::read_linear_request(request, is_weight);
  if (!options) return nullptr;
  std::vector<Candidate> candidates;
  for (const auto& [name, candidate] : candidates_of(request, options->count, context)) {
    candidates.push_back({.name = name,
                          .ours = candidate.library.empty(),
                          .make = [&, candidate = candidate]() -> std::unique_ptr<Kernel> {
                            if (candidate.batch) return make_linear_batch(request, *options, context);
                            auto kernel = std::make_unique<Linear>(request, *options, candidate, context);
                            return kernel->taken() ? std::move(kernel) : nullptr;
                          },
                          .only_measured = !candidate.library.empty() && !context.trusts_libraries()});
  }
  return autotune(candidates.size() > 1 ? shape_of(request, *options) : "", candidates, context);
}

}  // namespace gabbro::gpu
