// A source of models: the folders of this machine, or a script of tests.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gabbro/engine/text_encoder.h"
#include "src/engine/model_service.h"
#include "src/hub/ollama_layers.h"

namespace gabbro::server {

struct ModelEntry {
  std::string id;  // the name in requests
  std::string path;
  uint64_t bytes = 0;                      // of its files
  int64_t modified = 0;                    // seconds since 1970
  bool is_encoder = false;                 // computes vectors and scores, not texts
  std::string architecture, quantization;  // empty: unknown
};

// Exactly one of the two is set.
struct LoadedModel {
  std::shared_ptr<ModelService> generator;
  std::shared_ptr<TextEncoder> encoder;
  std::shared_ptr<const text::Tokenizer> tokenizer;  // of an encoder; null: it has none
  std::shared_ptr<const hub::OllamaLayers> layers;   // null: none
  uint64_t bytes = 0;                                // of memory: weights and cache
};

class ModelSource {
 public:
  virtual ~ModelSource() = default;
  virtual std::vector<ModelEntry> list() = 0;
  // Finds a model by the name in a request; empty if there is none.
  virtual std::optional<ModelEntry> find(const std::string& name) = 0;
  // Throws as Engine::load.
  virtual LoadedModel load(const ModelEntry& entry) = 0;
};

}  // namespace gabbro::server
