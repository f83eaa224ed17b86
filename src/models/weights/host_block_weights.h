// Weights of the feed-forward blocks that the host computes: a source of the same checkpoint, on the host's device.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "src/models/weights/checkpoint_weights.h"

namespace gabbro::llm {

class HostBlockWeights {
 public:
  // `stream` says which layers have such blocks. All arguments have to live as long as the loading takes.
  HostBlockWeights(const Checkpoint& checkpoint, std::span<const WeightName> names, StreamedWeights& stream,
                   bool check_values)
      : checkpoint_(checkpoint), names_(names), stream_(stream), check_values_(check_values) {}

  struct Block {
    WeightSource* weights = nullptr;  // null: the host does not compute this layer's
    std::shared_ptr<Device> device;
    int64_t tokens = 0;  // of a pass, at most
  };
  // For the layer with this prefix ("blk.3."), whose other weights have been loaded.
  Block take(const std::string& prefix);

 private:
  const Checkpoint& checkpoint_;
  std::span<const WeightName> names_;
  StreamedWeights& stream_;
  bool check_values_;
  std::optional<CheckpointWeights> host_;
};

}  // namespace gabbro::llm
