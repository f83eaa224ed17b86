#include "tests/emulated_hip/engine.h"

#include <algorithm>
#include <utility>

namespace emulated_hip {
namespace {

// A hardware queue has a limit too: a launch into a full one waits.
constexpr size_t kQueueLength = 4096;
constexpr unsigned kNullStream = 0x80000000U;  // a flag of our own

bool is_ready(const Task& task) {
  return !task.stuck && std::ranges::all_of(task.after, [](const TaskRef& before) { return before->done; });
}

}  // namespace

Stream* Engine::add_stream(int device, unsigned flags) {
  auto& stream = streams_.emplace_back(std::make_unique<Stream>());
  stream->device = device;
  stream->flags = flags;
  return stream.get();
}

void Engine::remove_stream(Lock& lock, Stream* stream) {
  if (stream->tail != nullptr) wait(lock, stream->tail);
  while (running_) progress_.wait(lock);  // after a fault
  std::erase_if(streams_, [&](const auto& one) { return one.get() == stream; });
}

bool Engine::has_stream(const Stream* stream) const {
  return std::ranges::any_of(streams_, [&](const auto& one) { return one.get() == stream; });
}

// The first stream of a device, made when it is first asked for; blocking.
Stream* Engine::null_stream(int device) {
  const auto found = std::ranges::find_if(
      streams_, [&](const auto& one) { return one->device == device && (one->flags & kNullStream) != 0; });
  return found != streams_.end() ? found->get() : add_stream(device, kNullStream);
}

TaskRef Engine::enqueue(Lock& lock, Stream& stream, std::function<void()> run, std::vector<TaskRef> after) {
  // The null stream and blocking streams of a device wait for each other.
  const bool is_null = (stream.flags & kNullStream) != 0, blocks = (stream.flags & hipStreamNonBlocking) == 0;
  for (const auto& other : streams_) {
    if (!blocks || other.get() == &stream || other->device != stream.device || other->work.empty()) continue;
    const bool other_is_null = (other->flags & kNullStream) != 0;
    if ((is_null && (other->flags & hipStreamNonBlocking) == 0) || other_is_null) after.push_back(other->tail);
  }
  auto task = std::make_shared<Task>();
  task->run = std::move(run);
  task->after = std::move(after);
  stream.tail = task;
  stream.work.push_back(task);
  if (fault_ != hipSuccess) return task;
  while (random_() % 3 == 0 && !running_ && step(lock)) {
  }
  while (stream.work.size() > kQueueLength && fault_ == hipSuccess) wait(lock, stream.work.front());
  return task;
}

// Does one piece of work that may be done, of any stream. False if there is none.
bool Engine::step(Lock& lock) {
  std::vector<Stream*> ready;
  for (const auto& stream : streams_) {
    if (!stream->work.empty() && is_ready(*stream->work.front())) ready.push_back(stream.get());
  }
  if (ready.empty() || fault_ != hipSuccess) return false;
  Stream& stream = *ready[random_() % ready.size()];
  const TaskRef task = stream.work.front();
  running_ = true;
  if (task->run) {
    lock.unlock();
    task->run();
    lock.lock();
    task->run = nullptr;
  }
  running_ = false;
  task->after.clear();
  if (fault_ == hipSuccess) {  // what failed never ends
    task->done = true;
    task->finished = std::chrono::steady_clock::now();
    stream.work.pop_front();
  }
  progress_.notify_all();
  return true;
}

void Engine::wait(Lock& lock, const TaskRef& task) {
  while (!task->done && fault_ == hipSuccess) {
    if (running_ || !step(lock)) progress_.wait(lock);
  }
}

void Engine::wait_for_all(Lock& lock, int device) {
  std::vector<TaskRef> tails;
  for (const auto& stream : streams_) {
    if (stream->device == device && stream->tail != nullptr) tails.push_back(stream->tail);
  }
  for (const TaskRef& tail : tails) wait(lock, tail);
}

void Engine::wait_for_ever(Lock& lock) {
  for (;;) progress_.wait(lock);
}

void Engine::advance(Lock& lock) {
  for (int i = 0; i < 4 && !running_ && step(lock); ++i) {
  }
}

}  // namespace emulated_hip
