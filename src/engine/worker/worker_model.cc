#include "src/engine/worker/worker_model.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "src/backend/discovery/machine.h"
#include "src/backend/plugin.h"
#include "src/base/error.h"
#include "src/engine/model_text.h"
#include "src/formats/checkpoint.h"

namespace gabbro::worker {
namespace {

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

bool is_backend(std::string_view name, std::string_view backend) {
  return name.starts_with(backend) && (name.size() == backend.size() || name[backend.size()] == ':');
}

// Whether --device auto may take a GPU.
bool may_take_gpu() {
  const discovery::Machine machine = discovery::read_machine();
  return !machine.cards.empty() && std::ranges::any_of(load_plugins(), [](const Plugin& plugin) {
    return plugin.backend != nullptr && plugin.name != "cpu" && plugin.backend->score >= 0;
  });
}

}  // namespace

WorkerModel::WorkerModel(const EngineSpec& spec, WorkerOptions options) : worker_(spec, std::move(options)) {
  const Checkpoint checkpoint = Checkpoint::open(spec.path);
  tokenizer_ = read_tokenizer_if_any(checkpoint, no_tokenizer_);
  templates_ = ModelTemplates(checkpoint, spec.options.chat_template);
  sampling_ = read_sampling_defaults(checkpoint);
  worker_.wait_until_loaded();
  checkpoint.require_unchanged();
}

const text::Tokenizer& WorkerModel::tokenizer() const {
  if (tokenizer_ == nullptr) throw bad_input("{}: {}", facts().name, no_tokenizer_);
  return *tokenizer_;
}

Ticket WorkerModel::add(GenerationRequest request, std::shared_ptr<Channel> channel) {
  check_request(request, facts(), tokenizer());
  return worker_.add(std::move(request), std::move(channel));
}

bool is_worker_wanted(const std::string& device) {
  const std::string wanted = environment("GABBRO_WORKER");
  if (wanted == "on") return true;
  if (wanted == "off") return false;
  if (!wanted.empty() && wanted != "auto") throw bad_input("GABBRO_WORKER is '{}', expected on, off or auto", wanted);
  std::string name = device.empty() ? "auto" : device;
  if (const std::string forced = environment("GABBRO_DEVICE"); name == "auto" && !forced.empty()) name = forced;
  if (name == "auto") return may_take_gpu();
  return !is_backend(name, "cpu") && !is_backend(name, "sim") && name != "null";
}

bool is_worker_wanted(const LoadOptions& options) {
  if (options.over_processes) return false;
  if (options.devices.empty()) return is_worker_wanted(options.device);
  return std::ranges::any_of(options.devices, [](const std::string& device) { return is_worker_wanted(device); });
}

}  // namespace gabbro::worker
