#include "src/engine/model_service.h"

#include "gabbro/backend/device.h"
#include "src/engine/scheduler.h"
#include "src/engine/speculation.h"

namespace gabbro {
namespace {

// The source of drafted tokens; null: none. Prompt lookup costs nothing where weights are streamed, and is on there.
std::shared_ptr<Drafter> make_drafter(const DraftSpec& spec, const std::shared_ptr<Engine>& draft,
                                      const std::shared_ptr<Engine>& engine) {
  const DraftDefaults defaults = Runner(engine).draft_defaults();
  const int most = spec.tokens > 0 ? spec.tokens : defaults.most;
  if (draft != nullptr) return std::make_shared<DraftModel>(draft, *engine, most);
  return !spec.no_lookup && (spec.lookup || defaults.lookup) ? std::make_shared<PromptLookup>(most) : nullptr;
}

}  // namespace

std::shared_ptr<LocalModel> LocalModel::load(const EngineSpec& spec) {
  std::shared_ptr<Engine> draft;  // first, so that its memory counts where that of the model is limited
  if (!spec.draft.path.empty()) draft = Engine::load(spec.draft.path, spec.draft.options);
  const std::shared_ptr<Engine> engine = Engine::load(spec.path, spec.options);
  const SchedulerOptions options = {.deterministic = spec.deterministic,
                                    .drafter = make_drafter(spec.draft, draft, engine),
                                    .store = {.folder = spec.cache_folder, .bytes = spec.cache_bytes}};
  return std::make_shared<LocalModel>(engine, std::make_unique<Scheduler>(engine, options));
}

LocalModel::LocalModel(std::shared_ptr<Engine> engine, std::unique_ptr<Scheduler> loop)
    : engine_(std::move(engine)), loop_(std::move(loop)) {}
LocalModel::~LocalModel() = default;

const ModelFacts& LocalModel::facts() const { return engine_->facts(); }

uint64_t LocalModel::device_memory() const {
  for (const abi::DeviceFacts& device : list_devices()) {
    if (device.id == facts().device_id) return device.memory_total;
  }
  return 0;
}

const text::Tokenizer& LocalModel::tokenizer() const { return engine_->tokenizer(); }
const SamplingDefaults& LocalModel::sampling_defaults() const { return engine_->sampling_defaults(); }
const text::ChatTemplate* LocalModel::chat_template(bool with_tools) const {
  return engine_->chat_template(with_tools);
}
StreamingWork LocalModel::streaming_work() const { return engine_->streaming_work(); }

Ticket LocalModel::add(GenerationRequest request, std::shared_ptr<Channel> channel) {
  return loop_->add(std::move(request), std::move(channel));
}
void LocalModel::cancel(Ticket ticket) { loop_->cancel(ticket); }
void LocalModel::pause(Ticket ticket, bool paused) { loop_->pause(ticket, paused); }
double LocalModel::step_forecast() const { return loop_->step_forecast(); }
bool LocalModel::step(const std::atomic<bool>* cancel) { return loop_->step(cancel); }
void LocalModel::fail_running(const Error& error) { loop_->fail_running(error); }

}  // namespace gabbro
