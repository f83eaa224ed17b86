// `fit`: whether a model fits each device of this machine, how fast it will be there, and what would fit where it does
// not. The model may be a file, or a published shape that is not downloaded.
#include <nlohmann/json.hpp>

#include "apps/cli/commands.h"
#include "apps/cli/fit_devices.h"
#include "apps/cli/fit_pipeline.h"
#include "apps/cli/fit_stream.h"
#include "apps/cli/model_argument.h"
#include "apps/cli/options.h"
#include "apps/cli/picture_parts.h"
#include "apps/cli/read_bandwidth.h"
#include "apps/cli/split_options.h"
#include "apps/cli/terminal.h"
#include "src/backend/plugin.h"
#include "src/backend/registry.h"
#include "src/backend/survey.h"
#include "src/base/error.h"
#include "src/base/published_bandwidth.h"
#include "src/engine/forecast.h"
#include "src/engine/streaming/device_memory.h"
#include "src/engine/streaming/host_blocks.h"
#include "src/engine/streaming/link_probe.h"
#include "src/engine/streaming/pass_forecast.h"
#include "src/engine/streaming/placement.h"
#include "src/hub/model_cache.h"
#include "src/models/llm/registry.h"
#include "src/ops/kv_type.h"
#include "src/pictures/random_pipeline.h"
#include "src/pictures/single_file/single_file.h"

