#include "src/models/weights/layer_range.h"

#include <algorithm>
#include <charconv>

namespace gabbro::llm {
namespace {

constexpr std::string_view kLayers = "blk.";
constexpr const char* kHead = "output.weight";
constexpr const char* kTokens = "token_embd.weight";

// The number at the beginning of the text.
int64_t number_in(std::string_view text) {
  int64_t number = kNoLayer;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return std::max(number, kNoLayer);
}

}  // namespace

int64_t layer_of(std::string_view name) {
  return name.starts_with(kLayers) ? number_in(name.substr(kLayers.size())) : kNoLayer;
}

int64_t stored_layer_of(std::string_view name, const Checkpoint& checkpoint, std::span<const WeightName> names) {
  if (checkpoint.layout() == CheckpointLayout::kGguf) return layer_of(name);
  for (const WeightName& row : names) {
    const std::string_view pattern = row.hugging_face;
    const size_t at = pattern.find("{}");
    if (at == pattern.npos || !name.starts_with(pattern.substr(0, at))) continue;
    if (const int64_t layer = number_in(name.substr(at)); layer != kNoLayer) return layer;
  }
  return kNoLayer;
}

EndMatrices::EndMatrices(const Checkpoint& checkpoint, std::span<const WeightName> names)
    : embeddings(weight_name(names, checkpoint, kTokens)),
      head(has_weight(names, checkpoint, kHead) ? weight_name(names, checkpoint, kHead) : embeddings) {}

bool holds_stored(const LayerRange& range, const EndMatrices& ends, std::string_view name, int64_t layer) {
  if (layer != kNoLayer) return range.has(layer);
  if (name == ends.embeddings) return range.has_first || (ends.tied() && range.has_last);
  return name == ends.head ? range.has_last : true;
}

}  // namespace gabbro::llm
