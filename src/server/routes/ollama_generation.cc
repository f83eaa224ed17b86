// POST /api/chat, /api/generate, /api/embed, /api/embeddings
#include <fmt/format.h>

#include <algorithm>

#include "src/server/answer/ollama_writer.h"
#include "src/server/answer/output_fields.h"
#include "src/server/answer/tool_fields.h"
#include "src/server/answer/vectors.h"
#include "src/server/routes/openai_common.h"
#include "src/text/tokenizer.h"

namespace gabbro::server {
namespace {

constexpr size_t kMostTexts = 2048;

struct OllamaRequest {
  std::string model;
  bool streams = true;
  std::optional<KeepAlive> keep_alive{};
  bool is_chat = true;
  bool thinks = true;     // thoughts are separate from the text
  int top_logprobs = -1;  // as SamplerOptions has it
};

OllamaRequest read_ollama_request(Fields& fields, bool is_chat) {
  OllamaRequest request;
  request.is_chat = is_chat;
  request.model = fields.required_text("model");
  request.streams = fields.boolean_or("stream", true);
  request.keep_alive = read_keep_alive(fields, "keep_alive");
  if (const Json* const images = fields.array("images", 64); images != nullptr && !images->empty())
    throw unsupported("images", "images are not supported");
  request.top_logprobs = read_top_logprobs(fields);
  fields.ignore({"truncate", "shift", "format"});  // start_ollama() reads the format
  return request;
}

// Fields of a request without a prompt have no effect, but their types are checked.
void check_unused_fields(Fields& fields) {
  read_template_variables(fields);
  read_ollama_tools(fields);
  fields.object("options");
  fields.boolean("raw");
  for (const char* const name : {"system", "template", "suffix"}) fields.text(name);
  fields.array("context", static_cast<size_t>(kMostTokens));
}

// Answers a request without a prompt: it loads the model, or with keep_alive 0 unloads it.
void only_loads(Service& service, const std::shared_ptr<Exchange>& exchange, const std::shared_ptr<RequestBody>& body,
                const OllamaRequest& request) {
  if (request.keep_alive && request.keep_alive->count() == 0) {
    const ModelEntry entry = service.models().find(request.model);
    service.models().unload(entry.id);
    respond_json(*exchange, ollama_load_answer({.is_chat = request.is_chat, .model = request.model}, "unload"));
    return;
  }
  service.with_model(
      exchange, request.model, request.keep_alive, [exchange, body, request](ModelRegistry::LeaseHandle lease, double) {
        (*lease)->generator();
        Fields& fields = body->fields;
        int64_t context = 0;
        read_ollama_options(fields.object("options"), (*lease)->model(), context);
        respond_json(*exchange, ollama_load_answer({.is_chat = request.is_chat, .model = request.model}, "load"));
      });
}

void start_ollama(Service& service, const std::shared_ptr<Exchange>& exchange, ModelRegistry::LeaseHandle lease,
                  const OllamaRequest& request, Fields& fields, ChatPromptTokens prompt, RequestTools tools,
                  double load_seconds) {
  int64_t limit = 0;
  GenerateOptions options = read_ollama_options(fields.object("options"), (*lease)->model(), limit);
  options.sampler.top_logprobs = request.top_logprobs;
  const LoadedModel& model = (*lease)->model();
  OutputFormat format = answer_format(read_ollama_format(fields, model), tools, model);
  service.note_unknown(fields);
  const int64_t context = (*lease)->generator().facts().context;
  limit = limit > 0 ? std::min(limit, context) : context;
  check_length(prompt.tokens.size(), limit);
  // num_ctx bounds prompt and answer; the model is never loaded again for it.
  const auto room = static_cast<int>(limit - std::ssize(prompt.tokens) + 1);
  if (limit < context) options.max_tokens = options.max_tokens < 0 ? room : std::min(options.max_tokens, room);
  AnswerRequest answer{.streams = request.streams, .load_seconds = load_seconds};
  const ThoughtReading thoughts = apply_output_format(std::move(format), prompt, tools.reading.format, options);
  answer.calls = std::move(tools.reading);
  if (request.is_chat || prompt.thoughts_open || !prompt.text.empty()) answer.thoughts = thoughts;
  const text::Tokenizer* const scores = scored_by((*lease)->model(), options);
  answer.requests.push_back({.prompt = prompt.tokens, .options = options});
  answer.writer = make_ollama_writer(
      {.is_chat = request.is_chat, .model = request.model, .prompt = std::move(prompt.tokens), .scored_by = scores});
  service.start(exchange, std::move(lease), std::move(answer));
}

void answer_ollama_chat(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const auto body = std::make_shared<RequestBody>(exchange->request());
  Fields& fields = body->fields;
  const OllamaRequest request = read_ollama_request(fields, true);
  if (const Json* const messages = fields.array("messages", SIZE_MAX); messages == nullptr || messages->empty()) {
    check_unused_fields(fields);
    only_loads(service, exchange, body, request);
    return;
  }
  service.with_model(exchange, request.model, request.keep_alive,
                     [&service, exchange, body, request](ModelRegistry::LeaseHandle lease, double load_seconds) {
                       Fields& fields = body->fields;
                       (*lease)->generator();
                       const Json messages = with_modelfile((*lease)->model(), read_messages(fields));
                       RequestTools tools = prepare_tools(read_ollama_tools(fields), (*lease)->model());
                       ChatPromptTokens prompt =
                           render_chat((*lease)->model(), messages, read_template_variables(fields), tools.shown);
                       start_ollama(service, exchange, std::move(lease), request, fields, std::move(prompt),
                                    std::move(tools), load_seconds);
                     });
}

// "raw": the unchanged prompt. Otherwise one user message in the template, after the tokens of "context".
ChatPromptTokens generate_prompt(const LoadedModel& model, Fields& fields) {
  const std::string prompt = fields.text("prompt").value_or("");
  const std::string system = fields.text("system").value_or("");
  if (const auto given = fields.text("template"); given && !given->empty())
    throw unsupported("template", "templates of requests are not supported");
  const text::Tokenizer& tokenizer = model.generator->tokenizer();
  ChatPromptTokens result;
  const Json variables = read_template_variables(fields);
  const auto suffix = fields.text("suffix");
  if (suffix && !suffix->empty()) {
    result.tokens = fill_in_prompt(tokenizer, prompt, *suffix, "suffix");
    fields.ignore({"raw", "context"});
    return result;
  }
  const bool is_raw = fields.boolean_or("raw", false) || model.generator->chat_template() == nullptr;
  const Json* const context = fields.array("context", static_cast<size_t>(kMostTokens));
  if (is_raw) {
    result.tokens = tokenizer.encode(prompt, {.add_special = true, .parse_special = true});
  } else {
    Json messages = Json::array();
    if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
    messages.push_back({{"role", "user"}, {"content", prompt}});
    result = render_chat(model, with_modelfile(model, std::move(messages)), variables);
  }
  if (context != nullptr && !context->empty()) {
    std::vector<int32_t> tokens = read_token_ids(*context, "context", tokenizer.size());
    auto begin = result.tokens.begin();
    if (!result.tokens.empty() && *begin == tokenizer.bos()) ++begin;
    tokens.insert(tokens.end(), begin, result.tokens.end());
    result.tokens = std::move(tokens);
  }
  return result;
}

void answer_ollama_generate(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const auto body = std::make_shared<RequestBody>(exchange->request());
  Fields& fields = body->fields;
  const OllamaRequest request = read_ollama_request(fields, false);
  if (fields.text("prompt").value_or("").empty()) {
    check_unused_fields(fields);
    only_loads(service, exchange, body, request);
    return;
  }
  service.with_model(exchange, request.model, request.keep_alive,
                     [&service, exchange, body, request](ModelRegistry::LeaseHandle lease, double load_seconds) {
                       Fields& fields = body->fields;
                       (*lease)->generator();
                       ChatPromptTokens prompt = generate_prompt((*lease)->model(), fields);
                       start_ollama(service, exchange, std::move(lease), request, fields, std::move(prompt), {},
                                    load_seconds);
                     });
}

void answer_ollama_embed(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const Json body = body_of(exchange->request());
  Fields fields(body);
  const std::string name = fields.required_text("model");
  const bool is_old = exchange->request().path == "/api/embeddings";
  EmbedWork work;
  const auto texts = fields.texts(is_old ? "prompt" : "input", kMostTexts);
  if (!texts) throw ApiError(400, is_old ? "prompt: is required" : "input: is required", "missing_required_parameter");
  work.texts = *texts;
  work.options.truncated = fields.boolean_or("truncate", true);
  work.options.dimensions = fields.integer("dimensions", 0, kMostDimensions).value_or(0);
  if (!is_old) work.options.normalized = true;
  const auto keep_alive = read_keep_alive(fields, "keep_alive");
  fields.ignore({"options"});
  service.note_unknown(fields);
  service.with_model(
      exchange, name, keep_alive,
      [&service, exchange, name, work, is_old](ModelRegistry::LeaseHandle lease, double load_seconds) {
        embed(service, exchange, std::move(lease), work,
              [exchange, name, is_old, load_seconds](const EncodedTexts& result) {
                if (is_old) return respond_json(*exchange, {{"embedding", result.values}});
                Json rows = Json::array();
                for (size_t at = 0; at < result.values.size(); at += result.width)
                  rows.push_back(std::vector<float>(result.values.begin() + static_cast<ptrdiff_t>(at),
                                                    result.values.begin() + static_cast<ptrdiff_t>(at + result.width)));
                respond_json(*exchange, {{"model", name},
                                         {"embeddings", std::move(rows)},
                                         {"total_duration", nanoseconds(load_seconds + result.seconds)},
                                         {"load_duration", nanoseconds(load_seconds)},
                                         {"prompt_eval_count", result.tokens}});
              });
      });
}

}  // namespace

void add_ollama_generation(Router& router) {
  router.add({"POST", "/api/chat", "The answer to a conversation", answer_ollama_chat});
  router.add({"POST", "/api/generate", "The answer to a prompt", answer_ollama_generate});
  router.add({"POST", "/api/embed", "Vectors of texts", answer_ollama_embed});
  router.add({"POST", "/api/embeddings", "The vector of a text", answer_ollama_embed});
}

}  // namespace gabbro::server
