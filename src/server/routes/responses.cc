// POST /v1/responses, /v1/responses/input_tokens
#include <algorithm>

#include "src/server/answer/output_fields.h"
#include "src/server/answer/responses_fields.h"
#include "src/server/answer/responses_writer.h"
#include "src/server/answer/tool_fields.h"
#include "src/server/http/url.h"
#include "src/server/routes/openai_common.h"

namespace gabbro::server {
namespace {

struct ResponsesPrompt {
  ChatPromptTokens tokens;
  RequestTools tools;
};

ResponsesPrompt read_responses_prompt(Fields& fields, const LoadedModel& model) {
  const Json messages = with_modelfile(model, read_responses_messages(fields));
  ResponsesPrompt prompt{.tokens = {}, .tools = prepare_tools(read_responses_tools(fields), model)};
  prompt.tokens = render_chat(model, messages, read_responses_variables(fields), prompt.tools.shown);
  return prompt;
}

Json given_or(Fields& fields, const char* name, Json other) {
  const Json* const given = fields.find(name);
  return given != nullptr ? *given : std::move(other);
}

// Fields of the request that the answer repeats, and members that the model's text fills in later.
Json response_head(Fields& fields, const ModelEntry& entry, const GenerateOptions& options) {
  return {{"id", random_id("resp_")},
          {"object", "response"},
          {"created_at", unix_time()},
          {"status", "in_progress"},
          {"background", false},
          {"error", nullptr},
          {"incomplete_details", nullptr},
          {"instructions", given_or(fields, "instructions", nullptr)},
          {"max_output_tokens", given_or(fields, "max_output_tokens", nullptr)},
          {"metadata", given_or(fields, "metadata", Json::object())},
          {"model", entry.id},
          {"output", Json::array()},
          {"parallel_tool_calls", given_or(fields, "parallel_tool_calls", true)},
          {"previous_response_id", nullptr},
          {"reasoning", given_or(fields, "reasoning", {{"effort", nullptr}, {"summary", nullptr}})},
          {"store", false},
          {"temperature", options.sampler.temperature},
          {"text", given_or(fields, "text", {{"format", {{"type", "text"}}}})},
          {"tool_choice", given_or(fields, "tool_choice", "auto")},
          {"tools", given_or(fields, "tools", Json::array())},
          {"top_p", options.sampler.top_p},
          {"truncation", "disabled"},
          {"usage", nullptr}};
}

bool asks_for_thoughts(Fields& fields) {
  const Json* const include = fields.array("include", 64);
  return include != nullptr && std::ranges::find(*include, Json("reasoning.encrypted_content")) != include->end();
}

void answer_responses(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const auto body = std::make_shared<RequestBody>(exchange->request());
  const OpenAiRequest request = read_openai_request(body->fields);
  if (request.choices > 1) body->fields.refuse("n", "has to be 1");
  refuse_unsupported_responses(body->fields);
  service.with_model(
      exchange, request.model, request.keep_alive,
      [&service, exchange, body, request](ModelRegistry::LeaseHandle lease, double load_seconds) {
        const LoadedModel& model = (*lease)->model();
        const ModelFacts& facts = (*lease)->generator().facts();
        Fields& fields = body->fields;
        GenerateOptions options = read_openai_sampling(fields, model);
        options.max_tokens = static_cast<int>(fields.integer("max_output_tokens", 1, kMostTokens).value_or(-1));
        check_min_tokens(fields, options);
        ResponsesPrompt prompt = read_responses_prompt(fields, model);
        OutputFormat format = answer_format(read_responses_format(fields, model), prompt.tools, model);
        service.note_unknown(fields);
        check_length(prompt.tokens.tokens.size(), facts.context);
        AnswerRequest answer{
            .streams = request.streams,
            .thoughts = apply_output_format(std::move(format), prompt.tokens, prompt.tools.reading.format, options),
            .calls = std::move(prompt.tools.reading),
            .load_seconds = load_seconds};
        add_choices(answer, prompt.tokens.tokens, options, request);
        answer.writer = make_responses_writer({.response = response_head(fields, (*lease)->entry(), options),
                                               .gives_thoughts = asks_for_thoughts(fields),
                                               .tokenizer = &model.generator->tokenizer(),
                                               .custom_tools = std::move(prompt.tools.custom)});
        service.start(exchange, std::move(lease), std::move(answer));
      });
}

void answer_input_tokens(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const auto body = std::make_shared<RequestBody>(exchange->request());
  const std::string name = body->fields.text("model").value_or("");
  refuse_unsupported_responses(body->fields);
  service.with_model(exchange, name, {}, [&service, exchange, body](ModelRegistry::LeaseHandle lease, double) {
    Fields& fields = body->fields;
    (*lease)->generator();
    const ResponsesPrompt prompt = read_responses_prompt(fields, (*lease)->model());
    fields.ignore({"text"});
    service.note_unknown(fields);
    respond_json(*exchange, {{"object", "response.input_tokens"}, {"input_tokens", prompt.tokens.tokens.size()}});
  });
}

}  // namespace

void add_responses(Router& router) {
  for (const char* const path : {"/v1/responses", "/responses"})
    router.add({"POST", path, "The answer to a conversation, as items", answer_responses});
  router.add({"POST", "/v1/responses/input_tokens", "The tokens of a conversation", answer_input_tokens});
}

}  // namespace gabbro::server