namespace gabbro::cli {
namespace {

using Json = nlohmann::ordered_json;

struct FitOptions {
  CommonOptions common;
  std::string model;
  std::string shape;
  std::string architecture;
  std::string parameters;
  std::string type = "q4_k_m";
  std::optional<std::string> kv_type;
  int64_t context = 0;
  PipelineFit pipeline;  // of pictures
};

// The workload on one device. Memory 0 and bandwidth 0: unknown.
struct Forecast {
  SurveyedDevice device;
  uint64_t memory_free = 0;
  bool fits = false;
  Remedies remedies;
  double bandwidth = 0;  // bytes per second
  double share = 0;
  std::string source;
};

constexpr const char* kFormula =
    "tokens/s = share x bandwidth / (bytes_per_token + tokens in cache x kv_bytes_per_token); "
    "layers with a window read the tokens in it";

llm::Blueprint blueprint_of(const FitOptions& o) {
  if (!o.shape.empty()) return llm::parse_blueprint(o.shape);
  if (o.architecture.empty())
    throw Error(ErrorCode::kBadInput, "MODEL is missing", "--arch llama --params 8B, or --shape, do without one");
  std::string family = o.architecture;
  for (char& c : family) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (llm::find_family(family) == nullptr) {
    throw Error(ErrorCode::kBadInput, fmt::format("--arch: '{}' is not a known family", o.architecture),
                "known: " + llm::known_architectures());
  }
  const auto parameters = llm::parse_parameter_count(o.parameters);
  if (!parameters) {
    throw Error(ErrorCode::kBadInput, fmt::format("--params: '{}' is not a number of parameters", o.parameters),
                "from 10M to 2T: 350M, 3.5B, 70B");
  }
  if (const llm::Blueprint* published = llm::published_of_size(family, *parameters)) return *published;
  llm::Blueprint blueprint = llm::blueprint_of_size(*parameters);
  blueprint.architecture = family;
  return blueprint;
}

Workload workload_of(const FitOptions& o) {
  Workload w{.kv_type = o.kv_type ? *parse_kv_type(*o.kv_type) : DType::f16};
  if (o.model.empty()) {
    w.plan = llm::plan_of(blueprint_of(o));
    w.needs = needs_of(w.plan, parse_type(o.type));
  } else {
    const Checkpoint checkpoint = Checkpoint::open(resolve_model(o.model));
    w.needs = needs_of(checkpoint);
    w.plan = llm::plan_of(checkpoint);
    checkpoint.require_unchanged();
  }
  w.context = context_of(w.needs.shape, o.context);
  nn::require_kv_type(w.kv_type, w.needs.cache);
  return w;
}

void find_bandwidth(Forecast& forecast, double measured) {
  const abi::DeviceFacts& facts = forecast.device.facts;
  const bool is_cpu = forecast.device.backend == "cpu";
  if (!is_cpu) {
    if (const auto published = published_bandwidth(facts.architecture, facts.name, facts.memory_total)) {
      forecast.bandwidth = published->bytes_per_second;
      forecast.source = published->source;
      forecast.share = kShareOfPublished;
      return;
    }
  }
  if ((!is_cpu && !facts.integrated) || measured <= 0) return;
  forecast.bandwidth = measured;
  forecast.source = is_cpu ? "measured" : "measured by the CPU, whose memory it shares";
  forecast.share = kShareOfMeasured;
}

std::vector<Forecast> forecasts(const Workload& w, int threads) {
  std::vector<Forecast> all;
  double measured = -1;  // not yet
  for (SurveyedDevice& device : survey_devices()) {
    if (device.for_tests) continue;
    Forecast forecast{.device = std::move(device)};
    const abi::DeviceFacts& facts = forecast.device.facts;
    const bool is_cpu = forecast.device.backend == "cpu";
    if (is_cpu || facts.integrated) {
      if (measured < 0) measured = measure_read_bandwidth(is_cpu && threads == 0 ? facts.compute_units : threads);
    }
    forecast.memory_free = plannable_memory(facts);
    Workload here = w;
    here.part = prefill_chunk(facts);
    forecast.fits = forecast.memory_free > 0 && here.total_bytes() <= forecast.memory_free;
    if (!forecast.fits && forecast.memory_free > 0) forecast.remedies = remedies(here, forecast.memory_free);
    find_bandwidth(forecast, std::max(0.0, measured));
    all.push_back(std::move(forecast));
  }
  return all;
}

// The first usable device that holds it, in the order of `auto`.
const Forecast* placement(const std::vector<Forecast>& all) {
  const auto found = std::ranges::find_if(all, [](const Forecast& f) { return f.device.facts.usable && f.fits; });
  return found != all.end() ? &*found : nullptr;
}

// The devices of --devices, also those that are for tests.
SplitsForecast forecast_devices(const Workload& w, const FitOptions& o, const std::vector<Forecast>& all) {
  const LoadOptions wanted = load_options(o.common);
  std::vector<FitDevice> devices;
  std::vector<abi::DeviceFacts> known = list_devices();
  for (const std::string& name : wanted.devices) {
    const auto found = std::ranges::find_if(known, [&](const abi::DeviceFacts& facts) { return name == facts.id; });
    if (found == known.end()) throw Error(ErrorCode::kNoDevice, fmt::format("there is no device '{}'", name));
    FitDevice device{.facts = *found, .memory_free = plannable_memory(*found)};
    for (const Forecast& forecast : all) {
      if (name != forecast.device.facts.id) continue;
      device.memory_free = forecast.memory_free;
      device.bandwidth = forecast.bandwidth;
      device.share = forecast.share;
    }
    devices.push_back(std::move(device));
  }
  const Checkpoint checkpoint = o.model.empty() ? llm::random_checkpoint(blueprint_of(o), parse_type(o.type), 0)
                                                : Checkpoint::open(resolve_model(o.model));
  return forecast_splits(w, checkpoint, std::move(devices), wanted);
}

StreamForecast forecast_stream(const Workload& w, const FitOptions& o) {
  const auto device = open_device(o.common.device, {.threads = o.common.threads});
  std::optional<Checkpoint> checkpoint;
  if (!o.model.empty()) checkpoint = Checkpoint::open(resolve_model(o.model));
  const auto matrices = checkpoint ? streaming::matrices_of(*checkpoint, *device)
                                   : streaming::matrices_of(w.plan, parse_type(o.type), *device);
  const CacheSize size = {.context = w.context, .chunk = streaming::kStreamedChunk};
  const uint64_t cache = streaming::cache_bytes(w.needs, w.kv_type, size, *device);
  const auto fixed = streaming::fixed_memory(w.needs, matrices, *device, cache, w.context);
  const LoadOptions limits = load_options(o.common);
  const uint64_t host = device->host_accessible() ? 0 : limits.host_memory;
  StreamForecast f{.device = device->facts().id, .least = streaming::smallest_budget(matrices, fixed)};
  f.placement = streaming::place(matrices, fixed, {.device = limits.memory, .host = host}, f.device);
  if (!checkpoint || !f.placement.streams()) return f;
  const std::string path = streaming::largest_file(*checkpoint);
  f.speeds = streaming::probe_links(path, *device, std::nullopt);
  std::shared_ptr<Device> cpu;
  f.host = streaming::measured_host_plan(f.placement, path, *device, host, o.common.threads, cpu);
  f.pass = streaming::forecast_pass(f.placement, f.host, path, device, cpu, o.common.threads,
                                    streaming::head_bytes(f.placement, w.needs));
  return f;
}

double rate(const Workload& w, const Forecast& f, int64_t tokens) {
  return tokens_per_second(w, f.bandwidth, f.share, tokens);
}

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json device_document(const Workload& w, const Forecast& f) {
  const abi::DeviceFacts& facts = f.device.facts;
  const bool predicted = f.bandwidth > 0;
  Json out = {{"id", facts.id},
              {"name", facts.name},
              {"backend", f.device.backend},
              {"architecture", facts.architecture},
              {"usable", facts.usable},
              {"reason", f.device.reason},
              {"memory_total", facts.memory_total},
              {"memory_free", f.memory_free},
              {"fits", f.memory_free > 0 ? Json(f.fits) : Json(nullptr)},
              {"bandwidth", predicted ? Json(f.bandwidth) : Json(nullptr)},
              {"bandwidth_source", predicted ? Json(f.source) : Json(nullptr)},
              {"share", predicted ? Json(f.share) : Json(nullptr)},
              {"tokens_per_second", nullptr},
              {"would_fit", nullptr}};
  if (predicted) out["tokens_per_second"] = {{"empty_cache", rate(w, f, 0)}, {"full_cache", rate(w, f, w.context)}};
  if (f.memory_free > 0 && !f.fits) {
    const auto kv_type = f.remedies.kv_type;
    out["would_fit"] = {{"context", or_null(f.remedies.context)},
                        {"kv_type", kv_type ? Json(dtype_name(*kv_type)) : Json(nullptr)},
                        {"type", or_null(f.remedies.type)}};
  }
  return out;
}

Json document(const Workload& w, const std::vector<Forecast>& all) {
  Json out = {{"model", w.needs.name},
              {"type", w.needs.quantization},
              {"parameters", w.needs.parameters},
              {"context", w.context},
              {"kv_type", dtype_name(w.kv_type)},
              {"weight_bytes", w.needs.weight_bytes},
              {"kv_bytes", w.kv_bytes()},
              {"scratch_bytes", w.scratch_bytes()},
              {"total_bytes", w.total_bytes()},
              {"bytes_per_token", w.needs.bytes_per_token},
              {"kv_bytes_per_token", kv_bytes_per_token(w.needs, w.kv_type)},
              {"state_bytes", state_bytes(w.needs)},
              {"formula", kFormula},
              {"placement", nullptr},
              {"devices", Json::array()}};
  if (const Forecast* chosen = placement(all)) out["placement"] = chosen->device.facts.id;
  for (const Forecast& forecast : all) out["devices"].push_back(device_document(w, forecast));
  return out;
}

std::string remedy_text(const Remedies& r) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", or ") + part; };
  if (r.context) add(fmt::format("--ctx {}", *r.context));
  if (r.kv_type) add(fmt::format("--kv-type {}", dtype_name(*r.kv_type)));
  if (r.type) add(fmt::format("{} weights", *r.type));
  return text.empty() ? "no type of weights and no context would fit" : "would fit: " + text;
}

