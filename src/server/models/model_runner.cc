#include "src/server/models/model_runner.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/error.h"
#include "src/server/api_error.h"

namespace gabbro::server {

struct ModelRunner::Job {
  enum class State { kWaiting, kRunning, kEnded };

  ModelRunner* runner = nullptr;
  GenerationRequest request{};
  std::shared_ptr<Channel> channel{};
  std::function<void(TextEncoder&, const std::atomic<bool>&)> work{};
  std::atomic<bool> canceled = false;
  std::atomic<State> state = State::kWaiting;
  bool paused = false;  // with the runner's mutex held
  // Set by the runner's thread with its mutex held.
  bool has_ticket = false;
  Ticket ticket = 0;

  void started() {
    if (state.exchange(State::kRunning) != State::kWaiting) return;
    --runner->waiting_;
    ++runner->running_;
  }
  void answered() { runner->losses_ = 0; }
  void lost() { ++runner->losses_; }
  void ended() {
    const State before = state.exchange(State::kEnded);
    if (before == State::kWaiting) --runner->waiting_;
    if (before == State::kRunning) --runner->running_;
  }
};

namespace {

constexpr std::chrono::milliseconds kRestartLook{100};

GenerateResult canceled_result(const GenerationRequest& request) {
  GenerateResult result;
  result.prompt_tokens = std::ssize(request.prompt);
  result.stop_reason = StopReason::kCanceled;
  return result;
}

// Counts a job's states on their way to its channel.
template <class Job>
class CountedChannel final : public Channel {
 public:
  CountedChannel(std::shared_ptr<Job> job, std::shared_ptr<Channel> channel)
      : job_(std::move(job)), channel_(std::move(channel)) {}
  void started() override {
    job_->started();
    channel_->started();
  }
  void text(std::string_view piece) override { channel_->text(piece); }
  void scores(std::span<const TokenScore> scores) override { channel_->scores(scores); }
  void finished(GenerateResult result) override {
    job_->ended();
    job_->answered();
    channel_->finished(std::move(result));
  }
  void failed(const Error& error) override {
    job_->ended();
    if (dynamic_cast<const DeviceLost*>(&error) != nullptr) job_->lost();
    channel_->failed(error);
  }

 private:
  const std::shared_ptr<Job> job_;
  const std::shared_ptr<Channel> channel_;
};

}  // namespace

ModelRunner::ModelRunner(ModelEntry entry, LoadedModel model, size_t queue_limit)
    : entry_(std::move(entry)), model_(std::move(model)), queue_limit_(queue_limit), thread_([this] { run(); }) {}

ModelRunner::~ModelRunner() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
    for (const auto& weak : jobs_) {
      if (const JobHandle job = weak.lock()) cancel_job(*job);
    }
  }
  wake_.notify_all();
  thread_.join();
}

ModelService& ModelRunner::generator() const {
  if (model_.generator == nullptr)
    throw ApiError(400, fmt::format("the model {} computes vectors and scores, and generates no text", entry_.id),
                   "unsupported_model", "model");
  return *model_.generator;
}

TextEncoder& ModelRunner::encoder() const {
  if (model_.encoder == nullptr)
    throw ApiError(400, fmt::format("the model {} generates text and is not a text encoder", entry_.id),
                   "unsupported_model", "model");
  return *model_.encoder;
}

// Texts that the model computes together do not wait for each other.
void ModelRunner::check_room(size_t count) const {
  const int64_t together = model_.generator != nullptr ? model_.generator->facts().sequences : 1;
  const size_t most = static_cast<size_t>(std::max<int64_t>(1, together)) + queue_limit_;
  if (count > most)
    throw ApiError(400,
                   fmt::format("one request asks for {} texts, more than the {} that may run and wait", count, most));
  if (waiting_ + running_ + count > most)
    throw overloaded(fmt::format("{} requests wait for the model {}, no more are taken", waiting_.load(), entry_.id));
}

void ModelRunner::put(JobHandle job) {
  job->runner = this;
  ++waiting_;
  std::erase_if(jobs_, [](const std::weak_ptr<Job>& weak) {
    const JobHandle other = weak.lock();
    return other == nullptr || other->state == Job::State::kEnded;
  });
  jobs_.push_back(job);
  incoming_.push_back(std::move(job));
}

