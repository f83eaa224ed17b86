// Messages as the tokens of a prompt: by a chat template, or in raw mode in sequence.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "apps/cli/options.h"
#include "src/engine/model_service.h"
#include "src/text/chat/chat_template.h"

namespace gabbro::cli {

class PromptEncoder {
 public:
  // Uses options.chat_template, else the model's own, unless options.raw or neither exists. `note` gets a line,
  // once, for each change to fit the template.
  PromptEncoder(std::shared_ptr<ModelService> model, const GenerationOptions& options,
                std::function<void(const std::string&)> note);

  bool uses_template() const { return chat_template_ != nullptr; }
  const text::ChatTemplate* tool_template() const;  // the one of conversations with tools; null: none

  // Tools are described in a system message: for templates that teach no form of calls.
  void describe_tools() { generic_tools_ = true; }
  // `messages`: [{"role", "content"}]; `tools`: a list for the template, or null. Throws bad_input where the template
  // refuses them or drops the user's text.
  std::vector<int32_t> encode(const nlohmann::ordered_json& messages, const nlohmann::ordered_json& tools = nullptr);
  bool opens_thoughts() const { return opens_thoughts_; }  // the last prompt ended with the open tag of thoughts

 private:
  std::shared_ptr<ModelService> model_;
  std::function<void(const std::string&)> note_;
  bool parse_special_;
  bool opens_thoughts_ = false, generic_tools_ = false;
  std::set<std::string> noted_;
  std::unique_ptr<const text::ChatTemplate> own_template_;
  const text::ChatTemplate* chat_template_ = nullptr;
  nlohmann::ordered_json variables_;
};

}  // namespace gabbro::cli
