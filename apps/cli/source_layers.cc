#include "apps/cli/source_layers.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/cli/argument_parser.h"
#include "apps/cli/command_spec.h"
#include "apps/cli/terminal.h"
#include "src/base/error.h"

namespace gabbro::cli {
namespace {

using Json = nlohmann::ordered_json;

// PARAMETER of a Modelfile that is not in kSamplingOptions, and the option that is the same.
constexpr std::pair<const char*, const char*> kParameters[] = {
    {"num_ctx", "--ctx"},
    {"num_predict", "--max-tokens"},
    {"stop", "--stop"},
    {"seed", "--seed"},
};

// The option of a PARAMETER; empty: there is none.
std::string option_of(const std::string& parameter) {
  if (const SamplingOption* const option = find_sampling_option(parameter)) return "--" + with_dashes(option->name);
  const auto known = std::ranges::find(kParameters, parameter, [](const auto& entry) { return entry.first; });
  return known == std::end(kParameters) ? "" : known->second;
}

// A number as an option takes it. Ollama's "-2", the rest of the context, is what -1 is here; a negative seed is a
// random one, and a negative top_k none.
std::string number_text(const std::string& name, const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_number()) throw bad_input("is not a number");
  const double number = value.get<double>();
  if ((name == "seed" || name == "top_k") && number < 0) return "0";
  if (name == "num_predict" && number < -1) return "-1";
  const bool whole = number == std::floor(number) && std::abs(number) < 1e15;
  return whole ? fmt::format("{:.0f}", number) : value.dump();
}

std::vector<std::string> stop_texts(const Json& value) {
  std::vector<std::string> texts;
  for (const Json& text : value.is_array() ? value : Json::array({value})) {
    if (!text.is_string()) throw bad_input("is not a text or a list of texts");
    if (!text.get_ref<const std::string&>().empty()) texts.push_back(text.get<std::string>());
  }
  return texts;
}

// One parameter as arguments of the command line, which check it.
void apply_parameter(const std::string& name, const std::string& option, const Json& value,
                     GenerationOptions& options) {
  std::vector<std::string> arguments;
  if (option == "--stop") {
    for (const std::string& text : stop_texts(value)) arguments.push_back(option + "=" + text);
  } else {
    arguments.push_back(option + "=" + number_text(name, value));
  }
  CommandSpec command;
  GenerationOptions changed = options;
  add_sampling_options(Command(&command), changed);
  add_context(Command(&command), changed.context);
  parse_arguments(command, arguments);
  changed.declared = options.declared;  // the handles of this declaration end with `command`
  changed.of_source.insert(option);
  options = std::move(changed);
}

}  // namespace

void apply_layers(const SourceLayers& layers, GenerationOptions& options, CommonOptions& common) {
  if (layers == nullptr) return;
  std::string others;
  for (const auto& [name, value] : layers->parameters.items()) {
    const std::string option = option_of(name);
    if (name == "num_thread" && value.is_number_integer()) {
      if (common.threads == 0) common.threads = std::clamp(value.get<int>(), 0, 1024);
      continue;
    }
    if (option.empty()) {
      others += (others.empty() ? "" : ", ") + name;
      continue;
    }
    if (options.is_given(option)) continue;
    try {
      apply_parameter(name, option, value, options);
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("{}: PARAMETER {}: {}", layers->name, name, error.what()), error.hint());
    }
  }
  if (!others.empty())
    report("note", fmt::format("{}: parameters that are not followed: {}", layers->name, printable(others)));
  if (options.raw) return;
  if (!options.is_given("--system")) options.system = layers->system;
  options.examples = layers->messages;
}

std::shared_ptr<const text::ChatTemplate> template_of(const SourceLayers& layers) {
  if (layers == nullptr || !layers->chat_template) return nullptr;
  try {
    return std::make_shared<const text::ChatTemplate>(text::ChatTemplate::from_go(*layers->chat_template));
  } catch (const Error& error) {
    report("note", fmt::format("{}: its TEMPLATE is not followed, the chat template of the model's file is used: {}",
                               layers->name, printable(error.what())));
    return nullptr;
  }
}

void report_layers(const SourceLayers& layers) {
  if (layers == nullptr) return;
  for (const std::string& note : layers->notes) report("note", fmt::format("{}: {}", layers->name, printable(note)));
}

Json with_source_messages(const SourceLayers& layers, Json messages) {
  if (layers == nullptr || !messages.is_array()) return messages;  // moved: deep ones cannot be copied
  const bool has_system =
      !messages.empty() && messages[0].is_object() && messages[0].value("role", Json()) == Json("system");
  Json all = Json::array();
  const bool adds_system = !layers->system.empty() && !has_system;
  if (adds_system) all.push_back({{"role", "system"}, {"content", layers->system}});
  for (const auto& [role, content] : layers->messages) all.push_back({{"role", role}, {"content", content}});
  for (Json& message : messages) all.push_back(std::move(message));
  return all;
}

}  // namespace gabbro::cli
