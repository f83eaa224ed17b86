#include "src/server/answer/llama_writer.h"

#include <algorithm>

#include "src/server/answer/openai_writer.h"
#include "src/server/answer/score_json.h"

namespace gabbro::server {
namespace {

const char* stop_type_of(StopReason reason) {
  switch (reason) {
    case StopReason::kEndOfGeneration:
      return "eos";
    case StopReason::kMaxTokens:
    case StopReason::kContextFull:
      return "limit";
    case StopReason::kStopText:
      return "word";
    case StopReason::kCanceled:
      return "none";
  }
  return "none";
}

// The members at these paths, by the last names of the paths. Paths that lead nowhere are left out.
Json selected(const Json& all, const std::vector<std::string>& paths) {
  Json made = Json::object();
  for (const std::string& path : paths) {
    const Json* at = &all;
    std::string name;
    for (size_t from = 0; at != nullptr && from <= path.size();) {
      const size_t slash = std::min(path.find('/', from), path.size());
      name = path.substr(from, slash - from);
      at = at->is_object() && at->contains(name) ? &(*at)[name] : nullptr;
      from = slash + 1;
    }
    if (at != nullptr) made[name] = *at;
  }
  return made;
}

std::string data_event(const Json& data) {
  return sse_event(data.dump(-1, ' ', false, Json::error_handler_t::replace));
}

class LlamaWriter final : public AnswerWriter {
 public:
  explicit LlamaWriter(LlamaForm form) : form_(std::move(form)) {}

  const char* content_type() const override { return "text/event-stream; charset=utf-8"; }

  std::string text(size_t, const AnswerPiece& piece, std::span<const TokenScore> scores) override {
    Json chunk = {{"index", 0}, {"content", piece.text}, {"tokens", Json::array()}, {"stop", false}, {"id_slot", -1}};
    add_scores(chunk, scores);
    return data_event(chunk);
  }

  std::string finished(size_t, const Choice&, std::span<const TokenScore> scores) override {
    last_scores_.assign(scores.begin(), scores.end());
    return {};
  }

  std::string end(const std::vector<Choice>& choices, const AnswerTotals& totals) override {
    return data_event(last(choices.front(), totals, "", last_scores_));
  }

  std::string failed(const ApiError& error) override { return data_event(error_json(error, Dialect::kOpenAi)); }
  std::string ping(size_t) override { return ": ping\n\n"; }

  Json whole(const std::vector<Choice>& choices, const AnswerTotals& totals) override {
    const Choice& choice = choices.front();
    return last(choice, totals, choice.text, choice.result.scores);
  }

 private:
  void add_scores(Json& target, std::span<const TokenScore> scores) const {
    if (form_.scored_by == nullptr || scores.empty()) return;
    Json rows = token_scores(*form_.scored_by, scores);
    for (size_t i = 0; i < scores.size(); ++i) {
      rows[i]["id"] = scores[i].token;
      for (size_t j = 0; j < scores[i].top.size(); ++j) rows[i]["top_logprobs"][j]["id"] = scores[i].top[j].first;
    }
    target["completion_probabilities"] = std::move(rows);
  }

  Json last(const Choice& choice, const AnswerTotals& totals, const std::string& content,
            std::span<const TokenScore> scores) const {
    const GenerateResult& result = choice.result;
    Json made = {{"index", 0},
                 {"content", content},
                 {"tokens", form_.returns_tokens ? Json(result.token_ids) : Json::array()},
                 {"id_slot", -1},
                 {"stop", true},
                 {"model", form_.model},
                 {"tokens_predicted", totals.generated_tokens},
                 {"tokens_evaluated", totals.prompt_tokens},
                 {"generation_settings", form_.settings},
                 {"prompt", form_.prompt},
                 {"has_new_line", choice.text.find('\n') != choice.text.npos},
                 {"truncated", false},
                 {"stop_type", stop_type_of(result.stop_reason)},
                 {"stopping_word", result.stop_text},
                 {"tokens_cached", totals.cached_tokens},
                 {"timings", timings_of(totals)}};
    add_scores(made, scores);
    return form_.fields.empty() ? made : selected(made, form_.fields);
  }

  const LlamaForm form_;
  std::vector<TokenScore> last_scores_;
};

}  // namespace

std::unique_ptr<AnswerWriter> make_llama_writer(LlamaForm form) {
  return std::make_unique<LlamaWriter>(std::move(form));
}

}  // namespace gabbro::server