std::vector<ModelRunner::JobHandle> ModelRunner::add(std::vector<GenerationRequest> requests,
                                                     std::vector<std::shared_ptr<Channel>> channels) {
  for (const GenerationRequest& request : requests)
    check_request(request, generator().facts(), generator().tokenizer());
  std::vector<JobHandle> jobs;
  {
    const std::lock_guard lock(mutex_);
    if (stops_) throw overloaded("the model is being unloaded");
    check_room(requests.size());
    for (size_t i = 0; i < requests.size(); ++i) {
      const auto job = std::make_shared<Job>();
      job->request = std::move(requests[i]);
      job->channel = std::move(channels[i]);
      put(job);
      jobs.push_back(job);
    }
  }
  wake_.notify_all();
  return jobs;
}

ModelRunner::JobHandle ModelRunner::add(GenerationRequest request, std::shared_ptr<Channel> channel) {
  std::vector<GenerationRequest> requests;
  requests.push_back(std::move(request));
  return add(std::move(requests), {std::move(channel)}).front();
}

ModelRunner::JobHandle ModelRunner::add_work(std::function<void(TextEncoder&, const std::atomic<bool>&)> work) {
  encoder();
  const auto job = std::make_shared<Job>();
  job->work = std::move(work);
  {
    const std::lock_guard lock(mutex_);
    if (stops_) throw overloaded("the model is being unloaded");
    check_room(1);
    put(job);
  }
  wake_.notify_all();
  return job;
}

void ModelRunner::cancel(const JobHandle& job) {
  const std::lock_guard lock(mutex_);
  cancel_job(*job);
}

void ModelRunner::cancel_job(Job& job) {
  job.canceled = true;
  if (job.has_ticket && job.state != Job::State::kEnded) model_.generator->cancel(job.ticket);
}

void ModelRunner::pause(const JobHandle& job, bool paused) {
  const std::lock_guard lock(mutex_);
  job->paused = paused;
  if (job->has_ticket && job->state != Job::State::kEnded) model_.generator->pause(job->ticket, paused);
}

size_t ModelRunner::place(const JobHandle& job) const {
  const std::lock_guard lock(mutex_);
  size_t place = 0;
  for (const auto& weak : jobs_) {
    const JobHandle other = weak.lock();
    if (other == nullptr || other->state != Job::State::kWaiting) continue;
    ++place;
    if (other == job) return place;
  }
  return 0;
}

// --- The thread

void ModelRunner::run() {
  bool busy = false;
  while (true) {
    std::list<JobHandle> jobs;
    {
      std::unique_lock lock(mutex_);
      const auto has_work = [&] { return busy || stops_ || !incoming_.empty(); };
      // An engine that is being started again is watched, even without requests.
      is_ready() ? wake_.wait(lock, has_work) : void(wake_.wait_for(lock, kRestartLook, has_work));
      jobs.swap(incoming_);
      if (stops_ && jobs.empty() && !busy) return;
    }
    for (const JobHandle& job : jobs) begin(job);
    if (model_.generator == nullptr) continue;
    try {
      busy = model_.generator->step();  // a flag here would hide cancel() from a running step
    } catch (const std::exception& error) {
      // The error concerns all running requests; waiting ones go on.
      const auto* const known = dynamic_cast<const Error*>(&error);
      if (auto* const local = dynamic_cast<LocalModel*>(model_.generator.get()))
        local->fail_running(known != nullptr ? *known : failed("{}", error.what()));
      busy = true;
    }
  }
}

void ModelRunner::begin(const JobHandle& job) {
  if (job->work) {
    job->started();
    job->work(*model_.encoder, job->canceled);
    job->work = nullptr;
    return job->ended();
  }
  if (job->canceled) {
    job->ended();
    return job->channel->finished(canceled_result(job->request));
  }
  const std::shared_ptr<Channel> channel = job->channel;
  try {
    const Ticket ticket =
        model_.generator->add(std::move(job->request), std::make_shared<CountedChannel<Job>>(job, channel));
    const std::lock_guard lock(mutex_);
    job->has_ticket = true;
    job->ticket = ticket;
    if (job->canceled) model_.generator->cancel(ticket);
    if (job->paused) model_.generator->pause(ticket, true);
  } catch (const Error& error) {
    job->ended();
    channel->failed(error);
  }
}

}  // namespace gabbro::server
