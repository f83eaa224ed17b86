// An engine in a separate process, for devices whose faults end the process or make every later call fail. The program
// survives, fails the lost requests, starts the worker again and passes on the requests that waited.
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
  std::vector<std::string> command;                     // runs run_child(): the program and its arguments
  int most_restarts = kMostRestarts;                    // consecutive, without an answer in between
  std::function<void(double)> on_progress{};            // fraction of the first load
  std::function<void(const std::string&)> on_notice{};  // a line about a restart
};

// Used by one thread, the one that calls step(), but for cancel(), pause() and is_ready().
class Worker final : public GenerationLoop {
 public:
  // Starts the process, which begins to load the model.
  Worker(EngineSpec spec, WorkerOptions options);
  ~Worker() override;  // ends the process, within seconds

  // Waits until the model is loaded. Throws the errors of loading, and DeviceLost if the process ends meanwhile.
  void wait_until_loaded();

  const LoadedFacts& loaded() const { return loaded_; }
  StreamingWork streaming_work() const { return work_; }  // after the last answer

  // If the process cannot be restarted, the channel gets the reason.
  Ticket add(GenerationRequest request, std::shared_ptr<Channel> channel) override;
  void cancel(Ticket ticket) override;
  void pause(Ticket ticket, bool paused) override;
  // Whether the process runs and has loaded the model; from any thread.
  bool is_ready() const { return is_loaded_; }
  // Waits up to 50 ms for events, and delivers them. A canceled request that the process does not end within 100 ms
  // ends here with the text so far. A process that does not react for 10 s is replaced.
  bool step(const std::atomic<bool>* cancel = nullptr) override;

  // For a loop that waits on several descriptors: call poll() when this one is readable, and at least once a second.
  int descriptor() const { return process_ != nullptr ? process_->socket() : -1; }  // -1: no process
  // As step(), but waits up to `limit`.
  bool poll(std::chrono::milliseconds limit);

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    std::string message;  // Add, as bytes
    std::shared_ptr<Channel> channel;
    bool sent = false, started = false, paused = false;
    std::optional<Clock::time_point> cancel_deadline{};  // of a canceled request
    std::string text{};                                  // so far
  };
  using Entries = std::map<Ticket, Entry>;  // in the order in which they were added
  // Ends a request. Its channel is called last, after all state is updated.
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
  std::unique_ptr<Process> process_;  // null: cannot be restarted
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
