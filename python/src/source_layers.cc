#include "python/src/source_layers.h"

#include <cmath>

#include "src/base/error.h"
#include "src/text/chat/chat_template.h"

namespace gabbro::python {
namespace {

using Json = nlohmann::ordered_json;

bool is_known(const std::string& name) {
  return find_sampling_option(name) != nullptr || name == "stop" || name == "seed" || name == "num_predict" ||
         name == "num_ctx" || name == "num_thread";
}

double number_of(const SourceLayers& source, const std::string& name, const Json& value, bool whole) {
  const double number = value.is_number() ? value.get<double>() : NAN;
  if (!std::isfinite(number) || std::abs(number) > 1e9 || (whole && number != std::floor(number)))
    throw bad_input("{}: PARAMETER {} is {}", source.layers->name, name, value.dump());
  return number;
}

void apply_stop(const SourceLayers& source, const Json& value, GenerateOptions& options) {
  options.stop.clear();
  for (const Json& text : value.is_array() ? value : Json::array({value})) {
    if (!text.is_string()) throw bad_input("{}: PARAMETER stop is {}", source.layers->name, value.dump());
    if (!text.get_ref<const std::string&>().empty()) options.stop.push_back(text.get<std::string>());
  }
}

}  // namespace

SourceLayers apply_layers(std::shared_ptr<const hub::OllamaLayers> layers, LoadOptions& options) {
  SourceLayers source{.layers = std::move(layers)};
  if (source.layers == nullptr) return source;
  const hub::OllamaLayers& found = *source.layers;
  for (const std::string& path : found.adapters) options.adapters.push_back({.path = path});
  for (const std::string& note : found.notes) source.warnings.push_back(found.name + ": " + note);
  try {
    if (found.chat_template)
      options.chat_template =
          std::make_shared<const text::ChatTemplate>(text::ChatTemplate::from_go(*found.chat_template));
  } catch (const Error& error) {
    source.warnings.push_back(
        fmt::format("{}: its TEMPLATE is not followed, the chat template of the model's file is used: {}", found.name,
                    error.what()));
  }
  for (const auto& [name, value] : found.parameters.items()) {
    if (name == "num_ctx" && options.context == 0)
      options.context = static_cast<int64_t>(number_of(source, name, value, true));
    if (name == "num_thread" && options.threads == 0)
      options.threads = static_cast<int>(number_of(source, name, value, true));
    if (!is_known(name)) source.warnings.push_back(fmt::format("{}: PARAMETER {} is not followed", found.name, name));
  }
  return source;
}

void apply_parameters(const SourceLayers& source, GenerateOptions& options) {
  if (source.layers == nullptr) return;
  for (const auto& [name, value] : source.layers->parameters.items()) {
    if (const SamplingOption* const option = find_sampling_option(name)) {
      const double number = number_of(source, name, value, option->is_integer());
      option->set(options.sampler, name == "top_k" ? std::max(number, 0.0) : number);
    }
    if (name == "stop") apply_stop(source, value, options);
    if (name == "num_predict")
      options.max_tokens = static_cast<int>(std::max(number_of(source, name, value, true), -1.0));
    if (name == "seed")
      options.sampler.seed = static_cast<uint64_t>(std::max(number_of(source, name, value, true), 0.0));
  }
}

std::vector<std::pair<std::string, std::string>> with_source_messages(
    const SourceLayers& source, const std::vector<std::pair<std::string, std::string>>& messages) {
  if (source.layers == nullptr) return messages;
  std::vector<std::pair<std::string, std::string>> all;
  const bool has_system = !messages.empty() && messages.front().first == "system";
  if (!source.layers->system.empty() && !has_system) all.emplace_back("system", source.layers->system);
  all.insert(all.end(), source.layers->messages.begin(), source.layers->messages.end());
  all.insert(all.end(), messages.begin(), messages.end());
  return all;
}

}  // namespace gabbro::python
