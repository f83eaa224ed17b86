#include "apps/cli/engine_loading.h"

#include <cstdlib>

#include "apps/cli/terminal.h"
#include "src/backend/missing_device.h"
#include "src/backend/registry.h"
#include "src/engine/random_model.h"
#include "src/formats/checkpoint.h"
#include "src/hub/model_cache.h"

namespace gabbro::cli {

namespace {

bool chosen_automatically(const std::string& device) {
  const char* forced = std::getenv("GABBRO_DEVICE");
  return (device.empty() || device == "auto") && (forced == nullptr || *forced == '\0' || forced == device);
}

// load(options) with a progress bar, and a note where a GPU was passed over.
template <class Load>
std::shared_ptr<Engine> load_visibly(const CommonOptions& common, LoadOptions options, const Load& load) {
  ProgressBar bar("loading", true);
  options.progress = [&](double share) { bar.show(share); };
  std::shared_ptr<Engine> engine = load(options);
  if (engine->facts().device_id == "cpu" && chosen_automatically(common.device)) {
    if (const auto gpu = describe_unused_gpu()) report("note", *gpu + "; running on the CPU");
  }
  const ModelFacts& facts = engine->facts();
  if (common.log_level != "error") {
    for (const std::string& warning : facts.warnings) report("warning", warning);
    if (facts.context > facts.context_trained) {
      report("warning",
             fmt::format("a context of {} tokens is more than the {} that the model was trained for: what it "
                         "writes beyond them may make no sense",
                         facts.context, facts.context_trained));
    }
  }
  if (!engine->facts().device_note.empty()) report("note", engine->facts().device_note);
  return engine;
}

}  // namespace

std::shared_ptr<Engine> load_engine(const std::string& model, const CommonOptions& common, int64_t context,
                                    const std::string& kv_type, const std::shared_ptr<Device>& device,
                                    int64_t sequences) {
  const std::string path = resolve_model(model);
  LoadOptions wanted = load_options(common, context, kv_type);
  wanted.sequences = sequences;
  return load_visibly(common, wanted, [&](const LoadOptions& options) {
    return Engine::load(Checkpoint::open(path), options, device);
  });
}

std::shared_ptr<Engine> load_random_engine(const llm::Blueprint& shape, const FileType& type,
                                           const CommonOptions& common, int64_t context,
                                           const std::shared_ptr<Device>& device, int64_t sequences) {
  LoadOptions wanted = load_options(common, context);
  wanted.sequences = sequences;
  return load_visibly(common, wanted,
                      [&](const LoadOptions& options) { return load_random_model(shape, type, options, device); });
}

std::string describe(const ModelFacts& facts) {
  uint64_t memory = 0;
  for (const abi::DeviceFacts& device : list_devices()) {
    if (device.id == facts.device_id) memory = device.memory_total;
  }
  const uint64_t cache = facts.kv_bytes_per_token * static_cast<uint64_t>(facts.context * facts.sequences) +
                         facts.state_bytes * static_cast<uint64_t>(facts.sequences);
  return fmt::format("{}  {}{}  {} weights + {} cache{}", facts.device_id, printable(facts.device_name),
                     facts.device_id == "cpu" ? fmt::format(" ({} threads)", facts.threads) : "",
                     human_bytes(facts.weight_bytes), human_bytes(cache),
                     memory > 0 ? " of " + human_bytes(memory) : "");
}

}  // namespace gabbro::cli
