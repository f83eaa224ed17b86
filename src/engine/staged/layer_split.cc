#include "src/engine/staged/layer_split.h"

#include <limits>
#include <numeric>

#include "src/base/error.h"

namespace gabbro::staged {

LayerSizes sizes_of(const Checkpoint& checkpoint, std::span<const llm::WeightName> names, std::vector<uint64_t> cache) {
  LayerSizes sizes{.weights = std::vector<uint64_t>(cache.size(), 0), .cache = std::move(cache)};
  const llm::EndMatrices ends(checkpoint, names);
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    const uint64_t bytes = stored_form(tensor).data.size();
    const int64_t layer = llm::stored_layer_of(tensor.name, checkpoint, names);
    if (layer >= 0 && layer < std::ssize(sizes.weights)) sizes.weights[static_cast<size_t>(layer)] += bytes;
    if (tensor.name == ends.embeddings) sizes.embeddings = bytes;
    if (tensor.name == ends.head) sizes.head = bytes;
  }
  return sizes;
}

LayerSizes sizes_of(std::span<const llm::PlannedTensor> tensors, std::vector<uint64_t> cache) {
  LayerSizes sizes{.weights = std::vector<uint64_t>(cache.size(), 0), .cache = std::move(cache)};
  for (const llm::PlannedTensor& tensor : tensors) {
    const int64_t layer = llm::layer_of(tensor.name);
    if (layer >= 0 && layer < std::ssize(sizes.weights)) sizes.weights[static_cast<size_t>(layer)] += tensor.bytes();
    if (tensor.name == "token_embd.weight") sizes.embeddings = tensor.bytes();
    if (tensor.name == "output.weight") sizes.head = tensor.bytes();
  }
  if (sizes.head == 0) sizes.head = sizes.embeddings;
  return sizes;
}

uint64_t memory_of(const LayerSizes& sizes, const llm::LayerRange& range) {
  uint64_t bytes = (range.has_first ? sizes.embeddings : 0) + (range.has_last ? sizes.head : 0);
  for (int64_t i = range.first; i < range.end; ++i)
    bytes += sizes.weights[static_cast<size_t>(i)] + sizes.cache[static_cast<size_t>(i)];
  return bytes;
}

namespace {

// Time of a step on a device: one row of the embeddings is read, the head as a whole.
double time_of(const LayerSizes& sizes, const llm::LayerRange& range, const StageDevice& device) {
  uint64_t bytes = memory_of(sizes, range) - (range.has_first ? sizes.embeddings : 0);
  return static_cast<double>(bytes) / device.speed;
}

std::string describe_memory(std::span<const StageDevice> devices) {
  std::string text;
  for (const StageDevice& device : devices)
    text += fmt::format("{}{} has {} MiB", text.empty() ? "" : ", ", device.name, device.memory >> 20);
  return text;
}

}  // namespace

std::vector<llm::LayerRange> split_layers(const LayerSizes& sizes, std::span<const StageDevice> devices) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const auto layers = std::ssize(sizes.weights), count = std::ssize(devices);
  if (layers < count) throw bad_input("a model of {} layers cannot be split over {} devices", layers, count);
  const auto range = [&](int64_t first, int64_t end) {
    return llm::LayerRange{.first = first, .end = end, .has_first = first == 0, .has_last = end == layers};
  };
  // best[d][end]: the slowest of the first d + 1 devices, which hold layers [0, end); cut: where the last one begins.
  std::vector<std::vector<double>> best(devices.size(), std::vector<double>(static_cast<size_t>(layers) + 1, kNever));
  std::vector<std::vector<int64_t>> cut(devices.size(), std::vector<int64_t>(static_cast<size_t>(layers) + 1, 0));
  for (int64_t d = 0; d < count; ++d) {
    const auto at = static_cast<size_t>(d);
    for (int64_t end = d + 1; end <= layers - (count - 1 - d); ++end) {
      for (int64_t first = d; first < end; ++first) {
        if (d == 0 && first > 0) break;
        const StageDevice& device = devices[at];
        if (device.memory > 0 && memory_of(sizes, range(first, end)) > device.memory) continue;
        const double before = d == 0 ? 0 : best[at - 1][static_cast<size_t>(first)];
        const double slowest = std::max(before, time_of(sizes, range(first, end), device));
        if (slowest >= best[at][static_cast<size_t>(end)]) continue;
        best[at][static_cast<size_t>(end)] = slowest;
        cut[at][static_cast<size_t>(end)] = first;
      }
    }
  }
  if (best.back()[static_cast<size_t>(layers)] == kNever) {
    throw OutOfMemory(fmt::format("weights and cache of {} MiB do not fit: {}",
                                  memory_of(sizes, range(0, layers)) >> 20, describe_memory(devices)));
  }
  std::vector<llm::LayerRange> ranges(devices.size());
  int64_t end = layers;
  for (size_t at = devices.size(); at-- > 0;) {
    const int64_t first = cut[at][static_cast<size_t>(end)];
    ranges[at] = range(first, end);
    end = first;
  }
  return ranges;
}

}  // namespace gabbro::staged
