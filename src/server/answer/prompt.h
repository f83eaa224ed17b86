// From the messages of a request to the tokens of a prompt.
#pragma once

#include <vector>

#include "src/server/json/request_json.h"
#include "src/server/models/model_source.h"
#include "src/text/chat/thoughts.h"

namespace gabbro::server {

using text::ThoughtForm;

struct ChatPromptTokens {
  std::vector<int32_t> tokens;
  std::string text;            // as the template made it
  bool thoughts_open = false;  // it ends with an open tag of thoughts
  ThoughtForm thoughts{};      // of the template
  int thought_budget = -1;     // tokens; -1: no limit
};

// The messages of OpenAI or Ollama in the form that templates read: content as one text, "developer" as "system".
// Throws ApiError that names the message and the field.
Json read_messages(Fields& fields);

// The texts of a list of parts, joined. Throws ApiError that names `path`, also for parts that are not text.
std::string text_of_parts(const Json& parts, const std::string& path);

// The arguments of a call as an object. Text that is not an object of JSON is kept under the name "arguments".
Json arguments_object(const std::string& text);

// Adds what a Modelfile says: its system message where `messages` have none, and its messages before them.
Json with_modelfile(const LoadedModel& model, Json messages);

// Fields that a template reads: reasoning_effort, thinking_budget, chat_template_kwargs, think.
Json read_template_variables(Fields& fields);

// `tools`: as templates take them; null: none. `prefill`: text that begins the answer. Throws ApiError where the model
// has no template, or the template refuses the messages.
ChatPromptTokens render_chat(const LoadedModel& model, const Json& messages, const Json& variables,
                             const Json& tools = nullptr, const std::string& prefill = {});

// The tokens before a text between two texts. Throws ApiError 400 that names `field` where the model has none for it.
std::vector<int32_t> fill_in_prompt(const text::Tokenizer& tokenizer, const std::string& before,
                                    const std::string& after, const std::string& field);

// Throws ApiError 400 context_length_exceeded for a prompt that leaves no room in `context` tokens.
void check_length(size_t prompt_tokens, int64_t context);

// Token ids of a JSON array. Throws ApiError that names `field`.
std::vector<int32_t> read_token_ids(const Json& ids, const std::string& field, int64_t vocabulary);

}  // namespace gabbro::server
