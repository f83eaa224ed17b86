// POST /v1/messages, /v1/messages/count_tokens
#include "src/server/answer/anthropic_fields.h"
#include "src/server/answer/anthropic_writer.h"
#include "src/server/answer/output_fields.h"
#include "src/server/answer/tool_fields.h"
#include "src/server/http/url.h"
#include "src/server/routes/openai_common.h"

namespace gabbro::server {
namespace {

struct AnthropicPrompt {
  ChatPromptTokens tokens;
  RequestTools tools;
};

AnthropicPrompt read_anthropic_prompt(Fields& fields, const LoadedModel& model) {
  AnthropicMessages given = read_anthropic_messages(fields);
  const Json messages = with_modelfile(model, std::move(given.messages));
  AnthropicPrompt prompt{.tokens = {}, .tools = prepare_tools(read_anthropic_tools(fields), model)};
  prompt.tokens = render_chat(model, messages, read_anthropic_variables(fields), prompt.tools.shown, given.prefill);
  return prompt;
}

void ignore_without_effect(Fields& fields) {
  fields.ignore(
      {"metadata", "service_tier", "cache_control", "inference_geo", "context_management", "stream", "speed", "betas"});
  for (const char* const name : {"container", "mcp_servers"}) {
    if (const Json* const given = fields.find(name); given != nullptr && !given->empty())
      throw unsupported(name, "is not supported");
  }
}

void answer_messages(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const auto body = std::make_shared<RequestBody>(exchange->request());
  const std::string name = body->fields.text("model").value_or("");
  const bool streams = body->fields.boolean_or("stream", false);
  const auto most = body->fields.integer("max_tokens", 1, kMostTokens);
  if (!most) throw ApiError(400, "max_tokens: is required", "missing_required_parameter", "max_tokens");
  service.with_model(exchange, name, {},
                     [&service, exchange, body, streams, most](ModelRegistry::LeaseHandle lease, double load_seconds) {
                       const LoadedModel& model = (*lease)->model();
                       const ModelFacts& facts = (*lease)->generator().facts();
                       Fields& fields = body->fields;
                       GenerateOptions options = read_openai_sampling(fields, model);
                       read_stops(fields, "stop_sequences", options.stop);
                       options.max_tokens = static_cast<int>(*most);
                       check_min_tokens(fields, options);
                       AnthropicPrompt prompt = read_anthropic_prompt(fields, model);
                       OutputFormat format = answer_format(read_anthropic_format(fields, model), prompt.tools, model);
                       ignore_without_effect(fields);
                       service.note_unknown(fields);
                       check_length(prompt.tokens.tokens.size(), facts.context);
                       AnswerRequest answer{.streams = streams,
                                            .thoughts = apply_output_format(std::move(format), prompt.tokens,
                                                                            prompt.tools.reading.format, options),
                                            .calls = std::move(prompt.tools.reading),
                                            .load_seconds = load_seconds};
                       answer.writer = make_anthropic_writer({.id = random_id("msg_"),
                                                              .model = (*lease)->entry().id,
                                                              .prompt_tokens = std::ssize(prompt.tokens.tokens),
                                                              .request_id = exchange->request().id});
                       answer.requests.push_back({.prompt = std::move(prompt.tokens.tokens), .options = options});
                       service.start(exchange, std::move(lease), std::move(answer));
                     });
}

void answer_count_tokens(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const auto body = std::make_shared<RequestBody>(exchange->request());
  const std::string name = body->fields.text("model").value_or("");
  service.with_model(exchange, name, {}, [&service, exchange, body](ModelRegistry::LeaseHandle lease, double) {
    Fields& fields = body->fields;
    (*lease)->generator();
    const AnthropicPrompt prompt = read_anthropic_prompt(fields, (*lease)->model());
    fields.ignore({"max_tokens", "temperature", "top_p", "top_k", "stop_sequences"});
    ignore_without_effect(fields);
    service.note_unknown(fields);
    respond_json(*exchange, {{"input_tokens", prompt.tokens.tokens.size()}});
  });
}

}  // namespace

void add_anthropic(Router& router) {
  router.add({"POST", "/v1/messages", "The answer to a conversation, as Anthropic has it", answer_messages});
  router.add({"POST", "/v1/messages/count_tokens", "The tokens of a conversation", answer_count_tokens});
}

}  // namespace gabbro::server
