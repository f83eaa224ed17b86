#include "src/convert/importance.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/gguf/gguf_parse.h"

namespace gabbro::llm {
namespace {

constexpr const char* kHint = "gabbro imatrix MODEL --text FILE -o imatrix.gguf makes one for --imatrix";

// Embeddings and heads have no entries, mostly.
bool is_of_layer(const std::string& name) { return name.find("blk.") != name.npos; }

}  // namespace

ConvertImportance::ConvertImportance(const ConvertOptions& options)
    : type_(*options.type), matrix_(options.importance), path_(options.importance_path) {
  if (matrix_ != nullptr || !needs_importance(type_)) return;
  throw Error(ErrorCode::kBadInput,
              fmt::format("--type {} needs an importance matrix: without one the model is of no use", type_.name),
              kHint);
}

void ConvertImportance::refuse(const PlannedTensor& planned) const {
  const std::string what = matrix_ == nullptr ? fmt::format("--type {} needs an importance matrix", type_.name)
                                              : fmt::format("{}: an entry is missing", path_);
  throw Error(ErrorCode::kBadInput,
              fmt::format("{}: tensor {} becomes {}, which is of no use without one", what, quote(planned.name),
                          dtype_name(planned.dtype)),
              kHint);
}

std::vector<float> ConvertImportance::weights(const PlannedTensor& planned) {
  if (planned.shape.size() < 2) return {};
  const bool quantized = is_quantized(planned.dtype), counts = quantized && is_of_layer(planned.name);
  quantized_ += counts ? 1 : 0;
  const bool found = matrix_ != nullptr && matrix_->entries.contains(planned.name);
  if (!found) {
    if (quantized && needs_importance(type_, planned.name, planned.dtype)) refuse(planned);
    if (counts) missing_.push_back(planned.name);
    return {};
  }
  used_.insert(planned.name);
  std::vector<float> weights =
      matrix_->weights(planned.name, std::max<int64_t>(planned.experts.experts, 1), planned.shape.back(), path_);
  unreached_ += static_cast<size_t>(std::ranges::count(matrix_->entries.at(planned.name).counts, 0.0f));
  return quantized ? weights : std::vector<float>();
}

std::vector<std::string> ConvertImportance::warnings() const {
  if (matrix_ == nullptr) return {};
  const auto unused =
      std::ranges::find_if(matrix_->entries, [&](const auto& entry) { return !used_.contains(entry.first); });
  if (used_.empty()) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("{}: no entry is for a matrix of this model; the first is {}", path_,
                            quote(matrix_->entries.begin()->first)),
                "it was made for another model");
  }
  std::vector<std::string> lines;
  if (!is_quantized(type_.base)) lines.push_back(fmt::format("{}: not used, {} has no blocks", path_, type_.name));
  if (!missing_.empty()) {
    lines.push_back(fmt::format("{}: no entry for {} of {} matrices, the first {}: their errors count alike", path_,
                                missing_.size(), quantized_, quote(missing_.front())));
  }
  if (unused != matrix_->entries.end()) {
    lines.push_back(fmt::format("{}: {} of {} entries are of no matrix of this model, the first {}", path_,
                                matrix_->entries.size() - used_.size(), matrix_->entries.size(), quote(unused->first)));
  }
  if (unreached_ > 0) {
    lines.push_back(
        fmt::format("{}: {} matrices of experts got no tokens: their errors count alike", path_, unreached_));
  }
  return lines;
}

}  // namespace gabbro::llm