std::string device_lines(const Workload& w, const Forecast& f) {
  const abi::DeviceFacts& facts = f.device.facts;
  const bool known = f.memory_free > 0;
  std::string out = fmt::format("{:<17} {:>10} {:>5} {:>10} ", facts.id, known ? human_bytes(f.memory_free) : "unknown",
                                known ? (f.fits ? "yes" : "no") : "?",
                                f.bandwidth > 0 ? fmt::format("{:.0f} GB/s", f.bandwidth / 1e9) : "unknown");
  if (f.bandwidth > 0) out += fmt::format("{:>8.1f} {:>8.1f}", rate(w, f, 0), rate(w, f, w.context));
  out += fmt::format("  {}\n", printable(facts.name));
  if (!f.device.reason.empty()) out += fmt::format("{:<17} not usable: {}\n", "", printable(f.device.reason));
  if (known && !f.fits) out += fmt::format("{:<17} {}\n", "", remedy_text(f.remedies));
  return out;
}

std::string verdict(const Workload& w, const std::vector<Forecast>& all) {
  if (const Forecast* chosen = placement(all)) {
    return fmt::format("It fits {}: weights, cache and scratch are all there ({} of {} free).\n",
                       chosen->device.facts.id, human_bytes(w.total_bytes()), human_bytes(chosen->memory_free));
  }
  const auto idle = std::ranges::find_if(all, &Forecast::fits);
  if (idle != all.end()) {
    return fmt::format("It would fit {}, which cannot be used yet: gabbro doctor says why.\n", idle->device.facts.id);
  }
  return fmt::format("It fits no device of this machine: {} are needed on one.\n", human_bytes(w.total_bytes()));
}

