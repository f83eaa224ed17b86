#include "src/models/weights/host_block_weights.h"

namespace gabbro::llm {

HostBlockWeights::Block HostBlockWeights::take(const std::string& prefix) {
  const HostBlocks* const blocks = stream_.take_host_block(prefix);
  if (blocks == nullptr) return {};
  if (!host_) {
    host_.emplace(checkpoint_, names_, blocks->device,
                  WeightOptions{.check_values = check_values_, .resident_bytes = blocks->bytes});
  }
  return {.weights = &*host_, .device = blocks->device, .tokens = blocks->tokens};
}

}  // namespace gabbro::llm
