#include "src/server/answer/answer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "src/server/http/url.h"

namespace gabbro::server {

// Passes the events of one choice on. It does not keep the answer: the model's thread owns it.
class Answer::Sink final : public Channel {
 public:
  Sink(std::weak_ptr<Answer> answer, size_t choice) : answer_(std::move(answer)), choice_(choice) {}

  void text(std::string_view piece) override {
    pass({.kind = Event::Kind::kText,
          .choice = choice_,
          .text = std::string(piece),
          .scores = std::exchange(scores_, {})});
  }
  void scores(std::span<const TokenScore> scores) override {
    scores_.insert(scores_.end(), scores.begin(), scores.end());
  }
  void finished(GenerateResult result) override {
    pass({.kind = Event::Kind::kFinished, .choice = choice_, .result = std::move(result)});
  }
  void failed(const Error& error) override { pass({.kind = Event::Kind::kFailed, .choice = choice_, .error = error}); }

 private:
  void pass(Event event) {
    if (const auto answer = answer_.lock()) answer->take(std::move(event));
  }

  const std::weak_ptr<Answer> answer_;
  const size_t choice_;
  std::vector<TokenScore> scores_;  // of the next text
};

namespace {

// Memory of an event that waits for a client.
size_t waiting_bytes(std::string_view text, std::span<const TokenScore> scores) {
  size_t bytes = text.size();
  for (const TokenScore& score : scores) bytes += sizeof score + score.top.size() * sizeof score.top.front();
  return bytes;
}

}  // namespace

const char* Choice::finish_reason() const {
  const bool is_cut = result.stop_reason == StopReason::kMaxTokens || result.stop_reason == StopReason::kContextFull;
  if (is_cut) return "length";
  return std::ranges::any_of(calls, &ToolCall::is_complete) ? "tool_calls" : "stop";
}

Answer::Answer(std::shared_ptr<Exchange> exchange, ModelRegistry::LeaseHandle lease, AnswerRequest request,
               AnswerLimits limits, std::function<void(std::function<void()>)> post)
    : exchange_(std::move(exchange)),
      lease_(std::move(lease)),
      request_(std::move(request)),
      limits_(limits),
      post_(std::move(post)) {
  for (size_t i = 0; i < request_.requests.size(); ++i) parts_.emplace_back(request_.thoughts, request_.calls);
}

Answer::~Answer() = default;

void Answer::start() {
  std::vector<std::shared_ptr<Channel>> channels;
  for (size_t i = 0; i < parts_.size(); ++i) channels.push_back(std::make_shared<Sink>(weak_from_this(), i));
  // Events that come before the head is sent wait.
  {
    const std::lock_guard lock(mutex_);
    scheduled_ = true;
  }
  auto jobs = (*lease_)->add(std::move(request_.requests), std::move(channels));
  {
    const std::lock_guard lock(mutex_);
    jobs_ = std::move(jobs);
    if (paused_since_) {  // by events that came before
      paused_since_.reset();
      pause_jobs(true);
    }
  }
  if (request_.streams) {
    exchange_->begin({.content_type = request_.writer->content_type(),
                      .headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}});
    exchange_->write(request_.writer->begin());
    exchange_->on_sent([self = shared_from_this()] { self->schedule_if_needed(); });
  }
  exchange_->on_gone([self = shared_from_this()] { self->cancel_jobs(); });
  {
    const std::lock_guard lock(mutex_);
    scheduled_ = false;
  }
  schedule_if_needed();
}

// --- Events

void Answer::take(Event event) {
  bool is_slow = false;
  {
    const std::lock_guard lock(mutex_);
    if (event.kind == Event::Kind::kText) {
      if (!request_.streams) return;  // the result has all of it
      text_bytes_ += waiting_bytes(event.text, event.scores);
      is_slow = text_bytes_ > limits_.unsent_bytes;
      if (text_bytes_ > limits_.pause_bytes) pause_jobs(true);
      const auto same = std::find_if(events_.rbegin(), events_.rend(),
                                     [&](const Event& other) { return other.choice == event.choice; });
      if (same != events_.rend()) {
        same->text += event.text;
        same->scores.insert(same->scores.end(), event.scores.begin(), event.scores.end());
        event.text.clear();
      }
      if (!event.text.empty()) events_.push_back(std::move(event));
    } else {
      events_.push_back(std::move(event));
    }
  }
  if (is_slow) {
    cancel_jobs();
    exchange_->abort();
  }
  schedule_if_needed();
}

