#include "apps/cli/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>

#include "apps/cli/command_spec.h"
#include "apps/cli/split_options.h"
#include "src/base/error.h"
#include "src/engine/sampling_defaults.h"
#include "src/models/weights/adapter.h"
#include "src/ops/kv_type.h"

namespace gabbro::cli {
namespace {

constexpr int kMostThreads = 1024;
constexpr int64_t kLongestContext = int64_t{1} << 30;

// TOKEN=BIAS, or as llama.cpp writes it TOKEN+BIAS and TOKEN-BIAS.
std::pair<int32_t, float> parse_bias(const std::string& text) {
  int32_t token = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, token);
  if (error != std::errc() || stop == end || std::string_view("=+-").find(*stop) == std::string_view::npos)
    throw bad_input("--logit-bias: '{}' is not of the form TOKEN=BIAS", text);
  const char* const value = *stop == '-' ? stop : stop + 1;
  float bias = 0;
  const auto [bias_stop, bias_error] = std::from_chars(value, end, bias);
  if (bias_stop != end || bias_error != std::errc() || std::isnan(bias))
    throw bad_input("--logit-bias: '{}' is not a number", std::string_view(value, end));
  return {token, bias};
}

}  // namespace

void add_output_options(Command command, CommonOptions& options) {
  command.flag("--json", options.json, "Write one JSON document to standard output, and nothing else");
  command.option("--log-level", options.log_level, "How much to say on standard error")
      .one_of({"error", "warning", "info", "debug"})
      .placeholder("error|warning|info|debug");
}

void add_device_options(Command command, CommonOptions& options) {
  command
      .option("--device", options.device,
              "Device to run on: auto, cpu, gpu, rocm, cuda:0, pci:0000:03:00.0, gfx1100, ...")
      .placeholder("NAME")
      .alias("-dev");
  add_threads(command, options);
}

void add_memory_options(Command command, CommonOptions& options) {
  command
      .option("--memory", options.memory,
              "Memory that the model may take on the device, such as 4GiB: weights that do not fit are streamed from "
              "the file, layer by layer")
      .placeholder("SIZE");
  command
      .option("--host-memory", options.host_memory,
              "With --memory on a GPU: host memory for weights that are streamed, so that fewer are read from the file")
      .placeholder("SIZE");
}

uint64_t parse_size(const std::string& text, const char* option) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  std::string unit(stop, end);
  for (char& c : unit) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const bool decimal = unit.size() == 2 && unit[1] == 'B';
  const size_t power = unit.empty() || unit == "B" ? 0 : std::string_view("KMGT").find(unit[0]) + 1;
  const bool known = unit.size() <= 1 || decimal || (unit.size() == 3 && unit.ends_with("IB"));
  const double bytes = number * std::pow(decimal ? 1000.0 : 1024.0, static_cast<double>(power));
  constexpr double kMost = 1e15;
  if (error != std::errc() || !known || (power == 0 && unit.size() > 1) || !(bytes >= 1 && bytes <= kMost))
    throw bad_input("{}: '{}' is not a size such as 4GiB, 512M or 2.5GB", option, text);
  return static_cast<uint64_t>(bytes);
}

void add_check_weights(Command command, CommonOptions& options) {
  command.flag("--check-weights,!--no-check-weights", options.check_weights,
               "Refuse damaged weights while they are loaded (the default)");
}

void add_threads(Command command, CommonOptions& options) {
  command.number("-t,--threads", options.threads, "Threads of a CPU device; 0: one per physical core")
      .alias("--num-thread")
      .range(0, kMostThreads);
}

void add_quantize(Command command, CommonOptions& options) {
  command.option("--quantize", options.quantize, "Quantize f32, f16 and bf16 weights while loading: q8_0, q4_k_m, ...")
      .placeholder("TYPE");
}

void add_lora(Command command, std::vector<std::string>& lora, const char* description) {
  command.option("--lora", lora, description).placeholder("FILE[:SCALE]").file(FileUse::kAdapter);
}

Option add_context(Command command, int64_t& context) {
  return command.number("-c,--ctx", context, "Context in tokens; 0: what the model was trained for, 4096 at most")
      .alias("--ctx-size,--num-ctx,--context-size,--context-length")
      .range(0, kLongestContext);
}

