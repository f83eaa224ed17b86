// Requests one after another on one session, which keeps what the last one left: chats, and drafts.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>

#include "src/engine/scheduler.h"

namespace gabbro {

class SerialLoop final : public EngineLoop {
 public:
  // `drafter` may be null.
  SerialLoop(std::shared_ptr<Engine> engine, std::shared_ptr<Drafter> drafter);

  Ticket add(GenerationRequest request, std::shared_ptr<Channel> channel) override;
  void cancel(Ticket ticket) override;
  // Computes a whole request.
  bool step(const std::atomic<bool>* cancel = nullptr) override;
  void fail_running(const Error& error) override;

 private:
  struct Entry {
    Ticket ticket;
    GenerationRequest request;
    std::shared_ptr<Channel> channel;
  };
  // Takes the first of those that wait. False: it is canceled.
  bool begin_next(bool all_canceled);
  std::shared_ptr<Channel> end_running();

  std::shared_ptr<Engine> engine_;
  Session session_;
  std::shared_ptr<Drafter> drafter_;
  Ticket tickets_ = 0;
  std::deque<Entry> waiting_;
  std::optional<Entry> running_;
  std::mutex mutex_;
  std::set<Ticket> to_cancel_;           // of those that wait or run
  std::atomic<bool> interrupt_ = false;  // the one that runs is canceled
};

}  // namespace gabbro
