// POST /tokenize, /detokenize, /apply-template and GET /props.
#include <fmt/format.h>

#include "src/server/answer/prompt.h"
#include "src/server/answer/tool_fields.h"
#include "src/server/routes/openai_common.h"
#include "src/text/chat/chat_template.h"
#include "src/text/tokenizer.h"
#include "src/text/unicode/utf8_stream.h"

namespace gabbro::server {
namespace {

const text::Tokenizer& tokenizer_of(const ModelRunner& runner) {
  if (runner.model().generator != nullptr) return runner.model().generator->tokenizer();
  if (runner.model().tokenizer == nullptr)
    throw ApiError(400, "the model has no tokenizer", "unsupported_model", "model");
  return *runner.model().tokenizer;
}

// The prompt that chat completions make of the messages and tools.
ChatPromptTokens render_request(const ModelRunner& runner, Fields& fields) {
  const Json messages = with_modelfile(runner.model(), read_messages(fields));
  const RequestTools tools = prepare_tools(read_openai_tools(fields), runner.model());
  return render_chat(runner.model(), messages, read_template_variables(fields), tools.shown);
}

// A token that is not UTF-8 is an array of bytes.
Json piece_json(std::string_view piece) {
  text::Utf8Stream characters;
  const std::string text = characters.push(piece) + characters.flush();
  if (text == piece) return text;
  Json bytes = Json::array();
  for (const char c : piece) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

// llama.cpp's form has "content", vLLM's "prompt" or "messages".
void answer_tokenize(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const auto body = std::make_shared<RequestBody>(exchange->request());
  const std::string name = body->fields.text("model").value_or("");
  service.with_model(exchange, name, {}, [exchange, body](ModelRegistry::LeaseHandle lease, double) {
    Fields& fields = body->fields;
    const text::Tokenizer& tokenizer = tokenizer_of(**lease);
    const bool is_vllm = !fields.has("content");
    const bool adds = fields.boolean_or(is_vllm ? "add_special_tokens" : "add_special", is_vllm);
    std::vector<int32_t> tokens;
    if (is_vllm && fields.has("messages")) {
      (*lease)->generator();
      tokens = render_request(**lease, fields).tokens;
    } else {
      const std::string text = fields.required_text(is_vllm && fields.has("prompt") ? "prompt" : "content");
      tokens = tokenizer.encode(text, {.add_special = adds, .parse_special = fields.boolean_or("parse_special", true)});
    }
    const auto& generator = (*lease)->model().generator;
    if (is_vllm) {
      const int64_t context =
          generator != nullptr ? generator->facts().context : (*lease)->encoder().facts().most_tokens;
      return respond_json(*exchange, {{"count", tokens.size()}, {"max_model_len", context}, {"tokens", tokens}});
    }
    if (!fields.boolean_or("with_pieces", false)) return respond_json(*exchange, {{"tokens", tokens}});
    Json rows = Json::array();
    for (const int32_t token : tokens) rows.push_back({{"id", token}, {"piece", piece_json(tokenizer.piece(token))}});
    respond_json(*exchange, {{"tokens", std::move(rows)}});
  });
}

void answer_detokenize(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const auto body = std::make_shared<RequestBody>(exchange->request());
  const std::string name = body->fields.text("model").value_or("");
  service.with_model(exchange, name, {}, [exchange, body](ModelRegistry::LeaseHandle lease, double) {
    Fields& fields = body->fields;
    const text::Tokenizer& tokenizer = tokenizer_of(**lease);
    const Json* const ids = fields.array("tokens", static_cast<size_t>(kMostTokens));
    if (ids == nullptr) throw ApiError(400, "tokens: is required", "missing_required_parameter", "tokens");
    text::Utf8Stream characters;
    const std::string bytes = tokenizer.decode(read_token_ids(*ids, "tokens", tokenizer.size()),
                                               {.remove_special = false, .show_control = true});
    const std::string text = characters.push(bytes) + characters.flush();
    respond_json(*exchange, {{"content", text}, {"prompt", text}});
  });
}

void answer_template(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const auto body = std::make_shared<RequestBody>(exchange->request());
  const std::string name = body->fields.text("model").value_or("");
  service.with_model(exchange, name, {}, [exchange, body](ModelRegistry::LeaseHandle lease, double) {
    Fields& fields = body->fields;
    (*lease)->generator();
    respond_json(*exchange, {{"prompt", render_request(**lease, fields).text}});
  });
}

void answer_props(Service& service, const std::shared_ptr<Exchange>& exchange) {
  service.with_model(exchange, "", {}, [&service, exchange](ModelRegistry::LeaseHandle lease, double) {
    const ModelFacts& facts = (*lease)->generator().facts();
    const SamplerOptions sampler = openai_defaults((*lease)->model());
    const text::ChatTemplate* const used = (*lease)->generator().chat_template();
    respond_json(*exchange,
                 {{"default_generation_settings", {{"n_ctx", facts.context}, {"params", sampler_values(sampler)}}},
                  {"total_slots", facts.sequences},
                  {"model_path", (*lease)->entry().id},
                  {"chat_template", used != nullptr ? used->source() : ""},
                  {"modalities", {{"vision", false}, {"audio", false}}},
                  {"build_info", "gabbro " + service.options().version},
                  {"is_sleeping", false}});
  });
}

}  // namespace

void add_tokens(Router& router) {
  for (const char* const path : {"/tokenize", "/v1/tokenize"})
    router.add({"POST", path, "A text as tokens", answer_tokenize});
  for (const char* const path : {"/detokenize", "/v1/detokenize"})
    router.add({"POST", path, "Tokens as a text", answer_detokenize});
  router.add({"POST", "/apply-template", "Messages as the text of a prompt", answer_template});
  router.add({"GET", "/props", "Settings of the only loaded model", answer_props});
}

}  // namespace gabbro::server
