// A loaded model and the one thread that drives it. Other threads add requests and cancel them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

#include "src/server/models/model_source.h"

namespace gabbro::server {

class ModelRunner {
 public:
  // A request of this runner: for cancel() and place().
  struct Job;
  using JobHandle = std::shared_ptr<Job>;

  ModelRunner(ModelEntry entry, LoadedModel model, size_t queue_limit);
  ~ModelRunner();  // cancels all requests and waits for the thread

  const ModelEntry& entry() const { return entry_; }
  const LoadedModel& model() const { return model_; }
  // Throws ApiError 400 for a model of the other kind.
  ModelService& generator() const;
  TextEncoder& encoder() const;

  // Throws ApiError: 400 for an invalid request, 503 if the queue is full. The channel's functions are called by the
  // runner's thread and must not block.
  JobHandle add(GenerationRequest request, std::shared_ptr<Channel> channel);
  // As add(), for several requests that belong together: all or none.
  std::vector<JobHandle> add(std::vector<GenerationRequest> requests, std::vector<std::shared_ptr<Channel>> channels);
  // Calls `work` on the runner's thread; its flag becomes true when the job is canceled, perhaps before. It must not
  // throw.
  JobHandle add_work(std::function<void(TextEncoder&, const std::atomic<bool>& cancel)> work);
  void cancel(const JobHandle& job);
  void pause(const JobHandle& job, bool paused);  // as GenerationLoop

  size_t place(const JobHandle& job) const;  // in the queue, from 1 on; 0: not waiting
  size_t waiting() const { return waiting_; }
  size_t running() const { return running_; }
  // Whether requests fail because the device was lost more often than a worker process is started again.
  // False while a lost engine is being started again.
  bool is_ready() const { return model_.generator == nullptr || model_.generator->is_ready(); }
  bool is_lost() const { return losses_ > kMostLosses; }

 private:
  static constexpr int kMostLosses = 4;

  void run();
  void begin(const JobHandle& job);
  void check_room(size_t count) const;
  void put(JobHandle job);
  void cancel_job(Job& job);

  const ModelEntry entry_;
  const LoadedModel model_;
  const size_t queue_limit_;
  std::atomic<size_t> waiting_ = 0, running_ = 0;
  std::atomic<int> losses_ = 0;  // consecutive, without an answer in between
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::list<JobHandle> incoming_;
  std::list<std::weak_ptr<Job>> jobs_;  // running and waiting, in order
  bool stops_ = false;
  std::thread thread_;
};

}  // namespace gabbro::server
