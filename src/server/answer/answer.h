// The answer to one request that generates text, from its first token to the client: streamed or whole, in the form of
// a dialect.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/server/answer/tool_fields.h"
#include "src/server/api_error.h"
#include "src/server/models/model_registry.h"
#include "src/text/chat/thoughts.h"

namespace gabbro::server {

using text::AnswerPiece;
using text::ThoughtReading;
using text::ThoughtSplitter;

// A call of a tool.
struct ToolCall {
  std::string id, name, arguments{};
  size_t text_before = 0;  // bytes of the choice's text that come before it
  bool is_complete = false;
};

// One of the texts of an answer, when it has ended.
struct Choice {
  std::string thought, text;
  std::vector<ToolCall> calls{};
  GenerateResult result{};
  const char* finish_reason() const;  // "stop", "length" or "tool_calls"
};

struct AnswerTotals {
  int64_t prompt_tokens = 0;  // of each prompt once
  int64_t cached_tokens = 0;
  int64_t generated_tokens = 0;
  double prefill_seconds = 0, decode_seconds = 0;  // of the longest choice
  double total_seconds = 0;                        // since the request came
  double load_seconds = 0;
};

// The form of an answer. All functions are called by one thread at a time.
class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;
  // Bytes of a stream for the client, or nothing.
  virtual std::string begin() { return {}; }
  // `scores` belong to tokens of this text, and to earlier tokens that were not passed yet.
  virtual std::string text(size_t choice, const AnswerPiece& piece, std::span<const TokenScore> scores) = 0;
  // The call `index` of a choice. First with its name and without arguments, then with each piece of them.
  virtual std::string call(size_t choice, size_t index, const ToolCall& call, std::string_view arguments) {
    static_cast<void>(choice), static_cast<void>(index), static_cast<void>(call), static_cast<void>(arguments);
    return {};
  }
  // The call `index` is complete.
  virtual std::string call_ended(size_t choice, size_t index, const ToolCall& call) {
    static_cast<void>(choice), static_cast<void>(index), static_cast<void>(call);
    return {};
  }
  virtual const char* call_prefix() const { return "call_"; }  // of the ids of calls
  virtual std::string finished(size_t choice, const Choice& result, std::span<const TokenScore> scores) = 0;
  virtual std::string end(const std::vector<Choice>& choices, const AnswerTotals& totals) = 0;
  virtual std::string failed(const ApiError& error) = 0;
  virtual std::string ping(size_t place) = 0;  // in the queue; 0: it does not wait
  virtual const char* content_type() const = 0;
  // The body of an answer that is not streamed.
  virtual Json whole(const std::vector<Choice>& choices, const AnswerTotals& totals) = 0;
};

struct AnswerRequest {
  std::vector<GenerationRequest> requests;  // one for each choice
  size_t choices_per_prompt = 1;
  bool streams = false;
  ThoughtReading thoughts{};
  CallReading calls{};
  std::unique_ptr<AnswerWriter> writer;
  double load_seconds = 0;
  std::function<void(const AnswerTotals&)> on_end{};  // of an answer that is whole
};

struct AnswerLimits {
  // Text that waits for a client which does not read: beyond the first number the request generates nothing until the
  // client has read, beyond the second, or after a while, it ends.
  size_t pause_bytes = 64 << 10, unsent_bytes = 256 << 10;
  std::chrono::milliseconds pause_time{30'000};
  std::chrono::milliseconds first_ping{1'000}, ping{15'000};
  std::chrono::milliseconds request_time{3'600'000};
};

class Answer final : public std::enable_shared_from_this<Answer> {
 public:
  // `post` runs a task on another thread.
  Answer(std::shared_ptr<Exchange> exchange, ModelRegistry::LeaseHandle lease, AnswerRequest request,
         AnswerLimits limits, std::function<void(std::function<void()>)> post);
  ~Answer();

  // Throws ApiError for requests that cannot be; then nothing was sent.
  void start();
  void tick();  // about twice a second: pings, time limit
  // Ends it with an error.
  void cancel(const ApiError& reason);
  bool is_over() const { return over_; }

 private:
  class Sink;
  struct Event {
    enum class Kind { kText, kFinished, kFailed } kind;
    size_t choice;
    std::string text{};
    std::vector<TokenScore> scores{};  // of the text
    GenerateResult result{};
    std::optional<Error> error{};
  };
  struct Part {
    Part(const ThoughtReading& thoughts, const CallReading& calls)
        : splitter(thoughts.mode, thoughts.form), parser(calls.format, calls.tools) {}
    ThoughtSplitter splitter;
    text::ToolCallParser parser;  // of what is not a thought
    Choice choice{};
    std::vector<TokenScore> scores{};  // that the next piece of a stream passes on
    size_t scored = 0;                 // tokens whose scores came before the result
    bool ended = false;
  };

  void take(Event event);  // by the model's thread
  void schedule_if_needed();
  void drain();
  std::string write(Event& event);
  std::string write_pieces(size_t choice, const std::vector<AnswerPiece>& pieces);
  // `is_last`: of what an event gives; the scores go with it.
  std::string write_text(size_t choice, const AnswerPiece& piece, bool is_last);
  std::string write_calls(size_t choice, const std::vector<text::ToolCallPiece>& pieces, bool is_last);
  void finish(std::string out);
  void fail(const ApiError& error, std::string out);
  AnswerTotals totals() const;
  std::vector<Choice> choices() const;
  void cancel_jobs();
  void pause_jobs(bool paused);  // with mutex_ held
  void close();

  const std::shared_ptr<Exchange> exchange_;
  ModelRegistry::LeaseHandle lease_;
  AnswerRequest request_;
  const AnswerLimits limits_;
  const std::function<void(std::function<void()>)> post_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::vector<Part> parts_;  // of drain()
  std::atomic<bool> over_ = false;

  std::mutex mutex_;  // of all below
  std::vector<ModelRunner::JobHandle> jobs_;
  std::vector<Event> events_;
  size_t text_bytes_ = 0;  // of events_
  bool scheduled_ = false;
  std::optional<std::chrono::steady_clock::time_point> paused_since_{};
  std::optional<ApiError> reason_;  // of a cancellation
  std::chrono::steady_clock::time_point last_write_ = start_, last_ping_{};
};

}  // namespace gabbro::server
