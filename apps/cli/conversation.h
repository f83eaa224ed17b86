// A chat with one model, or in raw mode one growing text: what was said, as the prompt of what comes next.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/cli/prompt_encoder.h"
#include "gabbro/engine/generate.h"
#include "src/engine/model_service.h"

namespace gabbro::cli {

class Conversation {
 public:
  // Uses options.chat_template, else the model's own, unless options.raw or neither exists. `note` gets a line for
  // the user about each change to fit template and context.
  Conversation(std::shared_ptr<ModelService> model, const GenerationOptions& options,
               std::function<void(const std::string&)> note);

  // The model's answer to `text`; both become part of the conversation. All channels of gpt-oss are shown, the ones
  // before the answer with their name, and the final one is the answer. If the context is too short for all of it, the
  // oldest turns are left out; the system message stays. An exception leaves the conversation unchanged.
  GenerateResult say(const std::string& text, const std::function<void(std::string_view)>& on_text,
                     const std::atomic<bool>* cancel);

  void reset();

  // Settings of the next answers. The system message of the conversation is replaced.
  const GenerationOptions& options() const { return options_; }
  void set_generation(const GenerationOptions& options) { options_ = options; }
  void set_system(const std::string& text);

  bool uses_template() const { return encoder_.uses_template(); }
  const nlohmann::ordered_json& messages() const { return messages_; }  // [{"role", "content"}], the whole conversation

 private:
  nlohmann::ordered_json kept_messages() const;
  std::vector<int32_t> fitting_prompt();
  size_t next_turn() const;

  std::shared_ptr<ModelService> model_;
  GenerationOptions options_;
  std::function<void(const std::string&)> note_;
  PromptEncoder encoder_;
  nlohmann::ordered_json messages_;
  size_t first_ = 0;  // the oldest message that is still in the prompt, but for the system's
};

// Why an answer ended before the model had finished it, in one line; empty where it had.
std::string describe_cut(const GenerateResult& result, const GenerateOptions& options, const ModelFacts& facts);

}  // namespace gabbro::cli
