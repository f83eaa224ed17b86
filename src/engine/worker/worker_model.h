// A model in a worker process. Its text side is read in this process, without the weights or the device.
#pragma once

#include <memory>
#include <string>

#include "src/engine/model_service.h"
#include "src/engine/model_templates.h"
#include "src/engine/sampling_defaults.h"
#include "src/engine/worker/worker.h"
#include "src/text/tokenizer.h"

namespace gabbro::worker {

class WorkerModel final : public ModelService {
 public:
  // Throws as Engine::load, and DeviceLost if the process ends while it loads.
  WorkerModel(const EngineSpec& spec, WorkerOptions options);

  const ModelFacts& facts() const override { return worker_.loaded().model; }
  uint64_t device_memory() const override { return worker_.loaded().device_memory; }
  const text::Tokenizer& tokenizer() const override;
  const SamplingDefaults& sampling_defaults() const override { return sampling_; }
  const text::ChatTemplate* chat_template(bool with_tools) const override { return templates_.get(with_tools); }
  StreamingWork streaming_work() const override { return worker_.streaming_work(); }

  Ticket add(GenerationRequest request, std::shared_ptr<Channel> channel) override;
  void cancel(Ticket ticket) override { worker_.cancel(ticket); }
  void pause(Ticket ticket, bool paused) override { worker_.pause(ticket, paused); }
  bool is_ready() const override { return worker_.is_ready(); }
  bool step(const std::atomic<bool>* cancel = nullptr) override { return worker_.step(cancel); }

 private:
  Worker worker_;  // loads while the rest is read
  ModelTemplates templates_;
  SamplingDefaults sampling_;
  std::string no_tokenizer_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
};

// Whether a device of this name, as --device takes it, is used through a worker unless GABBRO_WORKER says otherwise
// ("on", "off", "auto"): GPUs are, whose faults end the process, and CPUs are not. Asks no GPU runtime. Throws
// bad_input for another value of the variable.
bool is_worker_wanted(const std::string& device);
bool is_worker_wanted(const LoadOptions& options);  // of any of its devices

}  // namespace gabbro::worker
