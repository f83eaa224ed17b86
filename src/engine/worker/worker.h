// An engine in a separate process, for devices whose faults end the process or kill every later call: the program
// lives on, fails the requests that were lost, starts the worker again and gives it those that waited.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/engine/generation_loop.h"
#include "src/engine/worker/messages.h"
#include "src/engine/worker/process.h"

namespace gabbro::worker {

inline constexpr int kMostRestarts = 3;

struct WorkerOptions {
  std::vector<std::string> command;                     // that runs run_child(): the program and its arguments
  int most_restarts = kMostRestarts;                    // one after another without an answer in between
  std::function<void(double)> on_progress{};            // of the first load: the fraction that is loaded
  std::function<void(const std::string&)> on_notice{};  // a line about a restart
};

// Used by one thread, the one that calls step(), but for cancel(), pause() and is_ready().
class Worker final : public GenerationLoop {
 public:
  // Starts the process, which begins to load the model.
  Worker(EngineSpec spec, WorkerOptions options);
  ~Worker() override;  // ends the process, within seconds

  // Waits until the model is loaded. Throws what loading throws; DeviceLost where the process ends meanwhile.
  void wait_until_loaded();

  const LoadedFacts& loaded() const { return loaded_; }
  StreamingWork streaming_work() const { return work_; }  // after the last answer

  // If the process is not coming back, the channel gets the reason.
  Ticket add(GenerationRequest request, std::shared_ptr<Channel> channel) override;
  void cancel(Ticket ticket) override;
  void pause(Ticket ticket, bool paused) override;
  // Whether the process is there and has loaded the model; from any thread.
  bool is_ready() const { return is_loaded_; }
  // Waits up to 50 ms for events, and delivers them. A request that is canceled and that the process does not end
  // within 100 ms ends with the text that came so far; a process that does not react for 10 s is replaced.
  bool step(const std::atomic<bool>* cancel = nullptr) override;

  // For a loop that waits for many things: poll() when there is something to read here, or at least once a second.
  int descriptor() const { return process_ != nullptr ? process_->socket() : -1; }  // -1: it is not there
  // As step(), waiting up to `limit`.
  bool poll(std::chrono::milliseconds limit);

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    std::string message;  // Add, as bytes
    std::shared_ptr<Channel> channel;
    bool sent = false, started = false, paused = false;
    std::optional<Clock::time_point> cancel_deadline{};  // of one that is canceled
    std::string text{};                                  // so far
  };
  using Entries = std::map<Ticket, Entry>;  // in the order in which they were added
  // A request that ends: its channel is called when everything else is in order.
  struct Ending {
    std::shared_ptr<Channel> channel;
    std::string text;
    void finish_canceled();
  };

  void start();
  void send_waiting();
  void flush();
  void receive();
  void take(Message message);
  std::shared_ptr<Channel> take_ended(Ticket ticket);
  void cancel_wanted(bool all);
  void pause_wanted();
  void end_overdue();
  Ending end_entry(Entries::iterator entry);
  void lose(const std::string& why);
  void give_up(const Error& error);

  EngineSpec spec_;
  WorkerOptions options_;
  std::unique_ptr<Process> process_;  // null: it is not coming back
  MessageReader reader_;
  std::string outgoing_;
  std::atomic<bool> is_loaded_ = false;
  bool was_loaded_ = false;
  LoadedFacts loaded_;
  StreamingWork work_;
  std::optional<std::string> lost_cause_;  // the last message of a process that ends
  std::optional<Error> final_error_;       // why there is no process
  int restarts_ = 0;                       // since the last answer
  Ticket tickets_ = 0;
  Entries entries_;
  std::map<Ticket, Clock::time_point> abandoned_;  // canceled and ended here, but not by the process
  std::mutex mutex_;
  std::set<Ticket> to_cancel_;       // by any thread
  std::map<Ticket, bool> to_pause_;  // by any thread
};

}  // namespace gabbro::worker
