// Work of text encoders: it runs on the model's thread, and its result comes back on another one.
#pragma once

#include <functional>
#include <vector>

#include "src/server/service.h"

namespace gabbro::server {

struct EncodedTexts {
  std::vector<float> values;  // [texts, width]
  size_t width = 1;
  int64_t tokens = 0;  // of all texts
  double seconds = 0;  // since the model was loaded
};
using OnVectors = std::function<void(const EncodedTexts& result)>;

struct EmbedWork {
  std::vector<std::string> texts;
  std::vector<std::vector<int32_t>> token_ids{};  // instead of texts
  EmbedOptions options{};
};

// Calls `ready` with the vectors; errors are the answer of `exchange`. The work ends early when the client leaves.
void embed(Service& service, const std::shared_ptr<Exchange>& exchange, ModelRegistry::LeaseHandle model,
           EmbedWork work, OnVectors ready);

// As above, with the scores of documents for a query. Several queries: one for each document.
void score(Service& service, const std::shared_ptr<Exchange>& exchange, ModelRegistry::LeaseHandle model,
           std::vector<std::string> queries, std::vector<std::string> documents, RerankOptions options,
           OnVectors ready);

}  // namespace gabbro::server
