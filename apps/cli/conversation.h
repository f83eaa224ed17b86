// A chat with one model, or in raw mode one growing text: what was said, as the prompt of what comes next.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/cli/options.h"
#include "src/engine/generate.h"
#include "src/engine/session.h"

namespace gabbro::cli {

class Conversation {
 public:
  // Uses the model's chat template unless options.raw, or where it has none.
  Conversation(std::shared_ptr<Engine> engine, const GenerationOptions& options);

  // The model's answer to `text`, which both become part of the conversation. When it throws, nothing was said.
  GenerateResult say(const std::string& text, const std::function<void(std::string_view)>& on_text,
                     const std::atomic<bool>* cancel);

  void reset();
  bool uses_template() const { return chat_template_ != nullptr; }
  const nlohmann::ordered_json& messages() const { return messages_; }  // [{"role", "content"}]

 private:
  std::vector<int32_t> prompt_tokens() const;

  std::shared_ptr<Engine> engine_;
  Session session_;
  GenerationOptions options_;
  const text::ChatTemplate* chat_template_;
  nlohmann::ordered_json messages_;
};

}  // namespace gabbro::cli