std::string table(const Workload& w, const std::vector<Forecast>& all) {
  std::string out =
      fmt::format("{} {}, {:.2f} B parameters: {} weights + {} cache ({} tokens, {}) + {} scratch = {}\n\n",
                  printable(w.needs.name), w.needs.quantization, static_cast<double>(w.needs.parameters) / 1e9,
                  human_bytes(w.needs.weight_bytes), human_bytes(w.kv_bytes()), w.context, dtype_name(w.kv_type),
                  human_bytes(w.scratch_bytes()), human_bytes(w.total_bytes()));
  out += fmt::format("{:<17} {:>10} {:>5} {:>10} {:>8} {:>8}\n", "device", "free", "fits", "memory", "tokens/s",
                     "at full");
  for (const Forecast& forecast : all) out += device_lines(w, forecast);
  out += "\n" + verdict(w, all);
  out +=
      fmt::format("\n{}\nThe share is {} of a bandwidth that was measured, and {} of one that the maker publishes.\n",
                  kFormula, kShareOfMeasured, kShareOfPublished);
  return out;
}

// Whether a pipeline of pictures is meant, or a shape of one.
bool is_of_pictures(FitOptions& o) {
  const std::vector<std::string> shapes = pictures::random_pipeline_shapes();
  if (std::ranges::find(shapes, o.shape) != shapes.end()) o.pipeline.shape = o.shape;
  return !o.pipeline.shape.empty() || (!o.model.empty() && pictures::is_picture_model(o.model));
}

int run(FitOptions& o) {
  if (const std::string problem = plugin_path_problem(); !problem.empty()) report("warning", problem);
  if (is_of_pictures(o)) {
    refuse_for_pictures({{o.context > 0, "--ctx"},
                         {o.type != FitOptions().type, "--type"},
                         {o.kv_type.has_value(), "--kv-type"},
                         {!o.common.host_memory.empty(), "--host-memory"},
                         {!o.common.several.devices.empty(), "--devices"}});
    return fit_pipeline(o.model, o.common, o.pipeline);
  }
  refuse_pipeline_options(o.pipeline);
  const Workload workload = workload_of(o);
  const std::vector<Forecast> all = forecasts(workload, o.common.threads);
  std::optional<StreamForecast> stream;
  if (!o.common.memory.empty()) stream = forecast_stream(workload, o);
  std::optional<SplitsForecast> several;
  if (!o.common.several.devices.empty()) several = forecast_devices(workload, o, all);
  Json out = document(workload, all);
  if (stream) out["streaming"] = stream_document(*stream);
  if (several) out["split"] = splits_document(*several);
  o.common.json ? print_json(out)
                : print(table(workload, all) + (several ? splits_table(*several) : "") +
                        (stream ? stream_line(*stream, o.common.memory) : ""));
  return 0;
}

}  // namespace

void add_fit(Command root) {
  Command command =
      root.subcommand("fit", "Forecast where a model fits, what memory it takes, and how fast it will be");
  const auto o = std::make_shared<FitOptions>();
  Option model = add_model(command, o->model).optional();
  Option shape = add_shape(command, o->shape).excludes(model);
  Option architecture =
      command.option("--arch", o->architecture, "Family of a model that is not downloaded: llama, granite")
          .placeholder("NAME")
          .excludes(model)
          .excludes(shape);
  Option parameters =
      command.option("--params", o->parameters, "Its number of parameters, of any size: 350M, 3.5B, 8B, 70B")
          .placeholder("N")
          .needs(architecture);
  architecture.needs(parameters);
  add_type(command, o->type).excludes(model);
  add_context(command, o->context);
  add_kv_type(command, o->kv_type);
  add_pipeline_options(command, o->pipeline);
  add_device_options(command, o->common);
  add_memory_options(command, o->common);
  add_split_options(command, o->common.several);
  add_output_options(command, o->common);
  command.footer(
      "--params takes any size of the family. Sizes that a family was published in, within 5 %, have that shape; "
      "others are interpolated between Llama's and have that number of parameters within 2 %.");
  command.example("gabbro fit MODEL --ctx 8192");
  command.example("gabbro fit MODEL --memory 4GiB");
  command.example("gabbro fit MODEL --devices 0,1");
  command.example("gabbro fit sdxl.safetensors -W 1024 -H 1024");
  command.example("gabbro fit --arch llama --params 13B --type q4_k_m");
  command.example("gabbro fit --shape qwen3-30b-a3b");
  command.example("gabbro fit --shape sdxl --device cuda --memory 8GB");
  command.runs([o] { return run(*o); });
}

}  // namespace gabbro::cli
