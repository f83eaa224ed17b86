// A chat with one model, or in raw mode one growing text: what was said, as the prompt of what comes next.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/cli/prompt_encoder.h"
#include "apps/cli/run_tools.h"
#include "apps/cli/tool_answer.h"
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

  // As say(), after the results of calls: messages of the role "tool".
  GenerateResult go_on(const nlohmann::ordered_json& results, const std::function<void(std::string_view)>& on_text,
                       const std::atomic<bool>* cancel);

  // The model may call these tools. The text of an answer has no calls then; thoughts are apart in the conversation,
  // and are shown between their tags. Throws bad_input for a model without a chat template.
  void set_tools(const RunTools& tools);
  const std::vector<ModelCall>& calls() const { return calls_; }  // of the last answer

  void reset();

  // Settings of the next answers. The system message of the conversation is replaced.
  const GenerationOptions& options() const { return options_; }
  void set_generation(const GenerationOptions& options) { options_ = options; }
  void set_system(const std::string& text);

  bool uses_template() const { return encoder_.uses_template(); }
  const nlohmann::ordered_json& messages() const { return messages_; }  // [{"role", "content", ...}], all of them

 private:
  nlohmann::ordered_json kept_messages() const;
  std::vector<int32_t> fitting_prompt();
  size_t next_turn() const;
  GenerateResult answer(const nlohmann::ordered_json& messages, const std::function<void(std::string_view)>& on_text,
                        const std::atomic<bool>* cancel);
  GenerateResult generate_text(const std::function<void(std::string_view)>& on_text, const std::atomic<bool>* cancel);
  GenerateResult generate_with_tools(const GenerationRequest& request,
                                     const std::function<void(std::string_view)>& on_text,
                                     const std::atomic<bool>* cancel);

  std::shared_ptr<ModelService> model_;
  GenerationOptions options_;
  std::function<void(const std::string&)> note_;
  PromptEncoder encoder_;
  nlohmann::ordered_json messages_;
  text::ToolCallFormat call_format_ = text::ToolCallFormat::kNone;
  text::ThoughtForm thought_form_{};  // with tools
  std::string thought_;               // of the last answer with tools
  const RunTools* tools_ = nullptr;   // null: none
  std::vector<ModelCall> calls_;
  size_t call_count_ = 0;  // of all answers
  size_t first_ = 0;       // the oldest message that is still in the prompt, but for the system's
};

// Why an answer ended before the model had finished it, in one line; empty where it had.
std::string describe_cut(const GenerateResult& result, const GenerateOptions& options, const ModelFacts& facts);

}  // namespace gabbro::cli
