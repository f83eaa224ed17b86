// A loaded model that answers requests, in this process or in a worker, and the text side of it. The tokenizer and the
// templates are in this process in both cases.
#pragma once

#include <memory>

#include "src/engine/engine_spec.h"
#include "src/engine/generation_loop.h"

namespace gabbro {

class Scheduler;  // src/engine/scheduler.h
struct SamplingDefaults;

class ModelService : public GenerationLoop {
 public:
  virtual const ModelFacts& facts() const = 0;
  virtual uint64_t device_memory() const = 0;  // total bytes of the device; 0: unknown
  // As the functions of Engine with these names.
  virtual const text::Tokenizer& tokenizer() const = 0;
  virtual const SamplingDefaults& sampling_defaults() const = 0;
  virtual const text::ChatTemplate* chat_template(bool with_tools = false) const = 0;
  virtual StreamingWork streaming_work() const = 0;
  // False while an engine that was lost is started again; from any thread.
  virtual bool is_ready() const { return true; }
};

class LocalModel final : public ModelService {
 public:
  // Throws as Engine::load.
  static std::shared_ptr<LocalModel> load(const EngineSpec& spec);
  LocalModel(std::shared_ptr<Engine> engine, std::unique_ptr<Scheduler> loop);
  ~LocalModel() override;

  const ModelFacts& facts() const override;
  uint64_t device_memory() const override;
  const text::Tokenizer& tokenizer() const override;
  const SamplingDefaults& sampling_defaults() const override;
  const text::ChatTemplate* chat_template(bool with_tools) const override;
  StreamingWork streaming_work() const override;

  Ticket add(GenerationRequest request, std::shared_ptr<Channel> channel) override;
  void cancel(Ticket ticket) override;
  void pause(Ticket ticket, bool paused) override;
  double step_forecast() const;  // seconds, as Scheduler
  bool step(const std::atomic<bool>* cancel = nullptr) override;
  void fail_running(const Error& error);  // as Scheduler

 private:
  std::shared_ptr<Engine> engine_;
  std::unique_ptr<Scheduler> loop_;
};

}  // namespace gabbro
