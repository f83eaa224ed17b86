// The models that the server offers. A model is loaded when a request needs it, and unloaded after a long idle time or
// when another one needs its memory.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "src/server/api_error.h"
#include "src/server/models/model_runner.h"

namespace gabbro::server {

using KeepAlive = std::chrono::milliseconds;
inline constexpr KeepAlive kForever = KeepAlive::max();

struct RegistryOptions {
  KeepAlive keep_alive = std::chrono::minutes(5);
  uint64_t memory = 0;  // bytes that all loaded models may take together; 0: no limit
  size_t queue_limit = 256;
  std::chrono::milliseconds patience{30'000};  // that a load waits for others to end, where it needs their memory
  std::vector<std::pair<std::string, std::string>> aliases;  // name and model
  bool serves_any_name = false;                              // by the only model that is loaded
  std::function<void(const std::string&)> on_notice{};       // a line about a load or an unload
};

class ModelRegistry {
 public:
  // A model in use: it is not unloaded. Destroyed by any thread.
  class Lease {
   public:
    Lease(ModelRegistry& registry, std::shared_ptr<ModelRunner> runner)
        : registry_(registry), runner_(std::move(runner)) {}
    ~Lease() { registry_.release(runner_); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ModelRunner& operator*() const { return *runner_; }
    ModelRunner* operator->() const { return runner_.get(); }

   private:
    ModelRegistry& registry_;
    std::shared_ptr<ModelRunner> runner_;
  };
  using LeaseHandle = std::shared_ptr<Lease>;
  struct LoadFailure {
    ApiError answer;              // of the requests that waited for the model
    ErrorCode code;               // of the error that loading threw
    std::string message, hint{};  // of that error
  };
  // Exactly one of the two is set.
  using Ready = std::function<void(LeaseHandle lease, std::shared_ptr<const LoadFailure> failure)>;

  // `post` runs a task on another thread.
  ModelRegistry(RegistryOptions options, std::unique_ptr<ModelSource> source,
                std::function<void(std::function<void()>)> post);
  ~ModelRegistry();  // waits for leases of canceled requests

  // The model that a request names. An empty name: the only one that is loaded, or that load_now() loaded. Throws
  // ApiError 404.
  ModelEntry find(const std::string& name);
  std::vector<ModelEntry> list() { return source_->list(); }

  // Calls `ready` when the model is loaded: immediately on this thread, or later by one of post(). Requests for a model
  // that is being loaded share the load. `keep_alive`: the time that it stays loaded after the end of the request;
  // none: unchanged.
  void acquire(const ModelEntry& entry, std::optional<KeepAlive> keep_alive, Ready ready);
  // Unloads the model when it is idle.
  bool unload(const std::string& id);
  // Returns when the model is loaded; throws the errors of loading. The model stays loaded.
  void load_now(const std::string& name);
  // Unloads models whose keep-alive time is over. Called about once a second.
  void unload_expired();

  struct Status {
    ModelEntry entry;
    uint64_t bytes;
    std::optional<std::chrono::system_clock::time_point> expires;  // none: never, or it is in use
    int64_t context;                                               // tokens; 0: an encoder
    size_t waiting, running;
    std::string device;  // "cpu", "rocm:0"
  };
  std::vector<Status> loaded() const;
  bool is_loading() const;
  // Whether a lost engine is being started again.
  bool is_restarting() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Slot {
    ModelEntry entry;
    std::shared_ptr<ModelRunner> runner;  // null: being loaded
    std::vector<Ready> waiting;
    KeepAlive keep_alive;
    size_t leases = 0;
    Clock::time_point idle_since{}, leased{};
    bool unloads = false;
    bool yields = false;  // new requests wait, as it leaves when the running ones have ended
  };

  void release(std::shared_ptr<ModelRunner>& runner);
  void run_loader();
  void load(const std::string& id);
  bool evict_idle(std::unique_lock<std::mutex>& lock, const std::string& except);
  void wait_for_idle(std::unique_lock<std::mutex>& lock, const std::string& except, Clock::time_point deadline);
  void make_room(uint64_t bytes, const std::string& except);
  uint64_t bytes_loaded() const;
  LeaseHandle lease(Slot& slot);
  void give_leases(Slot& slot);
  void end_yielding();  // models that were to leave stay, and their requests run
  void notice(const std::string& line) const {
    if (options_.on_notice) options_.on_notice(line);
  }

  const RegistryOptions options_;
  const std::unique_ptr<ModelSource> source_;
  const std::function<void(std::function<void()>)> post_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::map<std::string, Slot> slots_;  // by id
  std::vector<ModelEntry> pinned_;     // by load_now()
  std::deque<std::string> to_load_;
  bool stops_ = false;
  std::thread loader_;
};

}  // namespace gabbro::server
