#include "apps/cli/engine_loading.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "apps/cli/commands.h"
#include "apps/cli/source_layers.h"
#include "apps/cli/terminal.h"
#include "src/backend/missing_device.h"
#include "src/backend/registry.h"
#include "src/engine/random_model.h"
#include "src/engine/worker/worker_model.h"
#include "src/formats/checkpoint.h"

namespace gabbro::cli {

namespace {

bool chosen_automatically(const std::string& device) {
  const char* forced = std::getenv("GABBRO_DEVICE");
  return (device.empty() || device == "auto") && (forced == nullptr || *forced == '\0' || forced == device);
}

// load(options), of an Engine or a ModelService, with a progress bar, and a note where a GPU was passed over.
template <class Load>
auto load_visibly(const CommonOptions& common, LoadOptions options, const Load& load) {
  ProgressBar bar("loading", true);
  options.progress = [&](double share) { bar.show(share); };
  auto engine = load(options);
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
  if (const std::string line = describe_streaming(facts); !line.empty() && common.log_level != "error") say(line);
  if (!engine->facts().device_note.empty()) report("note", engine->facts().device_note);
  return engine;
}

// Whether all matrices are f32, or f64, which becomes f32.
bool has_f32_weights(const Checkpoint& checkpoint) {
  return std::ranges::all_of(checkpoint.tensors(), [](const CheckpointTensor& tensor) {
    return tensor.shape.size() < 2 || tensor.format == "F32" || tensor.format == "F64";
  });
}

LoadOptions options_of(const CommonOptions& common, const EngineNeeds& needs) {
  LoadOptions options = load_options(common, needs.context, needs.kv_type);
  options.sequences = needs.sequences;
  options.observer = needs.observer;
  return options;
}

// With the layers of the model's source; notes name those that are not followed.
LoadOptions options_of(const ResolvedModel& model, const CommonOptions& common, const EngineNeeds& needs) {
  LoadOptions wanted = options_of(common, needs);
  if (model.layers == nullptr) return wanted;
  for (const std::string& path : model.layers->adapters) wanted.adapters.push_back({.path = path});
  wanted.chat_template = template_of(model.layers);
  report_layers(model.layers);
  return wanted;
}

}  // namespace

std::shared_ptr<ModelService> load_service(const ResolvedModel& model, const CommonOptions& common,
                                           const ServiceNeeds& needs) {
  EngineSpec spec{.path = model.path, .deterministic = needs.deterministic};
  if (!needs.draft.empty()) {
    CommonOptions resident = common;
    resident.memory.clear();
    resident.host_memory.clear();
    resident.several = {};
    const ResolvedModel draft = resolve_with_layers(needs.draft);
    EngineNeeds draft_needs = needs.engine;
    spec.draft.path = draft.path;
    spec.draft.options = options_of(draft, resident, draft_needs);
  }
  spec.draft.tokens = needs.draft_tokens;
  spec.draft.lookup = needs.lookup;
  spec.draft.no_lookup = needs.no_lookup;
  const LoadOptions wanted = load_options(common);
  if (!wanted.devices.empty() && !needs.draft.empty()) spec.draft.options.device = wanted.devices.back();
  const bool in_worker = worker::is_worker_wanted(wanted);
  const bool is_quiet = common.log_level == "error";
  return load_visibly(common, options_of(model, common, needs.engine),
                      [&](LoadOptions options) -> std::shared_ptr<ModelService> {
                        spec.options = std::move(options);
                        if (!in_worker) return LocalModel::load(spec);
                        return std::make_shared<worker::WorkerModel>(
                            spec, worker::WorkerOptions{.command = {"/proc/self/exe", kWorkerCommand},
                                                        .most_restarts = needs.restarts ? worker::kMostRestarts : 0,
                                                        .on_progress = spec.options.progress,
                                                        .on_notice = [is_quiet](const std::string& line) {
                                                          if (!is_quiet) report("note", line);
                                                        }});
                      });
}

std::shared_ptr<Engine> load_engine(const std::string& model, const CommonOptions& common, const EngineNeeds& needs) {
  return load_engine(resolve_with_layers(model), common, needs);
}

std::shared_ptr<Engine> load_engine(const ResolvedModel& model, const CommonOptions& common, const EngineNeeds& needs) {
  return load_visibly(common, options_of(model, common, needs), [&](LoadOptions options) {
    const Checkpoint checkpoint = Checkpoint::open(model.path);
    if (needs.exact && !options.kv_type && options.quantize.empty() && has_f32_weights(checkpoint))
      options.kv_type = DType::f32;
    return Engine::load(checkpoint, options, needs.device);
  });
}

std::shared_ptr<Engine> load_random_engine(const llm::Blueprint& shape, const FileType& type,
                                           const CommonOptions& common, const EngineNeeds& needs) {
  return load_visibly(common, options_of(common, needs), [&](const LoadOptions& options) {
    return load_random_model(shape, type, options, needs.device);
  });
}

std::string describe(const ModelService& model) {
  const ModelFacts& facts = model.facts();
  const uint64_t memory = model.device_memory();
  return fmt::format("{}  {}{}  {} weights + {} cache{}", facts.device_id, printable(facts.device_name),
                     facts.device_id == "cpu" ? fmt::format(" ({} threads)", facts.threads) : "",
                     human_bytes(facts.weight_bytes), human_bytes(facts.cache_bytes),
                     memory > 0 ? " of " + human_bytes(memory) : "");
}

std::string describe_streaming(const ModelFacts& facts) {
  const StreamingFacts& s = facts.streaming;
  if (s.bytes_per_pass == 0) return "";
  std::string host = s.host_bytes > 0 ? fmt::format(", {} in host memory", human_bytes(s.host_bytes)) : "";
  if (s.cpu_layers > 0) {
    host += fmt::format("; the CPU computes {} of them in {} layers for up to {} tokens", human_bytes(s.cpu_bytes),
                        s.cpu_layers, s.cpu_tokens);
  }
  return fmt::format(
      "streaming: {} of {} weights a pass, from {} at {:.2f} GB/s: {:.3g} s per token; {} resident{}, at most {} of "
      "{}\n",
      human_bytes(s.bytes_per_pass - s.cpu_bytes), human_bytes(facts.weight_bytes), s.link, s.bandwidth / 1e9,
      s.seconds_per_pass, human_bytes(s.resident_bytes), host, human_bytes(s.planned_bytes), human_bytes(s.memory));
}

double streamed_share(const ModelFacts& facts, const StreamingWork& work) {
  if (work.seconds <= 0 || facts.streaming.bytes_per_pass == 0) return 0;
  // Passes of a mixture move other bytes than one token without a cache.
  const double passes =
      static_cast<double>(work.bytes) / static_cast<double>(facts.streaming.bytes_per_pass - facts.streaming.cpu_bytes);
  const StreamingFacts& s = facts.streaming;
  const uint64_t bytes = s.link.starts_with("file") ? s.file_bytes_per_pass : s.bytes_per_pass - s.cpu_bytes;
  const double link = s.bandwidth > 0 ? static_cast<double>(bytes) / s.bandwidth : 0;
  return std::max(link, s.cpu_seconds) * passes / work.seconds;
}

nlohmann::ordered_json streaming_document(const ModelFacts& facts, const StreamingWork& work) {
  const StreamingFacts& s = facts.streaming;
  return {{"memory", s.memory},
          {"planned_bytes", s.planned_bytes},
          {"resident_bytes", s.resident_bytes},
          {"host_bytes", s.host_bytes},
          {"cpu_layers", s.cpu_layers},
          {"cpu_tokens", s.cpu_tokens},
          {"cpu_bytes", s.cpu_bytes},
          {"expert_cache_bytes", s.expert_bytes},
          {"expert_hits", work.expert_hits},
          {"expert_misses", work.expert_misses},
          {"experts_early", work.experts_early},
          {"experts_foreseen", work.experts_foreseen},
          {"expert_bytes_read", work.expert_bytes},
          {"bytes_read", work.bytes},
          {"bytes_per_pass", s.bytes_per_pass},
          {"file_bytes_per_pass", s.file_bytes_per_pass},
          {"link", s.link},
          {"link_bandwidth", s.bandwidth},
          {"predicted_seconds_per_token", s.seconds_per_pass},
          {"passes", work.passes},
          {"bandwidth", work.seconds > 0 ? static_cast<double>(work.bytes) / work.seconds : 0},
          {"share_of_limit", streamed_share(facts, work)},
          {"waited_seconds", work.waited}};
}

std::string describe_streaming(const ModelFacts& facts, const StreamingWork& work) {
  if (facts.streaming.bytes_per_pass == 0 || work.seconds <= 0) return "";
  const auto needed = static_cast<double>(work.expert_hits + work.experts_foreseen + work.expert_misses);
  const std::string experts = needed > 0 ? fmt::format("; {:.0f} % of experts were on the device, {:.0f} % read early",
                                                       100 * static_cast<double>(work.expert_hits) / needed,
                                                       100 * static_cast<double>(work.experts_foreseen) / needed)
                                         : "";
  return fmt::format(
      "streamed {} in {} passes: {:.2f} GB/s, {:.0f} % of the link; {:.0f} % of the time waiting for it{}\n",
      human_bytes(work.bytes), work.passes, static_cast<double>(work.bytes) / work.seconds / 1e9,
      100 * streamed_share(facts, work), 100 * work.waited / work.seconds, experts);
}

}  // namespace gabbro::cli
