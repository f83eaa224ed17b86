// POST /v1/rerank, /v1/score and their other names.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "src/server/answer/vectors.h"
#include "src/server/http/url.h"
#include "src/server/routes/openai_common.h"

namespace gabbro::server {
namespace {

constexpr size_t kMostDocuments = 10'000;

// Texts, or objects with a member "text".
std::vector<std::string> read_documents(Fields& fields, const std::string& name) {
  const Json* const given = fields.array(name, kMostDocuments);
  if (given == nullptr) throw ApiError(400, name + ": is required", "missing_required_parameter", name);
  if (given->empty()) fields.refuse(name, "is empty");
  std::vector<std::string> documents;
  for (size_t i = 0; i < given->size(); ++i) {
    const Json& document = (*given)[i];
    if (document.is_string()) {
      documents.push_back(document.get<std::string>());
    } else {
      Fields members(document, fmt::format("{}[{}]", name, i));
      documents.push_back(members.required_text("text"));
    }
  }
  return documents;
}

struct RerankForm {
  bool is_tei = false;  // request with "texts", answer is an array
  bool returns_text = false;
  size_t most = 0;
  std::string model;
};

Json rerank_answer(const RerankForm& form, const std::vector<std::string>& documents, const EncodedTexts& result) {
  std::vector<size_t> order(documents.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](size_t i) { return result.values[i]; });
  order.resize(std::min(order.size(), form.most));
  Json rows = Json::array();
  for (const size_t i : order) {
    Json row = {{"index", i}, {form.is_tei ? "score" : "relevance_score", result.values[i]}};
    if (form.returns_text && form.is_tei) row["text"] = documents[i];
    if (form.returns_text && !form.is_tei) row["document"] = {{"text", documents[i]}};
    rows.push_back(std::move(row));
  }
  if (form.is_tei) return rows;
  return {{"id", random_id("rerank-")},
          {"object", "list"},
          {"model", form.model},
          {"results", std::move(rows)},
          {"usage", {{"prompt_tokens", result.tokens}, {"total_tokens", result.tokens}}}};
}

void answer_rerank(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const Json body = body_of(exchange->request());
  Fields fields(body);
  const std::string name = fields.text("model").value_or("");
  const std::string query = fields.required_text("query");
  RerankForm form{.is_tei = fields.has("texts")};
  const std::vector<std::string> documents = read_documents(fields, form.is_tei ? "texts" : "documents");
  form.most = static_cast<size_t>(fields.integer("top_n", 1, kMostDocuments).value_or(kMostDocuments));
  form.returns_text = fields.boolean_or(form.is_tei ? "return_text" : "return_documents", !form.is_tei);
  RerankOptions options;
  options.raw = fields.boolean_or("raw_scores", false);
  options.instruction = fields.text("instruction").value_or("");
  options.truncated = fields.boolean_or("truncate", false);
  fields.ignore({"user", "truncation_direction"});
  const auto keep_alive = read_keep_alive(fields, "keep_alive");
  service.note_unknown(fields);
  service.with_model(
      exchange, name, keep_alive,
      [&service, exchange, query, documents, options, form](ModelRegistry::LeaseHandle lease, double) mutable {
        form.model = (*lease)->entry().id;
        score(service, exchange, std::move(lease), {query}, documents, options,
              [exchange, form, documents](const EncodedTexts& result) {
                respond_json(*exchange, rerank_answer(form, documents, result));
              });
      });
}

void answer_score(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const Json body = body_of(exchange->request());
  Fields fields(body);
  const std::string name = fields.text("model").value_or("");
  const auto first = fields.texts("text_1", kMostDocuments), second = fields.texts("text_2", kMostDocuments);
  if (!first || first->empty()) throw ApiError(400, "text_1: is required", "missing_required_parameter", "text_1");
  if (!second || second->empty()) throw ApiError(400, "text_2: is required", "missing_required_parameter", "text_2");
  if (first->size() != 1 && first->size() != second->size())
    fields.refuse("text_1",
                  fmt::format("has {} texts, expected one or {} as text_2 has", first->size(), second->size()));
  RerankOptions options;
  options.truncated = fields.has("truncate_prompt_tokens");
  fields.ignore({"user", "encoding_format"});
  service.note_unknown(fields);
  service.with_model(
      exchange, name, {}, [&service, exchange, first, second, options](ModelRegistry::LeaseHandle lease, double) {
        const std::string model = (*lease)->entry().id;
        score(service, exchange, std::move(lease), *first, *second, options,
              [exchange, model](const EncodedTexts& result) {
                Json rows = Json::array();
                for (size_t i = 0; i < result.values.size(); ++i)
                  rows.push_back({{"index", i}, {"object", "score"}, {"score", result.values[i]}});
                respond_json(*exchange,
                             {{"id", random_id("score-")},
                              {"object", "list"},
                              {"created", unix_time()},
                              {"model", model},
                              {"data", std::move(rows)},
                              {"usage", {{"prompt_tokens", result.tokens}, {"total_tokens", result.tokens}}}});
              });
      });
}

}  // namespace

void add_rerank(Router& router) {
  for (const char* const path : {"/v1/rerank", "/rerank", "/v1/reranking", "/reranking"})
    router.add({"POST", path, "Documents by how well they answer a query", answer_rerank});
  for (const char* const path : {"/v1/score", "/score"})
    router.add({"POST", path, "How well texts belong together", answer_score});
}

}  // namespace gabbro::server
