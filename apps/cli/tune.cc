// `tune`: measures, for each shape that a model's prompts multiply, which of the device's candidates is the fastest:
// our kernels, or a vendor's library. Every later command on this device uses that one.
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "apps/cli/commands.h"
#include "apps/cli/engine_loading.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/model_argument.h"
#include "apps/cli/terminal.h"
#include "src/backend/registry.h"
#include "src/base/error.h"
#include "src/engine/model_needs.h"

namespace gabbro::cli {
namespace {

using Json = nlohmann::ordered_json;

struct TuneOptions {
  CommonOptions common;
  std::string model;
  std::string shape;
  std::string type = "q4_k_m";
  std::vector<int> tokens;  // empty: powers of two from 4 up to the parts in which the device takes prompts
  std::string file;
  int repeat = 1;
};

std::shared_ptr<Device> open_for_tuning(const TuneOptions& o) {
  const abi::DeviceOptions options = {
      .threads = o.common.threads,
      .tuning = {.mode = abi::Tuning::kMeasureAll, .file = o.file.empty() ? nullptr : o.file.c_str()}};
  auto device = open_device(o.common.device, options);
  if (!device->tuning()) {
    throw Error(
        ErrorCode::kBadInput,
        fmt::format("device {} has one way to compute each shape: there is nothing to tune", device->facts().id),
        "--device names a GPU; gabbro devices lists them");
  }
  return device;
}

// One measurement stands for the lengths from half of it up; one and two tokens are measured where they are asked for.
std::vector<int> default_tokens(const Device& device) {
  std::vector<int> tokens;
  for (int count = 4; count <= prefill_chunk(device.facts()); count *= 2) tokens.push_back(count);
  return tokens;
}

std::shared_ptr<Engine> load(const TuneOptions& o, int context, const std::shared_ptr<Device>& device) {
  if (o.shape.empty()) return load_engine(o.model, o.common, {.context = context, .device = device});
  return load_random_engine(llm::parse_blueprint(o.shape), parse_type(o.type), o.common,
                            {.context = context, .device = device});
}

// Prompts of each length; the device measures a shape when it is first launched.
void run_prompts(const std::shared_ptr<Engine>& engine, const std::vector<int>& lengths) {
  const Cancelable cancelable;
  ProgressBar bar("measuring", true);
  Session session(engine);
  for (size_t i = 0; i < lengths.size(); ++i) {
    bar.show(static_cast<double>(i) / static_cast<double>(lengths.size()));
    std::vector<int32_t> tokens(static_cast<size_t>(lengths[i]));
    for (size_t t = 0; t < tokens.size(); ++t)
      tokens[t] = static_cast<int32_t>(t * 7919 % static_cast<size_t>(engine->facts().vocabulary));
    session.truncate(0);
    session.append(tokens, cancelable.flag());
  }
}

Json document(const ModelFacts& facts, const abi::TuningFacts& tuning,
              const std::vector<abi::MeasuredShape>& measured) {
  Json out = {{"model", facts.name},
              {"quantisation", facts.quantization},
              {"device", facts.device_id},
              {"device_name", facts.device_name},
              {"file", tuning.file[0] == '\0' ? Json(nullptr) : Json(tuning.file)},
              {"known", tuning.known},
              {"shapes", Json::array()}};
  for (const abi::MeasuredShape& shape : measured) {
    Json candidates = Json::array();
    for (const abi::MeasuredCandidate& candidate :
         std::span(shape.candidates, static_cast<size_t>(shape.candidate_count))) {
      candidates.push_back({{"name", candidate.name},
                            {"seconds", candidate.seconds > 0 ? Json(candidate.seconds) : Json(nullptr)},
                            {"fit", candidate.fit}});
    }
    out["shapes"].push_back(
        {{"shape", shape.shape}, {"chosen", shape.candidates[shape.chosen].name}, {"candidates", candidates}});
  }
  return out;
}

std::string outcome(const abi::MeasuredCandidate& candidate) {
  if (candidate.fit) return fmt::format("{:>12.1f} us", candidate.seconds * 1e6);
  return candidate.seconds > 0 ? "  wrong result" : "        failed";
}

std::string table(const ModelFacts& facts, const abi::TuningFacts& tuning,
                  const std::vector<abi::MeasuredShape>& measured) {
  std::string out = fmt::format("{} {} on {} ({}): {} shapes measured\n", printable(facts.name), facts.quantization,
                                facts.device_id, printable(facts.device_name), measured.size());
  for (const abi::MeasuredShape& shape : measured) {
    out += fmt::format("\n{}\n", printable(shape.shape));
    for (int32_t i = 0; i < shape.candidate_count; ++i) {
      const abi::MeasuredCandidate& candidate = shape.candidates[i];
      out +=
          fmt::format("  {} {:<24} {}\n", i == shape.chosen ? '*' : ' ', printable(candidate.name), outcome(candidate));
    }
  }
  if (tuning.problem[0] != '\0') return out;
  return out + (tuning.file[0] == '\0' ? "\nnothing is kept: GABBRO_TUNING_FILE is empty\n"
                                       : fmt::format("\n{} shapes of this device are known in {}\n", tuning.known,
                                                     printable(tuning.file)));
}

// The candidates chosen for each shape, one for each repetition.
using Choices = std::map<std::string, std::vector<std::string>>;

void add_choices(const std::vector<abi::MeasuredShape>& measured, Choices& choices) {
  for (const abi::MeasuredShape& shape : measured)
    choices[shape.shape].emplace_back(shape.candidates[shape.chosen].name);
}

// Without the shapes for which all repetitions chose alike.
Choices unsteady(Choices choices) {
  std::erase_if(choices, [](const auto& own) {
    return std::ranges::count(own.second, own.second.front()) == std::ssize(own.second);
  });
  return choices;
}

std::string text_of(const Choices& unsteady, int repetitions) {
  std::string out = fmt::format("\n{} shapes were not chosen alike in {} repetitions\n", unsteady.size(), repetitions);
  for (const auto& [shape, chosen] : unsteady)
    out += fmt::format("  {}: {}\n", printable(shape), fmt::join(chosen, ", "));
  return out;
}

struct Repetition {
  ModelFacts model;
  std::vector<abi::MeasuredShape> measured;
  abi::TuningFacts tuning;
};

// On a device that is opened for it: one measures a shape once.
Repetition measure(const TuneOptions& o) {
  const auto device = open_for_tuning(o);
  const std::vector<int> tokens = o.tokens.empty() ? default_tokens(*device) : o.tokens;
  const auto engine = load(o, std::ranges::max(tokens), device);
  run_prompts(engine, tokens);
  return {.model = engine->facts(), .measured = device->measured_shapes(), .tuning = *device->tuning()};
}

int run(const TuneOptions& o) {
  if (o.shape.empty() && o.model.empty())
    throw Error(ErrorCode::kBadInput, "MODEL is missing", "--shape llama-8b does without one");
  Choices choices;
  Repetition last;
  for (int i = 0; i < o.repeat; ++i) {
    last = measure(o);
    add_choices(last.measured, choices);
  }
  const Choices differing = unsteady(std::move(choices));
  if (o.common.json) {
    Json out = document(last.model, last.tuning, last.measured);
    if (o.repeat > 1) out["unsteady"] = Json(differing);
    print_json(out);
  } else {
    print(table(last.model, last.tuning, last.measured) + (o.repeat > 1 ? text_of(differing, o.repeat) : ""));
  }
  if (last.tuning.problem[0] != '\0') throw failed("{}", last.tuning.problem);
  return 0;
}

}  // namespace

void add_tune(Command root) {
  Command command = root.subcommand("tune", "Measure which kernels and libraries are the fastest on this device");
  const auto o = std::make_shared<TuneOptions>();
  Option model = add_model(command, o->model).optional();
  Option shape = add_shape(command, o->shape).excludes(model);
  add_type(command, o->type).needs(shape);
  command
      .numbers("--tokens", o->tokens,
               "Lengths of prompts to measure, 16,512 (default: powers of two from 4 to what the device takes at once)")
      .placeholder("N,N")
      .range(1, 1 << 16);
  command.option("--tuning-file", o->file, "Where to keep the results, in place of $GABBRO_HOME/tuning.txt")
      .placeholder("FILE")
      .file(FileUse::kOutput);
  command.number("--repeat", o->repeat, "Measure N times, and say which shapes were not chosen alike")
      .placeholder("N")
      .range(1, 100);
  add_device_options(command, o->common);
  add_output_options(command, o->common);
  command.example("gabbro tune MODEL --device rocm:0");
  command.runs([o] { return run(*o); });
}

}  // namespace gabbro::cli
