// GET /v1/models, /v1/models/{id}
#include <algorithm>

#include "src/server/router.h"

namespace gabbro::server {
namespace {

Json model_row(const ModelEntry& entry, const std::vector<ModelRegistry::Status>& loaded) {
  const auto status = std::ranges::find(loaded, entry.id, [](const auto& one) { return one.entry.id; });
  Json row = {{"id", entry.id},
              {"object", "model"},
              {"created", entry.modified},
              {"owned_by", "gabbro"},
              {"capabilities", Json::array({entry.is_encoder ? "embedding" : "completion"})},
              {"loaded", status != loaded.end()},
              {"meta", {{"size", entry.bytes}}}};
  if (status != loaded.end() && status->context > 0) {
    row["max_model_len"] = status->context;
    row["context_length"] = status->context;
    row["meta"]["n_ctx"] = status->context;
  }
  return row;
}

bool is_anthropic(const Exchange& exchange) { return exchange.request().header("anthropic-version") != nullptr; }

Json anthropic_row(const ModelEntry& entry) {
  return {{"type", "model"},
          {"id", entry.id},
          {"display_name", entry.id},
          {"created_at", rfc3339(std::chrono::system_clock::from_time_t(entry.modified))}};
}

// All models on one page.
Json anthropic_list(const std::vector<ModelEntry>& entries) {
  Json rows = Json::array();
  for (const ModelEntry& entry : entries) rows.push_back(anthropic_row(entry));
  const Json first = rows.empty() ? Json() : rows.front()["id"], last = rows.empty() ? Json() : rows.back()["id"];
  return {{"data", std::move(rows)}, {"has_more", false}, {"first_id", first}, {"last_id", last}};
}

void answer_models(Service& service, const std::shared_ptr<Exchange>& exchange) {
  if (is_anthropic(*exchange)) return respond_json(*exchange, anthropic_list(service.models().list()));
  const auto loaded = service.models().loaded();
  Json rows = Json::array();
  for (const ModelEntry& entry : service.models().list()) rows.push_back(model_row(entry, loaded));
  Json models = rows;
  respond_json(*exchange, {{"object", "list"}, {"data", std::move(rows)}, {"models", std::move(models)}});
}

void answer_model(Service& service, const std::shared_ptr<Exchange>& exchange) {
  constexpr std::string_view kPath = "/models/";
  const std::string& path = exchange->request().path;
  const ModelEntry entry = service.models().find(path.substr(path.find(kPath) + kPath.size()));
  if (is_anthropic(*exchange)) return respond_json(*exchange, anthropic_row(entry));
  respond_json(*exchange, model_row(entry, service.models().loaded()));
}

}  // namespace

void add_openai_models(Router& router) {
  for (const char* const path : {"/v1/models", "/models"}) router.add({"GET", path, "The models", answer_models});
  for (const char* const path : {"/v1/models/*", "/models/*"}) router.add({"GET", path, "One model", answer_model});
}

}  // namespace gabbro::server
