// The loop that answers requests, whichever program drives it: they come at any time, and each has a channel for
// events. A Scheduler runs on an engine of this process, worker::Worker on one in another process.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gabbro/engine/generate.h"
#include "gabbro/error.h"

namespace gabbro {

namespace text {
class Tokenizer;  // src/text/tokenizer.h
}

inline constexpr int kLowestPriority = -8, kHighestPriority = 8;

struct GenerationRequest {
  std::vector<int32_t> prompt;
  GenerateOptions options{};  // without a drafter: drafts belong to the loop
  int priority = 0;           // of requests that wait, the one with the highest goes first
  std::string owner{};        // tokens are divided equally among owners; priorities order requests of one owner
  std::string tree{};         // requests share computed prompts only within one tree
};

// A loop holds as many requests as may wait; the request may be added later.
class QueueFull : public Error {
 public:
  explicit QueueFull(const std::string& message) : Error(ErrorCode::kFailed, message, "try again later") {}
};

// Throws bad_input for a prompt that is empty or longer than the context, for options that no sampler takes, and for
// another priority than kLowestPriority to kHighestPriority.
void check_request(const GenerationRequest& request, const ModelFacts& facts, const text::Tokenizer& tokenizer);

// Receives the events of one request, from the thread that drives the loop: started, texts, and one end.
class Channel {
 public:
  virtual ~Channel() = default;
  virtual void started() {}               // it is no longer waiting
  virtual void text(std::string_view) {}  // whole characters only
  // Scores of tokens whose text is certain, before that text; at the end the result has all of them.
  virtual void scores(std::span<const TokenScore>) {}
  virtual void finished(GenerateResult result) = 0;  // also of a request that was canceled
  virtual void failed(const Error& error) = 0;
};

using Ticket = uint64_t;

class GenerationLoop {
 public:
  GenerationLoop() = default;
  virtual ~GenerationLoop() = default;
  GenerationLoop(const GenerationLoop&) = delete;
  GenerationLoop& operator=(const GenerationLoop&) = delete;

  // Throws as check_request, and QueueFull; then the channel gets nothing.
  virtual Ticket add(GenerationRequest request, std::shared_ptr<Channel> channel) = 0;
  // The request ends with StopReason::kCanceled, by one of the next steps. Does nothing for one that has ended. From
  // any thread.
  virtual void cancel(Ticket ticket) = 0;
  // A paused request keeps its pages, generates nothing until it is resumed, and does not block other requests. Does
  // nothing for a request that has ended. From any thread.
  virtual void pause(Ticket ticket, bool paused) = 0;
  // Runs the requests for a short time and delivers their events. Returns false when none is left. When `cancel`
  // becomes true, all requests are canceled within 100 ms. Throws errors that concern more than one request.
  virtual bool step(const std::atomic<bool>* cancel = nullptr) = 0;
};

// Runs one request to its end on a loop that has no other request. Throws the error of the request.
GenerateResult generate(GenerationLoop& loop, GenerationRequest request,
                        const std::function<void(std::string_view)>& on_text, const std::atomic<bool>* cancel);

}  // namespace gabbro
