// A model that answers from a script, token by token, with delays and faults, behind the engine's interface: so that
// clients, streams and limits are tested without luck.
#pragma once

#include <nlohmann/json.hpp>

#include "src/server/models/model_source.h"

namespace gabbro::test {

// The script: {"model": {"context": 4096, "parallel": 4, "load_ms": 0, "restart_ms": 0, "template": "of chats",
// "controls": ["names of further control tokens"]},
// "answers": [{"if": "text in the prompt", "tokens": ["Hel", "lo"], "prefill_ms": 0, "token_ms": 0, "fail_after": 3,
// "error": "text", "repeat": 1}]}. The last answer without "if" is for all other prompts. Tokens are texts of one or
// more bytes, lists of bytes, or {"control": "name"}. After an error the model is not ready for restart_ms.
class ScriptedModels final : public server::ModelSource {
 public:
  // `models`: an object of scripts by name.
  explicit ScriptedModels(nlohmann::ordered_json models) : models_(std::move(models)) {}

  std::vector<server::ModelEntry> list() override;
  std::optional<server::ModelEntry> find(const std::string& name) override;
  server::LoadedModel load(const server::ModelEntry& entry) override;

 private:
  const nlohmann::ordered_json models_;
};

}  // namespace gabbro::test
