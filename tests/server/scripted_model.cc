#include "tests/server/scripted_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <deque>
#include <list>
#include <mutex>
#include <set>
#include <thread>

#include "src/base/error.h"
#include "src/engine/sampling_defaults.h"
#include "src/text/chat/chat_template.h"
#include "src/text/stop_matcher.h"
#include "src/text/tokenizer.h"
#include "src/text/unicode/utf8_stream.h"

namespace gabbro::test {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

constexpr const char* kTemplate =
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% if open_thoughts %}{{ '<think>\\n' }}{% endif "
    "%}{% endif %}";

// A byte as vocabularies of GPT-2 write it: printable ones as themselves, the others from U+0100 on.
std::string spelled(int byte) {
  const auto is_plain = [](int b) { return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255); };
  int code = byte;
  if (!is_plain(byte)) {
    code = 256;
    for (int b = 0; b < byte; ++b) code += is_plain(b) ? 0 : 1;
  }
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
}

// A token for each byte, the control tokens of ChatML, and further ones.
text::Tokenizer byte_tokenizer(const std::vector<std::string>& controls) {
  text::VocabularySpec spec;
  spec.model = "gpt2";
  spec.pre = "gpt-2";
  for (int byte = 0; byte < 256; ++byte) {
    spec.tokens.push_back(spelled(byte));
    spec.types.push_back(static_cast<int32_t>(text::TokenType::kNormal));
  }
  for (const char* const control : {"<|im_start|>", "<|im_end|>"}) {
    spec.tokens.emplace_back(control);
    spec.types.push_back(static_cast<int32_t>(text::TokenType::kControl));
  }
  // Vocabularies of this kind have merges: one that no text needs.
  spec.tokens.push_back(spelled(0) + spelled(0));
  spec.types.push_back(static_cast<int32_t>(text::TokenType::kNormal));
  spec.merges.push_back(spelled(0) + " " + spelled(0));
  for (const std::string& control : controls) {
    spec.tokens.push_back(control);
    spec.types.push_back(static_cast<int32_t>(text::TokenType::kControl));
  }
  spec.eos = spec.eot = 257;
  spec.add_bos = false;
  return text::Tokenizer(std::move(spec));
}

struct ScriptedRequest {
  Ticket ticket;
  GenerationRequest request;
  std::shared_ptr<Channel> channel;
  Json answer;
  bool started = false;
  Clock::time_point next{};
  size_t token = 0;
  GenerateResult result{};
  text::Utf8Stream characters{};
  std::unique_ptr<text::StopMatcher> stops{};
};

class ScriptedModel final : public ModelService {
 public:
  ScriptedModel(std::string name, Json script)
      : script_(std::move(script)),
        tokenizer_(
            byte_tokenizer(script_.value("model", Json::object()).value("controls", std::vector<std::string>()))),
        template_(script_.value("model", Json::object()).value("template", kTemplate)) {
    const Json settings = script_.value("model", Json::object());
    facts_.name = std::move(name);
    facts_.architecture = "script";
    facts_.quantization = "none";
    facts_.vocabulary = tokenizer_.size();
    facts_.context = facts_.context_trained = settings.value("context", 4096);
    facts_.sequences = settings.value("parallel", 4);
    facts_.weight_bytes = settings.value("bytes", 1000);
    facts_.device_id = facts_.device_name = "cpu";
    restart_ = Milliseconds(settings.value("restart_ms", 0));
  }

  const ModelFacts& facts() const override { return facts_; }
  uint64_t device_memory() const override { return 0; }
  const text::Tokenizer& tokenizer() const override { return tokenizer_; }
  const SamplingDefaults& sampling_defaults() const override { return sampling_; }
  const text::ChatTemplate* chat_template(bool) const override { return &template_; }
  StreamingWork streaming_work() const override { return {}; }
  bool is_ready() const override { return Clock::now() >= ready_at_.load(); }

