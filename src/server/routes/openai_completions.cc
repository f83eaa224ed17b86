// POST /v1/completions
#include <fmt/format.h>

#include <algorithm>

#include "src/server/answer/output_fields.h"
#include "src/server/http/url.h"
#include "src/server/routes/openai_common.h"
#include "src/text/tokenizer.h"

namespace gabbro::server {
namespace {

constexpr size_t kMostPrompts = 128;
constexpr int64_t kDefaultTokens = 16;

struct TextPrompt {
  std::vector<int32_t> tokens;
  std::string text;  // for echo
};

// `suffix`: text that follows the answer.
TextPrompt prompt_of_text(const text::Tokenizer& tokenizer, const std::string& text, const std::string& suffix) {
  if (!suffix.empty()) return {.tokens = fill_in_prompt(tokenizer, text, suffix, "suffix"), .text = text};
  TextPrompt prompt{.tokens = tokenizer.encode(text, {.add_special = true, .parse_special = true}), .text = text};
  while (!prompt.tokens.empty() && prompt.tokens.size() > 1 && prompt.tokens.back() == tokenizer.eos() &&
         tokenizer.adds_eos())
    prompt.tokens.pop_back();
  if (prompt.tokens.empty()) throw invalid_field("prompt", "is empty, and the model has no token that begins a text");
  return prompt;
}

TextPrompt prompt_of_ids(const text::Tokenizer& tokenizer, const Json& ids, int64_t vocabulary) {
  TextPrompt prompt{.tokens = read_token_ids(ids, "prompt", vocabulary), .text = ""};
  if (prompt.tokens.empty()) throw invalid_field("prompt", "is empty");
  prompt.text = tokenizer.decode(prompt.tokens);
  return prompt;
}

// A text, texts, token ids, or arrays of token ids.
std::vector<TextPrompt> read_prompts(Fields& fields, const LoadedModel& model) {
  const text::Tokenizer& tokenizer = model.generator->tokenizer();
  const int64_t vocabulary = tokenizer.size();
  const Json* const given = fields.find("prompt");
  if (given == nullptr) throw ApiError(400, "prompt: is required", "missing_required_parameter", "prompt");
  const std::string suffix = fields.text("suffix").value_or("");
  const auto is_text = [](const Json& one) { return one.is_string(); };
  if (!suffix.empty() && !is_text(*given) && !std::ranges::all_of(*given, is_text))
    fields.refuse("suffix", "needs a prompt of text");
  if (given->is_string()) return {prompt_of_text(tokenizer, given->get<std::string>(), suffix)};
  if (!given->is_array())
    fields.refuse("prompt", fmt::format("expected a string or an array, got {}", kind_of(*given)));
  if (given->empty()) fields.refuse("prompt", "is empty");
  if ((*given)[0].is_number()) return {prompt_of_ids(tokenizer, *given, vocabulary)};
  if (given->size() > kMostPrompts) fields.refuse("prompt", fmt::format("has more than {} prompts", kMostPrompts));
  std::vector<TextPrompt> prompts;
  for (const Json& one : *given) {
    if (!one.is_string() && !one.is_array())
      fields.refuse("prompt", fmt::format("expected strings or arrays of token ids, got {}", kind_of(one)));
    prompts.push_back(one.is_string() ? prompt_of_text(tokenizer, one.get<std::string>(), suffix)
                                      : prompt_of_ids(tokenizer, one, vocabulary));
  }
  return prompts;
}

void refuse_of_completions(Fields& fields, const OpenAiRequest& request) {
  const bool has_scores = fields.integer("logprobs", 0, kMostCompletionLogprobs).has_value();
  if (has_scores && request.streams && fields.boolean_or("echo", false))
    throw unsupported("stream", "scores of an echo are not streamed");
  if (const auto best = fields.integer("best_of", 0, 20); best && *best > 1) {
    if (*best != request.choices) throw unsupported("best_of", "has to be n");
  }
}

void answer_completions(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const auto body = std::make_shared<RequestBody>(exchange->request());
  const OpenAiRequest request = read_openai_request(body->fields);
  refuse_of_completions(body->fields, request);
  service.with_model(exchange, request.model, request.keep_alive,
                     [&service, exchange, body, request](ModelRegistry::LeaseHandle lease, double load_seconds) {
                       const LoadedModel& model = (*lease)->model();
                       const ModelFacts& facts = (*lease)->generator().facts();
                       Fields& fields = body->fields;
                       GenerateOptions options = read_openai_sampling(fields, model);
                       options.max_tokens =
                           static_cast<int>(fields.integer("max_tokens", -1, kMostTokens).value_or(kDefaultTokens));
                       const bool echoes = fields.boolean_or("echo", false);
                       options.sampler.top_logprobs =
                           static_cast<int>(fields.integer("logprobs", 0, kMostCompletionLogprobs).value_or(-1));
                       options.scores_prompt = echoes && options.sampler.top_logprobs >= 0;
                       check_min_tokens(fields, options);
                       options.format = read_output_format(fields, model);
                       const std::vector<TextPrompt> prompts = read_prompts(fields, model);
                       fields.ignore({"user", "store", "metadata", "prediction", "cache_prompt", "id_slot",
                                      "stream_options", "skip_special_tokens", "service_tier"});
                       service.note_unknown(fields);
                       OpenAiForm form{.is_chat = false,
                                       .id = random_id("cmpl-"),
                                       .model = (*lease)->entry().id,
                                       .created = unix_time(),
                                       .fingerprint = fingerprint_of(service, model),
                                       .includes_usage = request.includes_usage,
                                       .scored_by = scored_by(model, options)};
                       AnswerRequest answer{.streams = request.streams, .load_seconds = load_seconds};
                       if (std::ssize(prompts) * request.choices > kMostChoices)
                         fields.refuse("n", fmt::format("more than {} texts in one answer", kMostChoices));
                       for (const TextPrompt& prompt : prompts) {
                         check_length(prompt.tokens.size(), facts.context);
                         add_choices(answer, prompt.tokens, options, request);
                         for (int64_t i = 0; echoes && i < request.choices; ++i) {
                           form.echos.push_back(prompt.text);
                           if (options.scores_prompt) form.echo_tokens.push_back(prompt.tokens);
                         }
                       }
                       const size_t choices = answer.requests.size();
                       answer.writer = make_openai_writer(std::move(form), choices);
                       service.start(exchange, std::move(lease), std::move(answer));
                     });
}

}  // namespace

void add_openai_completions(Router& router) {
  for (const char* const path : {"/v1/completions", "/completions"})
    router.add({"POST", path, "The continuation of a text", answer_completions});
}

}  // namespace gabbro::server
