// POST /v1/chat/completions
#include "src/server/answer/output_fields.h"
#include "src/server/answer/tool_fields.h"
#include "src/server/http/url.h"
#include "src/server/routes/openai_common.h"

namespace gabbro::server {
namespace {

// The number of tokens by its two names; -1: the rest of the context.
int read_max_tokens(Fields& fields) {
  const auto given = fields.integer("max_completion_tokens", 0, kMostTokens);
  const auto old = fields.integer("max_tokens", -1, kMostTokens);
  return static_cast<int>(given.value_or(old.value_or(-1)));
}

void answer_chat_tokens(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const auto body = std::make_shared<RequestBody>(exchange->request());
  const OpenAiRequest request = read_openai_request(body->fields);
  refuse_unsupported(body->fields);
  service.with_model(
      exchange, request.model, request.keep_alive,
      [&service, exchange, body](ModelRegistry::LeaseHandle lease, double) {
        (*lease)->generator();
        const LoadedModel& model = (*lease)->model();
        Fields& fields = body->fields;
        const Json messages = with_modelfile(model, read_messages(fields));
        const RequestTools tools = prepare_tools(read_openai_tools(fields), model);
        const ChatPromptTokens prompt = render_chat(model, messages, read_template_variables(fields), tools.shown);
        fields.ignore({"max_tokens", "max_completion_tokens", "response_format", "temperature"});
        service.note_unknown(fields);
        respond_json(*exchange, {{"object", "response.input_tokens"}, {"input_tokens", prompt.tokens.size()}});
      });
}

void answer_chat(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const auto body = std::make_shared<RequestBody>(exchange->request());
  const OpenAiRequest request = read_openai_request(body->fields);
  refuse_unsupported(body->fields);
  service.with_model(exchange, request.model, request.keep_alive,
                     [&service, exchange, body, request](ModelRegistry::LeaseHandle lease, double load_seconds) {
                       const LoadedModel& model = (*lease)->model();
                       const ModelFacts& facts = (*lease)->generator().facts();
                       Fields& fields = body->fields;
                       const Json messages = with_modelfile(model, read_messages(fields));
                       RequestTools tools = prepare_tools(read_openai_tools(fields), model);
                       const Json variables = read_template_variables(fields);
                       GenerateOptions options = read_openai_sampling(fields, model);
                       options.max_tokens = read_max_tokens(fields);
                       options.sampler.top_logprobs = read_top_logprobs(fields);
                       check_min_tokens(fields, options);
                       OutputFormat format = answer_format(read_output_format(fields, model), tools, model);
                       service.note_unknown(fields);
                       const ChatPromptTokens prompt = render_chat(model, messages, variables, tools.shown);
                       check_length(prompt.tokens.size(), facts.context);
                       AnswerRequest answer{
                           .streams = request.streams,
                           .thoughts = apply_output_format(std::move(format), prompt, tools.reading.format, options),
                           .calls = std::move(tools.reading),
                           .load_seconds = load_seconds};
                       add_choices(answer, prompt.tokens, options, request);
                       answer.writer = make_openai_writer({.is_chat = true,
                                                           .id = random_id("chatcmpl-"),
                                                           .model = (*lease)->entry().id,
                                                           .created = unix_time(),
                                                           .fingerprint = fingerprint_of(service, model),
                                                           .includes_usage = request.includes_usage,
                                                           .scored_by = scored_by(model, options),
                                                           .has_function_call = tools.is_old_form},
                                                          answer.requests.size());
                       service.start(exchange, std::move(lease), std::move(answer));
                     });
}

}  // namespace

void add_openai_chat(Router& router) {
  for (const char* const path : {"/v1/chat/completions", "/chat/completions"})
    router.add({"POST", path, "The answer to a conversation", answer_chat});
  router.add({"POST", "/v1/chat/completions/input_tokens", "The tokens of a conversation", answer_chat_tokens});
}

}  // namespace gabbro::server