  Ticket add(GenerationRequest request, std::shared_ptr<Channel> channel) override {
    check_request(request, facts_, tokenizer_);
    ScriptedRequest entry{
        .ticket = ++tickets_, .request = std::move(request), .channel = std::move(channel), .answer = {}};
    entry.answer = answer_to(tokenizer_.decode(entry.request.prompt, {.show_control = true}));
    if (entry.answer.value("describes", false)) entry.answer = description(entry.request);
    entry.result.prompt_tokens = std::ssize(entry.request.prompt);
    entry.stops = std::make_unique<text::StopMatcher>(entry.request.options.stop);
    if (entry.request.options.scores_prompt) {
      for (const int32_t token : std::span(entry.request.prompt).subspan(1))
        entry.result.prompt_scores.push_back(
            score_of(std::string(tokenizer_.piece(token)), entry.request.options.sampler.top_logprobs));
    }
    requests_.push_back(std::move(entry));
    return tickets_;
  }

  void cancel(Ticket ticket) override {
    const std::lock_guard lock(mutex_);
    to_cancel_.insert(ticket);
  }

  void pause(Ticket ticket, bool paused) override {
    const std::lock_guard lock(mutex_);
    paused ? void(paused_.insert(ticket)) : void(paused_.erase(ticket));
  }

  bool step(const std::atomic<bool>* cancel) override {
    std::set<Ticket> canceled, paused;
    {
      const std::lock_guard lock(mutex_);
      canceled.swap(to_cancel_);
      paused = paused_;
    }
    size_t running = 0;
    for (auto at = requests_.begin(); at != requests_.end();) {
      if (canceled.contains(at->ticket) || (cancel != nullptr && *cancel)) {
        at->result.stop_reason = StopReason::kCanceled;
        end(at);
      } else if (paused.contains(at->ticket)) {
        ++at;
      } else if (running++ < static_cast<size_t>(facts_.sequences) && advance(*at)) {
        end(at);
      } else {
        ++at;
      }
    }
    if (!requests_.empty()) std::this_thread::sleep_for(Milliseconds(1));
    return !requests_.empty();
  }

 private:
  using Requests = std::list<ScriptedRequest>;

  // The owner and the tree of the request, as the engine gets them.
  static Json description(const GenerationRequest& request) {
    return {{"tokens", {fmt::format("owner {}, tree {}", request.owner, Json(request.tree).dump())}}};
  }

  Json answer_to(const std::string& prompt) const {
    for (const Json& answer : script_.at("answers")) {
      if (!answer.contains("if") || prompt.find(answer["if"].get<std::string>()) != prompt.npos) return answer;
    }
    throw bad_input("the script has no answer");
  }

  void end(Requests::iterator& at) {
    ScriptedRequest entry = std::move(*at);
    at = requests_.erase(at);
    if (entry.result.stop_reason != StopReason::kStopText) pass(entry, entry.stops->flush());
    const Json& answer = entry.answer;
    const bool fails = answer.contains("error") && entry.token >= answer.value("fail_after", size_t{0}) &&
                       entry.result.stop_reason != StopReason::kCanceled;
    if (fails) ready_at_ = Clock::now() + restart_;
    fails ? entry.channel->failed(failed("{}", answer["error"].get<std::string>()))
          : entry.channel->finished(std::move(entry.result));
  }

  // The first byte's token with the logarithm of 1/2, and then each following token with half of the one before.
  static TokenScore score_of(const std::string& bytes, int top) {
    const int32_t token = static_cast<unsigned char>(bytes.front());
    TokenScore score{.token = token, .logprob = std::log(0.5f)};
    for (int i = 0; i < top; ++i) score.top.emplace_back((token + i) % 256, std::log(0.5f) * static_cast<float>(i + 1));
    return score;
  }

  static void pass(ScriptedRequest& entry, const std::string& text) {
    if (text.empty()) return;
    entry.result.text += text;
    entry.channel->text(text);
  }

