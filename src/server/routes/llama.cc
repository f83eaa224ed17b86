// POST /completion, /infill: llama.cpp's dialect
#include <fmt/format.h>

#include <algorithm>

#include "src/server/answer/llama_writer.h"
#include "src/server/answer/output_fields.h"
#include "src/server/routes/openai_common.h"
#include "src/text/special/fill_in.h"

namespace gabbro::server {
namespace {

constexpr size_t kMostFields = 64, kMostFiles = 1'000;

// Text, token ids, or a list of both.
std::vector<int32_t> read_llama_prompt(Fields& fields, const text::Tokenizer& tokenizer) {
  const text::EncodeOptions whole{.add_special = true, .parse_special = true};
  const Json* const given = fields.find("prompt");
  if (given == nullptr) throw ApiError(400, "prompt: is required", "missing_required_parameter", "prompt");
  std::vector<int32_t> tokens;
  if (given->is_string()) {
    tokens = tokenizer.encode(given->get_ref<const std::string&>(), whole);
  } else {
    const Json* const parts = fields.array("prompt", static_cast<size_t>(kMostTokens));
    if (parts->size() > 1 && std::ranges::all_of(*parts, [](const Json& part) { return part.is_string(); }))
      throw unsupported("prompt", "several prompts in one request are not supported");
    for (const Json& part : *parts) {
      const bool is_first = &part == &parts->front();
      const std::vector<int32_t> more =
          part.is_string()
              ? tokenizer.encode(part.get_ref<const std::string&>(), {.add_special = is_first, .parse_special = true})
              : read_token_ids(Json::array({part}), "prompt", tokenizer.size());
      tokens.insert(tokens.end(), more.begin(), more.end());
    }
  }
  if (tokens.empty()) throw invalid_field("prompt", "is empty, and the model has no token that begins a text");
  return tokens;
}

std::vector<int32_t> read_infill_prompt(Fields& fields, const text::Tokenizer& tokenizer) {
  if (!text::fill_in_tokens(tokenizer).are_known())
    throw ApiError(400, "the model has no tokens for text between two texts", "unsupported_model", "model");
  const std::string before = fields.text("input_prefix").value_or("") + fields.text("prompt").value_or("");
  const std::string after = fields.text("input_suffix").value_or("");
  std::vector<std::pair<std::string, std::string>> files;
  const Json* const extra = fields.array("input_extra", kMostFiles);
  for (size_t i = 0; extra != nullptr && i < extra->size(); ++i) {
    Fields file((*extra)[i], fmt::format("input_extra[{}]", i));
    std::string text = file.required_text("text");  // before the name, which may be missing
    files.emplace_back(file.text("filename").value_or("file"), std::move(text));
  }
  text::FillInText parts{.before = before, .after = after, .files = {}};
  for (const auto& [name, text] : files) parts.files.emplace_back(name, text);
  return text::fill_in_prompt(tokenizer, parts);
}

GenerateOptions read_llama_options(Fields& fields, const LoadedModel& model) {
  GenerateOptions options = read_sampling(fields, model, llama_defaults(model));
  const auto count = fields.integer("n_predict", -2, kMostTokens);
  const auto other = fields.integer("max_tokens", -1, kMostTokens);
  options.max_tokens = static_cast<int>(std::max<int64_t>(-1, count.value_or(other.value_or(-1))));
  if (const auto top = fields.integer("n_probs", 0, kMostTopLogprobs); top && *top > 0)
    options.sampler.top_logprobs = static_cast<int>(*top);
  check_min_tokens(fields, options);
  options.format = read_output_format(fields, model);
  // Limits of time and the order of the samplers have no effect; there are no slots.
  fields.ignore({"cache_prompt", "id_slot", "samplers", "t_max_predict_ms", "t_max_prompt_ms", "n_indent", "n_keep",
                 "n_discard", "n_cache_reuse", "post_sampling_probs", "timings_per_token", "return_progress", "stream",
                 "min_keep", "lora", "user"});
  return options;
}

Json settings_of(const GenerateOptions& options) {
  Json settings = sampler_values(options.sampler);
  settings["seed"] = options.sampler.seed;
  settings["n_predict"] = options.max_tokens;
  settings["stop"] = options.stop;
  settings["ignore_eos"] = options.ignore_end;
  settings["n_probs"] = std::max(0, options.sampler.top_logprobs);
  return settings;
}

void answer_llama(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const auto body = std::make_shared<RequestBody>(exchange->request());
  const std::string name = body->fields.text("model").value_or("");
  const bool streams = body->fields.boolean_or("stream", false);
  service.with_model(
      exchange, name, {}, [&service, exchange, body, streams](ModelRegistry::LeaseHandle lease, double load_seconds) {
        const LoadedModel& model = (*lease)->model();
        const ModelFacts& facts = (*lease)->generator().facts();
        const text::Tokenizer& tokenizer = model.generator->tokenizer();
        Fields& fields = body->fields;
        const bool fills_in = exchange->request().path == "/infill";
        std::vector<int32_t> prompt =
            fills_in ? read_infill_prompt(fields, tokenizer) : read_llama_prompt(fields, tokenizer);
        const GenerateOptions options = read_llama_options(fields, model);
        LlamaForm form{.model = (*lease)->entry().id,
                       .prompt = tokenizer.decode(prompt, {.show_control = true}),
                       .settings = settings_of(options),
                       .returns_tokens = fields.boolean_or("return_tokens", false),
                       .fields = fields.texts("response_fields", kMostFields).value_or(std::vector<std::string>()),
                       .scored_by = scored_by(model, options)};
        service.note_unknown(fields);
        check_length(prompt.size(), facts.context);
        AnswerRequest answer{.streams = streams, .load_seconds = load_seconds};
        answer.requests.push_back({.prompt = std::move(prompt), .options = options});
        answer.writer = make_llama_writer(std::move(form));
        service.start(exchange, std::move(lease), std::move(answer));
      });
}

}  // namespace

void add_llama(Router& router) {
  router.add({"POST", "/completion", "The continuation of a text, as llama.cpp has it", answer_llama});
  router.add({"POST", "/infill", "The text between two texts", answer_llama});
}

}  // namespace gabbro::server