Option add_kv_type(Command command, std::optional<std::string>& kv_type) {
  std::vector<std::string> names;
  for (const DType type : kKvTypes) names.emplace_back(dtype_name(type));
  return command.option("--kv-type", kv_type, "Format of the key-value cache")
      .one_of(names)
      .alias("-ctk,--cache-type-k,-ctv,--cache-type-v")
      .placeholder(fmt::format("{}", fmt::join(names, "|")))
      .default_text("f16");
}

void add_sampling_options(Command command, GenerationOptions& options) {
  SamplerOptions& sampler = options.generate.sampler;
  const auto declared = [&](const std::string& name, const Option& option) {
    options.declared.emplace_back(name, option);
  };
  declared("--max-tokens", command
                               .number("-n,--max-tokens", options.generate.max_tokens,
                                       "Most tokens to generate; -1: until the model stops or the context is full")
                               .alias("--n-predict,--predict,--num-predict")
                               .range(-1, std::numeric_limits<int>::max()));
  for (const SamplingOption& option : kSamplingOptions) {
    const std::string name = "--" + with_dashes(option.name);
    Option added = option.is_integer() ? command.number(name, sampler.*option.integer, option.help)
                                       : command.number(name, sampler.*option.number, option.help);
    added.placeholder(option.placeholder);
    if (option.alias != nullptr) added.alias("--" + with_dashes(option.alias));
    if (option.number == &SamplerOptions::temperature) added.default_text("the model's own, else 0, in a chat 0.8");
    declared(name, added);
  }
  command
      .option(
          "--dry-sequence-breaker", sampler.dry_sequence_breakers,
          "A text that no repetition of DRY crosses, instead of line breaks and : \" *; may be repeated; none: none")
      .placeholder("TEXT");
  command.option("--logit-bias", options.logit_bias, "Add BIAS to a token's logit; may be repeated")
      .placeholder("TOKEN=BIAS");
  declared("--seed", command.number("-s,--seed", sampler.seed, "Seed of the random numbers; 0: a random one"));
  declared("--stop",
           command.option("--stop", options.generate.stop, "Stop before this text or control token; may be repeated")
               .placeholder("TEXT")
               .alias("-r,--reverse-prompt"));
}

void add_generation_options(Command command, GenerationOptions& options) {
  add_sampling_options(command, options);
  options.declared.emplace_back("--ctx", add_context(command, options.context));
  options.declared.emplace_back("--system", command.option("--system", options.system, "System message of the chat")
                                                .placeholder("TEXT")
                                                .alias("-sys,--system-prompt"));
  command.flag("--raw", options.raw, "Give the prompt to the model unchanged, without a chat template")
      .alias("-no-cnv,--no-conversation");
  command.flag("--parse-special", options.parse_special,
               "With --raw: control tokens that the prompt spells out are those tokens, not plain text");
  command
      .option("--chat-template", options.chat_template,
              "A Jinja file, or a name such as chatml or llama3, instead of the model's own template")
      .placeholder("FILE|NAME")
      .file(FileUse::kInput);
  command
      .option("--template-var", options.template_variables,
              "Set a variable of the chat template, such as enable_thinking=false; may be repeated")
      .placeholder("NAME=VALUE");
  add_kv_type(command, options.kv_type);
}

void accept_options_of_other_programs(Command command) {
  using Value = Command::Value;
  command.accept("-ngl,--n-gpu-layers,--gpu-layers,--num-gpu", Value::kOne,
                 "a device holds the whole model here; --device chooses it");
  command.accept("-fa,--flash-attn,--no-flash-attn", Value::kMaybe, "attention is always fused");
  command.accept("-b,--batch-size,-ub,--ubatch-size,--num-batch", Value::kOne, "the device sets the size of batches");
  command.accept("-tb,--threads-batch", Value::kOne, "--threads counts for prompts too");
  command.accept("--mlock,--no-mmap,--mmap", Value::kNone, "model files are mapped, and their pages are not locked");
  command.accept("-cnv,--conversation", Value::kNone, "a chat begins where no PROMPT is given");
  command.accept("-st,--single-turn", Value::kNone, "a PROMPT is answered once");
  command.accept("--jinja", Value::kNone, "chat templates are always Jinja");
  command.accept("-no-perf,--no-perf,--no-warmup,--no-display-prompt,--simple-io", Value::kNone, "this is always so");
  command.accept("--keepalive", Value::kOne, "a model is loaded for one command");
}

