// Weights of feed-forward blocks that the host computes: a second source of the same checkpoint, on its device.
#include <stdexcept>

#include "src/models/weights/weights.h"

namespace gabbro::llm {
namespace {

// Nothing of these is streamed; they have separate memory, also where the file could be used in place.
class Resident : public StreamedWeights {
 public:
  explicit Resident(size_t bytes) : bytes_(bytes) {}
  bool takes(const std::string&) const override { return false; }
  bool takes_by_need(const std::string&) const override { return false; }
  Tensor add(const MatrixInFiles&) override { throw std::logic_error("resident weights are not streamed"); }
  Tensor add_experts(const MatrixInFiles&) override { throw std::logic_error("resident weights are not streamed"); }
  std::shared_ptr<ExpertSlots> expert_slots(const std::string&) override { return nullptr; }
  size_t resident_bytes() const override { return bytes_; }

 private:
  size_t bytes_;
};

}  // namespace

WeightSource::OnHost CheckpointWeights::on_host(const std::string& prefix) {
  const HostBlocks* const blocks = streamed_ != nullptr ? streamed_->take_host_block(prefix) : nullptr;
  if (blocks == nullptr) return {};
  if (host_ == nullptr) {
    stays_ = std::make_unique<Resident>(blocks->bytes);
    LoadModelOptions options;
    options.check_weights = check_weights_;
    options.streamed = stays_.get();
    host_ = std::make_unique<CheckpointWeights>(checkpoint_, names_, blocks->device, options);
  }
  return {.weights = host_.get(), .device = blocks->device, .tokens = blocks->tokens};
}

}  // namespace gabbro::llm