  // A list of numbers is bytes, which need not be whole characters; {"control": name} a control token, which has text
  // only where it is asked for.
  static std::string bytes_of(const Json& token, const std::vector<std::string>& shown) {
    if (token.is_string()) return token.get<std::string>();
    if (token.is_object()) {
      const std::string name = token.at("control").get<std::string>();
      return std::ranges::find(shown, name) != shown.end() ? name : std::string();
    }
    std::string bytes;
    for (const Json& byte : token) bytes += static_cast<char>(byte.get<int>());
    return bytes;
  }

  // One token of a request whose time has come. True: it ends.
  bool advance(ScriptedRequest& entry) {
    const Json& answer = entry.answer;
    if (!entry.started) {
      entry.started = true;
      entry.channel->started();
      entry.next = Clock::now() + Milliseconds(answer.value("prefill_ms", 0));
    }
    if (Clock::now() < entry.next) return false;
    entry.next = Clock::now() + Milliseconds(answer.value("token_ms", 0));
    if (answer.contains("error") && entry.token >= answer.value("fail_after", size_t{0})) return true;
    const Json& tokens = answer.at("tokens");
    const size_t count = tokens.size() * answer.value("repeat", size_t{1});
    const auto reached = [&](StopReason reason) {
      entry.result.stop_reason = reason;
      return true;
    };
    if (entry.request.options.max_tokens == std::ssize(entry.result.token_ids)) return reached(StopReason::kMaxTokens);
    if (entry.token >= count) return reached(StopReason::kEndOfGeneration);
    const std::string bytes = bytes_of(tokens[entry.token++ % tokens.size()], entry.request.options.shown_controls);
    entry.result.token_ids.push_back(static_cast<int32_t>(entry.token % 256));
    entry.result.decode_seconds += std::max(1, answer.value("token_ms", 0)) * 1e-3;
    if (const int top = entry.request.options.sampler.top_logprobs; top >= 0) {
      entry.result.scores.push_back(score_of(bytes, top));
      entry.channel->scores(std::span(entry.result.scores).last(1));
    }
    pass(entry, entry.stops->push(entry.characters.push(bytes)));
    if (entry.stops->stopped()) {
      entry.result.stop_text = entry.request.options.stop[static_cast<size_t>(entry.stops->match())];
      return reached(StopReason::kStopText);
    }
    if (entry.request.options.max_tokens == std::ssize(entry.result.token_ids)) return reached(StopReason::kMaxTokens);
    if (std::ssize(entry.request.prompt) + std::ssize(entry.result.token_ids) > facts_.context)
      return reached(StopReason::kContextFull);
    return false;
  }

  const Json script_;
  const text::Tokenizer tokenizer_;
  const text::ChatTemplate template_;
  const SamplingDefaults sampling_;
  ModelFacts facts_;
  Milliseconds restart_{};
  std::atomic<Clock::time_point> ready_at_ = Clock::time_point{};
  Ticket tickets_ = 0;
  Requests requests_;
  std::mutex mutex_;
  std::set<Ticket> to_cancel_, paused_;
};

}  // namespace

std::vector<server::ModelEntry> ScriptedModels::list() {
  std::vector<server::ModelEntry> entries;
  for (const auto& [name, script] : models_.items()) entries.push_back(*find(name));
  return entries;
}

std::optional<server::ModelEntry> ScriptedModels::find(const std::string& name) {
  if (!models_.contains(name)) return std::nullopt;
  const uint64_t bytes = models_[name].value("model", Json::object()).value("bytes", uint64_t{1000});
  return server::ModelEntry{
      .id = name, .path = name, .bytes = bytes, .modified = 1'700'000'000, .architecture = "script"};
}

server::LoadedModel ScriptedModels::load(const server::ModelEntry& entry) {
  const Json& script = models_.at(entry.id);
  const Json settings = script.value("model", Json::object());
  std::this_thread::sleep_for(Milliseconds(settings.value("load_ms", 0)));
  if (settings.contains("load_error")) throw failed("{}", settings["load_error"].get<std::string>());
  return {.generator = std::make_shared<ScriptedModel>(entry.id, script), .bytes = entry.bytes};
}

}  // namespace gabbro::test
