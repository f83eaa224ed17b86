// Many requests on one engine: as many at a time as its cache holds, prompts in chunks next to the single tokens of
// those that generate. Requests join and leave between steps.
#pragma once

#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <set>
#include <span>
#include <vector>

#include "src/engine/generation_loop.h"
#include "src/engine/request.h"
#include "src/engine/runner.h"

namespace gabbro {

// A loop on an engine of this process.
class EngineLoop : public GenerationLoop {
 public:
  // After a step that threw: the requests that took part in it end with this error.
  virtual void fail_running(const Error& error) = 0;
};

class Scheduler final : public EngineLoop {
 public:
  explicit Scheduler(std::shared_ptr<Engine> engine);
  ~Scheduler() override;

  Ticket add(GenerationRequest request, std::shared_ptr<Channel> channel) override;
  void cancel(Ticket ticket) override;
  bool step(const std::atomic<bool>* cancel = nullptr) override;
  void fail_running(const Error& error) override;

  // A request that the caller keeps. `ended` is called when it has finished, with the error of one that failed.
  Ticket add(Request& request, std::function<void(const Error* error)> ended);

 private:
  struct Entry {
    Ticket ticket;
    Request* request;
    std::function<void()> started;
    std::function<void(const Error* error)> ended;
  };
  struct Active;

  static bool waits_for(const Active& later, const Active& earlier);
  std::vector<Chunk> next_chunks();
  void admit();
  void compute(const std::atomic<bool>* cancel);
  void wait_for_room(const CacheFull& full);
  void pass_rows(std::span<const Chunk> chunks, std::span<const float> logits, std::span<const int32_t> largest);
  void end_canceled(bool all);
  void retire();

  Runner runner_;
  Ticket tickets_ = 0;
  std::deque<Entry> waiting_;
  std::list<Active> active_;
  std::mutex mutex_;
  std::set<Ticket> to_cancel_;
  std::atomic<bool> interrupt_ = false;  // there is something to cancel
};

}  // namespace gabbro
