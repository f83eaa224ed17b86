#include "src/models/weights/tensor_cuts.h"

#include <algorithm>
#include <string_view>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/models/weights/layer_range.h"

namespace gabbro::llm {
namespace {

// "attn_q" of "blk.3.attn_q.weight"; a name outside of layers without ".weight" or ".bias".
std::string_view module_of(std::string_view name) {
  if (layer_of(name) != kNoLayer) name.remove_prefix(name.find('.', name.find('.') + 1) + 1);
  for (const std::string_view end : {".weight", ".bias"}) {
    if (name.ends_with(end)) name.remove_suffix(end.size());
  }
  return name;
}

constexpr std::string_view kDown = "ffn_down", kGate = "ffn_gate", kUp = "ffn_up";

// Whether a matrix has this name, in a dense block, in the experts or in the shared expert.
bool is_one_of(std::string_view module, std::string_view name) {
  return module == name || (module.starts_with(name) && (module.ends_with("_exps") || module.ends_with("_shexp")) &&
                            !module.starts_with("ffn_gate_inp"));
}

bool is_bias(std::string_view name) { return name.ends_with(".bias"); }

}  // namespace

void TensorCuts::refuse(const std::string& name) const {
  throw Error(ErrorCode::kBadInput,
              fmt::format("models of architecture {} cannot be split by tensors: {} has no cut", sizes_.architecture,
                          quote(name)),
              "--split layers works");
}

IndexRange TensorCuts::head_rows(int64_t rows, bool of_queries) const {
  const HeadRange part = shard_.part_of_heads(sizes_.heads, sizes_.kv_heads);
  const IndexRange& range = of_queries ? part.heads : part.kv_heads;
  const int64_t of_head = rows / (of_queries ? sizes_.heads : sizes_.kv_heads);
  return {range.first * of_head, range.count * of_head};
}

// Rows of gate and up are cut as the columns of down: at its blocks.
int64_t TensorCuts::unit_of_down(const std::string& name) const {
  std::string down = name;
  for (const std::string_view other : {kGate, kUp}) {
    if (const size_t at = down.find(other); at != std::string::npos) down.replace(at, other.size(), kDown);
  }
  if (is_bias(down)) down.replace(down.size() - 4, 4, "weight");
  return block_of_(down);
}

MatrixPart TensorCuts::columns_of(const std::string& name, const MatrixSize& size, const IndexRange& owned) const {
  const int64_t block = block_of_(name);
  const int64_t first = owned.first / block * block, end = owned.first + owned.count;
  const int64_t last = std::min((end + block - 1) / block * block, size.columns);
  MatrixPart part{.size = size, .padding = {owned.first - first, last - end}, .sums = true};
  part.size.column_range = {first, last - first};
  return part;
}

MatrixPart TensorCuts::part_of(const std::string& name, const MatrixSize& size) const {
  const std::string_view module = module_of(name);
  const bool whole_columns = size.column_range.is_all_of(size.columns);
  const IndexRange section = {size.row_range.first, size.wanted_rows()};  // of rows that are stored together
  const auto rows = [&](const IndexRange& cut_rows) {
    MatrixPart part{.size = size};
    part.size.row_range = {section.first + cut_rows.first, cut_rows.count};
    return part;
  };
  if (size.is_cut) return whole_columns ? MatrixPart{.size = size} : columns_of(name, size, size.column_range);
  if (!whole_columns) refuse(name);
  if (module == "token_embd" || module == "output") return rows(shard_.part_of_vocabulary(size.rows));
  if (module == "position_embd") return {.size = size};
  if (module == "attn_q" && section.count % (sizes_.heads * sizes_.dimension) == 0)
    return rows(head_rows(section.count, true));
  const int64_t q_width = sizes_.heads * sizes_.dimension, kv_width = sizes_.kv_heads * sizes_.dimension;
  if ((module == "attn_k" || module == "attn_v") && section.count == kv_width)
    return rows(head_rows(section.count, false));
  if (module == "attn_qkv" && size.rows == q_width + 2 * kv_width) {
    const bool of_queries = section.first == 0;
    if (section.count == (of_queries ? q_width : kv_width)) return rows(head_rows(section.count, of_queries));
  }
  if (module == "attn_output" && size.columns == q_width) return columns_of(name, size, head_rows(size.columns, true));
  if (is_one_of(module, kDown)) return columns_of(name, size, shard_.part(size.columns, block_of_(name)));
  if (is_one_of(module, kGate) || is_one_of(module, kUp)) return rows(shard_.part(section.count, unit_of_down(name)));
  refuse(name);
}

TensorCuts::ExpertPart TensorCuts::part_of_experts(const std::string& name, const ExpertsSize& size) const {
  ExpertPart part{.size = size};
  if (is_one_of(module_of(name), kDown)) {
    const MatrixPart columns =
        columns_of(name, {.rows = size.rows, .columns = size.columns}, shard_.part(size.columns, block_of_(name)));
    part.size.column_range = columns.size.column_range;
    part.padding = columns.padding;
  } else {
    part.size.row_range = shard_.part(size.rows, unit_of_down(name));
  }
  return part;
}

std::vector<float> TensorCuts::part_of_values(const std::string& name, std::vector<float> all,
                                              std::vector<int64_t>& shape) const {
  const std::string_view module = module_of(name);
  const auto cut_last = [&](const IndexRange& range) {
    std::vector<float> some;
    const auto length = static_cast<size_t>(shape.back());
    for (size_t row = 0; row < all.size(); row += length) {
      const auto first = all.begin() + static_cast<std::ptrdiff_t>(row) + range.first;
      some.insert(some.end(), first, first + range.count);
    }
    shape.back() = range.count;
    return some;
  };
  const auto part_of_heads = [&] { return shard_.part_of_heads(sizes_.heads, sizes_.kv_heads); };
  if (module == "attn_sinks") return cut_last(part_of_heads().heads);
  if (module == "attn_q_norm" || module == "attn_k_norm") {
    const int64_t stored = module == "attn_q_norm" ? sizes_.heads : sizes_.kv_heads;
    const IndexRange& range = module == "attn_q_norm" ? part_of_heads().heads : part_of_heads().kv_heads;
    if (shape.size() == 1 && shape[0] == stored * sizes_.dimension && stored > 1)  // a norm over the heads of all
      return cut_last({range.first * sizes_.dimension, range.count * sizes_.dimension});
    if (shape.size() == 1 && shape[0] != sizes_.dimension) refuse(name);
    if (shape.size() == 2 && shape[0] == stored) {
      const auto first = all.begin() + range.first * shape[1];
      shape[0] = range.count;
      return {first, first + range.count * shape[1]};
    }
  }
  if (is_bias(name) && module.ends_with("_exps")) {
    if (!is_one_of(module, kDown)) return cut_last(shard_.part(shape.back(), unit_of_down(name)));
    if (shard_.rank > 0) std::ranges::fill(all, 0.0f);
    return all;
  }
  const bool of_stream =
      module.find("_norm") != module.npos || module.starts_with("ffn_gate_inp") || module == "exp_probs_b";
  if (layer_of(name) != kNoLayer && !of_stream) refuse(name);
  return all;
}

}  // namespace gabbro::llm
