// GET /api/tags, /api/ps, /api/version, POST /api/show
#include <fmt/format.h>

#include <functional>

#include "src/server/answer/sampling_fields.h"
#include "src/server/router.h"
#include "src/text/chat/chat_template.h"
#include "src/text/chat/tool_calls.h"
#include "src/text/special/fill_in.h"

namespace gabbro::server {
namespace {

// Clients ask for features by it: that of the Ollama whose fields these are.
constexpr const char* kOllamaVersion = "0.12.0";

std::string parameter_size(int64_t parameters) {
  if (parameters <= 0) return "";
  const auto count = static_cast<double>(parameters);
  return count >= 1e9 ? fmt::format("{:.1f}B", count / 1e9) : fmt::format("{:.2f}M", count / 1e6);
}

// Stands for the digest of a manifest: the same for the same file.
std::string digest_of(const ModelEntry& entry) {
  std::string digest;
  for (const char* const salt : {"a", "b", "c", "d"})
    digest += fmt::format(
        "{:016x}", std::hash<std::string>()(fmt::format("{}{}{}{}", salt, entry.path, entry.bytes, entry.modified)));
  return digest;
}

Json capabilities_of(const ModelEntry& entry) { return Json::array({entry.is_encoder ? "embedding" : "completion"}); }

// A loaded model also has what its chat template and its tokens allow.
Json capabilities_of(const ModelEntry& entry, const LoadedModel& model) {
  Json capabilities = capabilities_of(entry);
  if (model.generator == nullptr) return capabilities;
  const text::ChatTemplate* const used = model.generator->chat_template(true);
  if (used != nullptr && text::tool_call_format(used->source()) != text::ToolCallFormat::kNone)
    capabilities.push_back("tools");
  if (text::fill_in_tokens(model.generator->tokenizer()).are_known()) capabilities.push_back("insert");
  return capabilities;
}

Json details_of(const ModelEntry& entry, int64_t parameters) {
  return {{"parent_model", ""},
          {"format", entry.path.ends_with(".gguf") ? "gguf" : "safetensors"},
          {"family", entry.architecture},
          {"families", Json::array({entry.architecture})},
          {"parameter_size", parameter_size(parameters)},
          {"quantization_level", entry.quantization}};
}

Json model_json(const ModelEntry& entry) {
  return {{"name", entry.id},
          {"model", entry.id},
          {"modified_at", rfc3339(std::chrono::system_clock::from_time_t(entry.modified))},
          {"size", entry.bytes},
          {"digest", digest_of(entry)},
          {"details", details_of(entry, 0)},
          {"capabilities", capabilities_of(entry)}};
}

void answer_tags(Service& service, const std::shared_ptr<Exchange>& exchange) {
  Json models = Json::array();
  for (const ModelEntry& entry : service.models().list()) models.push_back(model_json(entry));
  respond_json(*exchange, {{"models", std::move(models)}});
}

void answer_ps(Service& service, const std::shared_ptr<Exchange>& exchange) {
  Json models = Json::array();
  for (const ModelRegistry::Status& status : service.models().loaded()) {
    Json row = model_json(status.entry);
    row["size"] = status.bytes;
    row["size_vram"] = status.device.starts_with("cpu") ? 0 : status.bytes;
    // A model that stays for ever is shown as Ollama does: far away.
    row["expires_at"] = status.expires ? rfc3339(*status.expires) : std::string("2318-01-01T00:00:00Z");
    row["context_length"] = status.context;
    row["device"] = status.device;
    models.push_back(std::move(row));
  }
  respond_json(*exchange, {{"models", std::move(models)}});
}

void answer_ollama_version(Service&, const std::shared_ptr<Exchange>& exchange) {
  respond_json(*exchange, {{"version", kOllamaVersion}});
}

Json show_json(const ModelRunner& runner) {
  const ModelEntry& entry = runner.entry();
  const LoadedModel& model = runner.model();
  Json answer = {{"modelfile", "# FROM " + entry.id}, {"parameters", ""}, {"template", ""}};
  Json info = {{"general.architecture", entry.architecture}};
  int64_t parameters = 0;
  if (model.generator != nullptr) {
    const ModelFacts& facts = model.generator->facts();
    parameters = facts.parameters;
    info["general.parameter_count"] = facts.parameters;
    info[facts.architecture + ".context_length"] = facts.context;
    info[facts.architecture + ".block_count"] = facts.layers;
    info[facts.architecture + ".vocab_size"] = facts.vocabulary;
    const text::ChatTemplate* const used = model.generator->chat_template();
    answer["template"] = used != nullptr ? used->source() : "";
    answer["parameters"] = fmt::format("num_ctx {}", facts.context);
  } else {
    info[entry.architecture + ".context_length"] = model.encoder->facts().most_tokens;
    info[entry.architecture + ".embedding_length"] = model.encoder->facts().dimensions;
  }
  if (model.layers != nullptr) {
    answer["system"] = model.layers->system;
    std::string license;
    for (const std::string& one : model.layers->licenses) license += one;
    answer["license"] = license;
  }
  answer["details"] = details_of(entry, parameters);
  answer["model_info"] = std::move(info);
  answer["capabilities"] = capabilities_of(entry, model);
  answer["modified_at"] = rfc3339(std::chrono::system_clock::from_time_t(entry.modified));
  return answer;
}

void answer_show(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const Json body = body_of(exchange->request());
  Fields fields(body);
  const bool has_old_name = fields.has("name") && !fields.has("model");
  const std::string name = fields.required_text(has_old_name ? "name" : "model");
  fields.boolean("verbose");
  service.note_unknown(fields);
  service.with_model(exchange, name, {}, [exchange](ModelRegistry::LeaseHandle lease, double) {
    respond_json(*exchange, show_json(**lease));
  });
}

}  // namespace

void add_ollama_models(Router& router) {
  router.add({"GET", "/api/tags", "The models", answer_tags});
  router.add({"GET", "/api/ps", "The models that are loaded", answer_ps});
  router.add({"GET", "/api/version", "The version of Ollama's dialect", answer_ollama_version});
  router.add({"POST", "/api/show", "One model", answer_show});
}

}  // namespace gabbro::server
