// POST /v1/embeddings
#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <span>

#include "src/server/answer/prompt.h"
#include "src/server/answer/vectors.h"
#include "src/server/routes/openai_common.h"
#include "src/text/base64.h"

namespace gabbro::server {
namespace {

static_assert(std::endian::native == std::endian::little);
constexpr size_t kMostInputs = 2048;
constexpr int64_t kMostIds = INT32_MAX;

std::string base64_of(std::span<const float> values) {
  return text::encode_base64({reinterpret_cast<const char*>(values.data()), values.size_bytes()});
}

// A text, texts, token ids, or arrays of token ids.
EmbedWork read_input(Fields& fields) {
  EmbedWork work;
  const Json* const given = fields.find("input");
  if (given == nullptr) throw ApiError(400, "input: is required", "missing_required_parameter", "input");
  const bool is_ids = given->is_array() && !given->empty() && !(*given)[0].is_string();
  if (!is_ids) {
    work.texts = fields.texts("input", kMostInputs).value();
    if (work.texts.empty()) fields.refuse("input", "is empty");
    for (const std::string& text : work.texts) {
      if (text.empty()) fields.refuse("input", "a text is empty");
    }
    return work;
  }
  if ((*given)[0].is_number()) {
    work.token_ids.push_back(read_token_ids(*given, "input", kMostIds));
    return work;
  }
  if (given->size() > kMostInputs) fields.refuse("input", fmt::format("has more than {} elements", kMostInputs));
  for (const Json& ids : *given) {
    if (!ids.is_array() || ids.empty()) fields.refuse("input", "expected arrays of token ids");
    work.token_ids.push_back(read_token_ids(ids, "input", kMostIds));
  }
  return work;
}

void answer_embeddings(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const Json body = body_of(exchange->request());
  Fields fields(body);
  const std::string name = fields.text("model").value_or("");
  EmbedWork work = read_input(fields);
  work.options.dimensions = fields.integer("dimensions", 1, kMostDimensions).value_or(0);
  work.options.truncated = fields.integer("truncate_prompt_tokens", -1, kMostTokens).has_value();
  const std::string format = fields.text("encoding_format").value_or("float");
  if (format != "float" && format != "base64") fields.refuse("encoding_format", "expected float or base64");
  const auto keep_alive = read_keep_alive(fields, "keep_alive");
  fields.ignore({"user"});
  service.note_unknown(fields);
  service.with_model(
      exchange, name, keep_alive, [&service, exchange, work, format](ModelRegistry::LeaseHandle lease, double) {
        const std::string model = (*lease)->entry().id;
        embed(service, exchange, std::move(lease), work, [exchange, format, model](const EncodedTexts& result) {
          Json rows = Json::array();
          for (size_t i = 0; i * result.width < result.values.size(); ++i) {
            const std::span<const float> vector(result.values.data() + i * result.width, result.width);
            Json row = {{"object", "embedding"}, {"index", i}};
            row["embedding"] =
                format == "base64" ? Json(base64_of(vector)) : Json(std::vector<float>(vector.begin(), vector.end()));
            rows.push_back(std::move(row));
          }
          respond_json(*exchange, {{"object", "list"},
                                   {"data", std::move(rows)},
                                   {"model", model},
                                   {"usage", {{"prompt_tokens", result.tokens}, {"total_tokens", result.tokens}}}});
        });
      });
}

}  // namespace

void add_openai_embeddings(Router& router) {
  for (const char* const path : {"/v1/embeddings", "/embeddings"})
    router.add({"POST", path, "Vectors of texts", answer_embeddings});
}

}  // namespace gabbro::server
