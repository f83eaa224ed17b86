#include "src/server/answer/vectors.h"

#include "src/text/tokenizer.h"

namespace gabbro::server {
namespace {

using Compute = std::function<std::vector<float>(TextEncoder& encoder, const std::atomic<bool>& cancel)>;

void run_encoder(Service& service, const std::shared_ptr<Exchange>& exchange, ModelRegistry::LeaseHandle model,
                 Compute compute, OnVectors ready, size_t rows, int64_t tokens) {
  const auto start = std::chrono::steady_clock::now();
  const auto lease = std::make_shared<ModelRegistry::LeaseHandle>(model);
  const auto job =
      (*model)->add_work([&service, exchange, lease, compute = std::move(compute), ready = std::move(ready), rows,
                          tokens, start](TextEncoder& encoder, const std::atomic<bool>& cancel) {
        EncodedTexts result{.values = {}, .tokens = tokens};
        std::optional<ApiError> error;
        try {
          if (cancel) throw ApiError(503, "the request was canceled");
          result.values = compute(encoder, cancel);
          if (rows > 0) result.width = result.values.size() / rows;
          result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        } catch (...) {
          error = current_api_error();
        }
        service.run([&service, exchange, lease, result = std::move(result), error, ready] {
          try {
            if (error) throw ApiError(*error);
            service.count_tokens(exchange->request().key_name, result.tokens);
            ready(result);
          } catch (...) {
            service.fail(*exchange, current_api_error());
          }
        });
      });
  exchange->on_gone([lease, job] { (**lease)->cancel(job); });
}

int64_t count_tokens(const LoadedModel& model, const std::vector<std::string>& texts) {
  int64_t tokens = 0;
  if (model.tokenizer == nullptr) return tokens;
  for (const std::string& text : texts) tokens += std::ssize(model.tokenizer->encode(text));
  return tokens;
}

}  // namespace

void embed(Service& service, const std::shared_ptr<Exchange>& exchange, ModelRegistry::LeaseHandle model,
           EmbedWork work, OnVectors ready) {
  const size_t rows = work.token_ids.empty() ? work.texts.size() : work.token_ids.size();
  int64_t tokens = count_tokens((*model)->model(), work.texts);
  for (const auto& ids : work.token_ids) tokens += std::ssize(ids);
  run_encoder(
      service, exchange, std::move(model),
      [work = std::move(work)](TextEncoder& encoder, const std::atomic<bool>& cancel) {
        EmbedOptions options = work.options;
        options.cancel = &cancel;
        if (work.token_ids.empty()) return encoder.embed(work.texts, options);
        std::vector<TokenizedText> texts;
        for (const auto& ids : work.token_ids) texts.push_back({.ids = ids});
        return encoder.embed_tokens(texts, options);
      },
      std::move(ready), rows, tokens);
}

void score(Service& service, const std::shared_ptr<Exchange>& exchange, ModelRegistry::LeaseHandle model,
           std::vector<std::string> queries, std::vector<std::string> documents, RerankOptions options,
           OnVectors ready) {
  const size_t rows = documents.size();
  // A pair has the tokens of both texts.
  const int64_t of_queries = count_tokens((*model)->model(), queries);
  const int64_t tokens = count_tokens((*model)->model(), documents) +
                         (queries.size() == 1 ? of_queries * static_cast<int64_t>(rows) : of_queries);
  run_encoder(
      service, exchange, std::move(model),
      [queries = std::move(queries), documents = std::move(documents), options](TextEncoder& encoder,
                                                                                const std::atomic<bool>& cancel) {
        RerankOptions chosen = options;
        chosen.cancel = &cancel;
        if (queries.size() == 1) return encoder.rerank(queries.front(), documents, chosen);
        std::vector<float> scores;
        for (size_t i = 0; i < documents.size(); ++i)
          scores.push_back(encoder.rerank(queries[i], {&documents[i], 1}, chosen).front());
        return scores;
      },
      std::move(ready), rows, tokens);
}

}  // namespace gabbro::server