bool GenerationOptions::is_given(const std::string& name) const {
  return std::ranges::any_of(declared, [&](const auto& entry) { return entry.first == name && entry.second.given(); });
}

void finish(GenerationOptions& options) {
  options.generate.sampler.logit_bias.clear();
  for (const std::string& text : options.logit_bias) options.generate.sampler.logit_bias.push_back(parse_bias(text));
  for (const std::string& stop : options.generate.stop) {
    if (stop.empty()) throw bad_input("--stop: the text is empty");
  }
  if (options.parse_special && !options.raw) throw bad_input("--parse-special is for --raw: messages are plain text");
  if (options.raw && !options.chat_template.empty()) throw bad_input("--raw uses no --chat-template: give one of them");
  SamplerOptions& sampler = options.generate.sampler;
  std::vector<std::string>& breakers = sampler.dry_sequence_breakers;
  breakers.erase(breakers.begin(), std::find(breakers.rbegin(), breakers.rend(), "none").base());
  // Made only to check the values; the vocabulary is not known yet, so token ids are checked later.
  const Sampler checked(sampler, std::numeric_limits<int32_t>::max());
  sampler.seed = checked.seed();  // so that it can be reported
}

std::string apply_sampling_defaults(GenerationOptions& options, const SamplingDefaults& defaults, bool interactive) {
  SamplerOptions& sampler = options.generate.sampler;
  std::map<std::string, const char*> origins;
  for (const std::string& name : options.of_source) origins[name] = "ollama";
  for (const auto& [name, option] : options.declared) {
    if (option.given()) origins[name] = "option";
  }
  for (const SamplingDefault& setting : defaults.values) {
    const std::string name = "--" + with_dashes(setting.option->name);
    if (origins.contains(name)) continue;
    setting.apply(sampler);
    origins[name] = "model";
  }
  if (!origins.contains("--temperature")) sampler.temperature = interactive ? SamplerOptions().temperature : 0;
  std::string line = "sampling:";
  for (const SamplingOption& option : kSamplingOptions) {
    if (option.gguf == nullptr) continue;
    const std::string name = with_dashes(option.name);
    const auto origin = origins.find("--" + name);
    line +=
        fmt::format(" {} {:.6g} ({})", name, option.get(sampler), origin == origins.end() ? "default" : origin->second);
  }
  return line;
}

LoadOptions load_options(const CommonOptions& common, int64_t context, const std::optional<std::string>& kv_type) {
  LoadOptions options;
  options.device = common.device;
  options.threads = common.threads;
  options.check_weights = common.check_weights;
  options.quantize = common.quantize;
  for (const std::string& lora : common.lora) {
    const auto [path, scale] = llm::parse_adapter(lora);
    options.adapters.push_back({path, scale});
  }
  options.context = context;
  if (!common.memory.empty()) options.memory = parse_size(common.memory, "--memory");
  if (!common.host_memory.empty()) options.host_memory = parse_size(common.host_memory, "--host-memory");
  if (options.host_memory > 0 && options.memory == 0)
    throw bad_input("--host-memory goes with --memory, the limit on the device");
  if (kv_type) options.kv_type = parse_kv_type(*kv_type);
  apply(common, options);
  return options;
}

std::vector<int32_t> parse_token_list(const std::string& text, const char* option) {
  std::vector<int32_t> ids;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto skip_spaces = [&] {
    while (at != end && (*at == ' ' || *at == '\n' || *at == '\t')) ++at;
  };
  while (true) {
    skip_spaces();
    int32_t id = 0;
    const auto [stop, error] = std::from_chars(at, end, id);
    if (error != std::errc() || id < 0) {
      throw bad_input("{}: expected token ids such as 1,2,3 at character {}", option, at - text.data() + 1);
    }
    ids.push_back(id);
    at = stop;
    skip_spaces();
    if (at == end) return ids;
    if (*at++ != ',') throw bad_input("{}: expected a comma at character {}", option, at - text.data());
  }
}

}  // namespace gabbro::cli