// drain() runs where there are events and, of a stream, the client has taken what came before.
void Answer::schedule_if_needed() {
  {
    const std::lock_guard lock(mutex_);
    if (scheduled_ || events_.empty() || (request_.streams && exchange_->unsent() > 0 && !exchange_->is_gone())) return;
    scheduled_ = true;
  }
  post_([self = shared_from_this()] {
    self->drain();
    {
      const std::lock_guard lock(self->mutex_);
      self->scheduled_ = false;
    }
    self->schedule_if_needed();
  });
}

void Answer::drain() {
  if (over_) return;
  std::vector<Event> events;
  {
    const std::lock_guard lock(mutex_);
    events.swap(events_);
    text_bytes_ = 0;
    pause_jobs(false);
    last_write_ = std::chrono::steady_clock::now();
  }
  std::string out;
  try {
    for (Event& event : events) out += write(event);
  } catch (const ApiError& error) {
    return fail(error, std::move(out));
  }
  if (std::ranges::all_of(parts_, &Part::ended)) return finish(std::move(out));
  if (request_.streams) exchange_->write(std::move(out));
}

std::string Answer::write_pieces(size_t choice, const std::vector<AnswerPiece>& pieces) {
  std::string out;
  for (const AnswerPiece& piece : pieces) {
    const bool is_last = &piece == &pieces.back();
    out += piece.is_thought ? write_text(choice, piece, is_last)
                            : write_calls(choice, parts_[choice].parser.feed(piece.text), is_last);
  }
  return out;
}

std::string Answer::write_text(size_t choice, const AnswerPiece& piece, bool is_last) {
  Part& part = parts_[choice];
  (piece.is_thought ? part.choice.thought : part.choice.text) += piece.text;
  if (!request_.streams) return {};
  return request_.writer->text(choice, piece, is_last ? std::exchange(part.scores, {}) : std::vector<TokenScore>());
}

std::string Answer::write_calls(size_t choice, const std::vector<text::ToolCallPiece>& pieces, bool is_last) {
  using Kind = text::ToolCallPiece::Kind;
  std::vector<ToolCall>& calls = parts_[choice].choice.calls;
  std::string out;
  const bool is_single = request_.calls.is_single;
  for (const text::ToolCallPiece& piece : pieces) {
    if (is_single && piece.kind != Kind::kText && !calls.empty() && calls.back().is_complete) continue;
    if (piece.kind == Kind::kText) {
      out += write_text(choice, {.text = piece.text}, is_last && &piece == &pieces.back());
      continue;
    }
    if (piece.kind == Kind::kCall) {
      calls.push_back({.id = random_id(request_.writer->call_prefix()),
                       .name = piece.text,
                       .text_before = parts_[choice].choice.text.size()});
    }
    if (piece.kind == Kind::kArguments) calls.back().arguments += piece.text;
    if (piece.kind == Kind::kEnd) {
      calls.back().is_complete = true;
      if (request_.streams) out += request_.writer->call_ended(choice, calls.size() - 1, calls.back());
    } else if (request_.streams) {
      const bool is_name = piece.kind == Kind::kCall;
      out += request_.writer->call(choice, calls.size() - 1, calls.back(), is_name ? std::string_view() : piece.text);
    }
  }
  return out;
}

std::string Answer::write(Event& event) {
  Part& part = parts_[event.choice];
  if (event.kind == Event::Kind::kFailed) throw api_error(*event.error);
  if (event.kind == Event::Kind::kText) {
    part.scored += event.scores.size();
    std::ranges::move(event.scores, std::back_inserter(part.scores));
    return write_pieces(event.choice, part.splitter.feed(event.text));
  }
  if (event.result.stop_reason == StopReason::kCanceled) {
    const std::lock_guard lock(mutex_);
    throw reason_ ? *reason_ : ApiError(503, "the request was canceled");
  }
  std::string out;
  if (!request_.streams) out += write_pieces(event.choice, part.splitter.feed(event.result.text));
  out += write_pieces(event.choice, part.splitter.finish());
  out += write_calls(event.choice, part.parser.finish(), true);
  part.choice.result = std::move(event.result);
  part.ended = true;
  if (!request_.streams) return out;
  const std::vector<TokenScore>& all = part.choice.result.scores;
  if (part.scored < all.size())
    part.scores.insert(part.scores.end(), all.begin() + static_cast<ptrdiff_t>(part.scored), all.end());
  out += request_.writer->finished(event.choice, part.choice, part.scores);
  return out;
}

// The model is released first: a client that has its answer may ask for another model, which needs the room.
void Answer::finish(std::string out) {
  const AnswerTotals ended = totals();
  if (request_.on_end) request_.on_end(ended);
  close();
  if (request_.streams) {
    exchange_->write(out + request_.writer->end(choices(), ended));
    exchange_->end();
  } else {
    exchange_->respond(
        {.body = request_.writer->whole(choices(), ended).dump(-1, ' ', false, Json::error_handler_t::replace)});
  }
}

void Answer::fail(const ApiError& error, std::string out) {
  cancel_jobs();
  close();
  if (request_.streams) {
    exchange_->write(out + request_.writer->failed(error));
    exchange_->end();
  } else {
    exchange_->respond(error_response(error, exchange_->request()));
  }
}

void Answer::close() {
  over_ = true;
  const std::lock_guard lock(mutex_);
  jobs_.clear();
  lease_.reset();
}

std::vector<Choice> Answer::choices() const {
  std::vector<Choice> all;
  for (const Part& part : parts_) all.push_back(part.choice);
  return all;
}

AnswerTotals Answer::totals() const {
  AnswerTotals totals;
  for (size_t i = 0; i < parts_.size(); ++i) {
    const GenerateResult& result = parts_[i].choice.result;
    if (i % request_.choices_per_prompt == 0) {
      totals.prompt_tokens += result.prompt_tokens;
      totals.cached_tokens += result.cached_tokens;
    }
    totals.generated_tokens += std::ssize(result.token_ids);
    totals.prefill_seconds = std::max(totals.prefill_seconds, result.prefill_seconds);
    totals.decode_seconds = std::max(totals.decode_seconds, result.decode_seconds);
  }
  totals.total_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count() + request_.load_seconds;
  totals.load_seconds = request_.load_seconds;
  return totals;
}

// --- Other ends

void Answer::cancel_jobs() {
  const std::lock_guard lock(mutex_);
  if (lease_ == nullptr) return;
  for (const auto& job : jobs_) (*lease_)->cancel(job);
}

void Answer::pause_jobs(bool paused) {
  if (paused == paused_since_.has_value() || lease_ == nullptr) return;
  paused_since_.reset();
  if (paused) paused_since_ = std::chrono::steady_clock::now();
  for (const auto& job : jobs_) (*lease_)->pause(job, paused);
}

void Answer::cancel(const ApiError& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (!reason_) reason_ = reason;
  }
  cancel_jobs();
}

void Answer::tick() {
  if (over_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - start_ > limits_.request_time) return cancel({504, "the request took too long", "timeout"});
  bool is_stuck = false;
  {
    const std::lock_guard lock(mutex_);
    is_stuck = paused_since_ && now - *paused_since_ > limits_.pause_time;
  }
  if (is_stuck) {
    cancel_jobs();
    return exchange_->abort();
  }
  if (!request_.streams || exchange_->unsent() > 0) return;
  size_t place = 0;
  {
    const std::lock_guard lock(mutex_);
    if (lease_ == nullptr || jobs_.empty() || scheduled_) return;
    place = (*lease_)->place(jobs_.front());
    const auto silence = now - std::max(last_write_, last_ping_);
    if (silence <
        (place > 0 || last_ping_ == std::chrono::steady_clock::time_point{} ? limits_.first_ping : limits_.ping))
      return;
    last_ping_ = now;
  }
  // Between two events: only drain() writes, and it is not scheduled.
  exchange_->write(request_.writer->ping(place));
}

}  // namespace gabbro::server
