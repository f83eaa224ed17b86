#include "src/server/models/model_registry.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/error.h"
#include "src/server/api_error.h"

namespace gabbro::server {

ModelRegistry::ModelRegistry(RegistryOptions options, std::unique_ptr<ModelSource> source,
                             std::function<void(std::function<void()>)> post)
    : options_(std::move(options)),
      source_(std::move(source)),
      post_(std::move(post)),
      loader_([this] { run_loader(); }) {}

ModelRegistry::~ModelRegistry() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  wake_.notify_all();
  loader_.join();
  std::unique_lock lock(mutex_);
  wake_.wait(lock,
             [&] { return std::ranges::none_of(slots_, [](const auto& slot) { return slot.second.leases > 0; }); });
}

ModelEntry ModelRegistry::find(const std::string& name) {
  std::string wanted = name;
  for (const auto& [alias, model] : options_.aliases) {
    if (alias == name) wanted = model;
  }
  {
    const std::lock_guard lock(mutex_);
    const auto slot = slots_.find(wanted);
    if (slot != slots_.end()) return slot->second.entry;
    if (wanted.empty() || options_.serves_any_name) {
      if (slots_.size() == 1) return slots_.begin()->second.entry;
      if (pinned_.size() == 1) return pinned_.front();  // a request with keep_alive 0 may have unloaded it
    }
  }
  if (wanted.empty()) throw ApiError(400, "model: is required", "missing_required_parameter", "model");
  std::optional<ModelEntry> entry = source_->find(wanted);
  constexpr std::string_view kLatest = ":latest";
  if (!entry && wanted.ends_with(kLatest)) {
    wanted.resize(wanted.size() - kLatest.size());
    entry = source_->find(wanted);
  }
  if (!entry) throw ApiError(404, fmt::format("the model '{}' is not there", name), "model_not_found", "model");
  return *entry;
}

ModelRegistry::LeaseHandle ModelRegistry::lease(Slot& slot) {
  ++slot.leases;
  slot.leased = Clock::now();
  return std::make_shared<Lease>(*this, slot.runner);
}

void ModelRegistry::give_leases(Slot& slot) {
  for (Ready& ready : std::exchange(slot.waiting, {}))
    post_([ready = std::move(ready), handle = lease(slot)]() mutable { ready(std::move(handle), nullptr); });
}

void ModelRegistry::end_yielding() {
  for (auto& [id, slot] : slots_) {
    if (std::exchange(slot.yields, false)) give_leases(slot);
  }
}

void ModelRegistry::acquire(const ModelEntry& entry, std::optional<KeepAlive> keep_alive, Ready ready) {
  LeaseHandle handle;
  {
    const std::lock_guard lock(mutex_);
    auto [at, is_new] = slots_.try_emplace(entry.id);
    Slot& slot = at->second;
    if (is_new) {
      slot.entry = entry;
      slot.keep_alive = options_.keep_alive;
      to_load_.push_back(entry.id);
    }
    if (keep_alive) slot.keep_alive = *keep_alive;
    if (slot.runner == nullptr || slot.yields) {
      if (slot.waiting.size() > options_.queue_limit)
        throw overloaded(fmt::format("{} requests wait for the model {}", slot.waiting.size(), entry.id));
      slot.waiting.push_back(std::move(ready));
    } else {
      slot.unloads = false;
      handle = lease(slot);
    }
  }
  wake_.notify_all();
  if (handle) ready(std::move(handle), nullptr);
}

// The slot keeps the runner: its last owner is never its own thread, which could not wait for itself.
void ModelRegistry::release(std::shared_ptr<ModelRunner>& runner) {
  {
    const std::lock_guard lock(mutex_);
    Slot& slot = slots_.at(runner->entry().id);
    slot.unloads = slot.unloads || runner->is_lost();  // the next request loads it again
    runner.reset();
    if (--slot.leases == 0) slot.idle_since = Clock::now();
  }
  wake_.notify_all();
}

uint64_t ModelRegistry::bytes_loaded() const {
  uint64_t bytes = 0;
  for (const auto& [id, slot] : slots_) bytes += slot.runner != nullptr ? slot.runner->model().bytes : 0;
  return bytes;
}

// Unloads the model that was idle for longest. False: none is idle.
bool ModelRegistry::evict_idle(std::unique_lock<std::mutex>& lock, const std::string& except) {
  auto oldest = slots_.end();
  for (auto at = slots_.begin(); at != slots_.end(); ++at) {
    const Slot& slot = at->second;
    if (slot.runner == nullptr || slot.leases > 0 || at->first == except) continue;
    if (oldest == slots_.end() || slot.idle_since < oldest->second.idle_since) oldest = at;
  }
  if (oldest == slots_.end()) return false;
  const std::string id = oldest->first;
  Slot& slot = oldest->second;
  std::shared_ptr<ModelRunner> runner = std::move(slot.runner);
  if (slot.waiting.empty()) {
    slots_.erase(oldest);
  } else {  // by now it is wanted again
    slot.yields = slot.unloads = false;
    to_load_.push_back(id);
  }
  lock.unlock();
  runner.reset();  // takes a while
  notice(fmt::format("unloaded {}", id));
  lock.lock();
  return true;
}

// Returns when a model is idle. The one whose last request began first takes no more meanwhile, or others could keep it
// for ever. Throws ApiError 503.
void ModelRegistry::wait_for_idle(std::unique_lock<std::mutex>& lock, const std::string& except,
                                  Clock::time_point deadline) {
  const auto can_leave = [&](const auto& entry) { return entry.second.runner != nullptr && entry.first != except; };
  Slot* first = nullptr;
  for (auto& entry : slots_) {
    if (can_leave(entry) && (first == nullptr || entry.second.leased < first->leased)) first = &entry.second;
  }
  first->yields = true;
  const bool found = wake_.wait_until(lock, deadline, [&] {
    return stops_ ||
           std::ranges::any_of(slots_, [&](const auto& entry) { return can_leave(entry) && entry.second.leases == 0; });
  });
  if (found && !stops_) return;
  end_yielding();
  throw overloaded(fmt::format("the model {} has no room while others are in use", except));
}

void ModelRegistry::make_room(uint64_t bytes, const std::string& except) {
  if (options_.memory == 0) return;
  if (bytes > options_.memory)
    throw Error(ErrorCode::kNoDevice,
                fmt::format("the model {} takes {} bytes, more than the limit of {}", except, bytes, options_.memory));
  const Clock::time_point deadline = Clock::now() + options_.patience;
  std::unique_lock lock(mutex_);
  while (bytes_loaded() + bytes > options_.memory) {
    if (!evict_idle(lock, except)) wait_for_idle(lock, except, deadline);
  }
  end_yielding();
}

void ModelRegistry::run_loader() {
  while (true) {
    std::string id;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stops_ || !to_load_.empty(); });
      if (stops_) return;
      id = to_load_.front();
      to_load_.pop_front();
    }
    load(id);
  }
}

void ModelRegistry::load(const std::string& id) {
  ModelEntry entry;
  {
    const std::lock_guard lock(mutex_);
    entry = slots_.at(id).entry;
  }
  std::shared_ptr<ModelRunner> runner;
  std::shared_ptr<const LoadFailure> failure;
  const auto start = Clock::now();
  try {
    make_room(entry.bytes, id);
    LoadedModel model;
    try {
      model = source_->load(entry);
    } catch (const OutOfMemory&) {
      std::unique_lock lock(mutex_);
      if (!evict_idle(lock, id)) throw;
      lock.unlock();
      model = source_->load(entry);
    }
    make_room(model.bytes, id);  // now that they are known
    runner = std::make_shared<ModelRunner>(entry, std::move(model), options_.queue_limit);
    notice(fmt::format("loaded {} in {:.2f} s", id, std::chrono::duration<double>(Clock::now() - start).count()));
  } catch (const Error& error) {
    failure =
        std::make_shared<const LoadFailure>(LoadFailure{api_error(error), error.code(), error.what(), error.hint()});
  } catch (...) {
    const ApiError answer = current_api_error();
    failure = std::make_shared<const LoadFailure>(LoadFailure{answer, ErrorCode::kFailed, answer.what()});
  }
  const std::lock_guard lock(mutex_);
  Slot& slot = slots_.at(id);
  if (runner != nullptr) {
    slot.runner = runner;
    slot.idle_since = Clock::now();
    return give_leases(slot);
  }
  for (Ready& ready : slot.waiting) post_([ready = std::move(ready), failure] { ready(nullptr, failure); });
  slots_.erase(id);
}

void ModelRegistry::load_now(const std::string& name) {
  const ModelEntry entry = find(name);
  std::mutex mutex;
  std::condition_variable done;
  bool is_done = false;
  std::shared_ptr<const LoadFailure> failure;
  acquire(entry, kForever, [&](LeaseHandle handle, std::shared_ptr<const LoadFailure> error) {
    handle.reset();
    const std::lock_guard lock(mutex);
    failure = std::move(error);
    is_done = true;
    done.notify_all();
  });
  std::unique_lock lock(mutex);
  done.wait(lock, [&] { return is_done; });
  if (failure) throw Error(failure->code, failure->message, failure->hint);
  const std::lock_guard pinned_lock(mutex_);
  if (std::ranges::find(pinned_, entry.id, &ModelEntry::id) == pinned_.end()) pinned_.push_back(entry);
}

bool ModelRegistry::unload(const std::string& id) {
  {
    const std::lock_guard lock(mutex_);
    const auto slot = slots_.find(id);
    if (slot == slots_.end() || slot->second.runner == nullptr) return false;
    slot->second.unloads = true;
  }
  unload_expired();
  return true;
}

void ModelRegistry::unload_expired() {
  std::vector<std::shared_ptr<ModelRunner>> expired;
  {
    const std::lock_guard lock(mutex_);
    const auto now = Clock::now();
    for (auto at = slots_.begin(); at != slots_.end();) {
      Slot& slot = at->second;
      const bool is_over = slot.unloads || (slot.keep_alive != kForever && now - slot.idle_since >= slot.keep_alive);
      if (slot.runner != nullptr && slot.leases == 0 && !slot.yields && is_over) {
        expired.push_back(std::move(slot.runner));
        at = slots_.erase(at);
      } else {
        ++at;
      }
    }
  }
  for (auto& runner : expired) {
    const std::string id = runner->entry().id;
    runner.reset();
    notice(fmt::format("unloaded {}", id));
  }
}

std::vector<ModelRegistry::Status> ModelRegistry::loaded() const {
  const std::lock_guard lock(mutex_);
  std::vector<Status> all;
  for (const auto& [id, slot] : slots_) {
    if (slot.runner == nullptr) continue;
    const LoadedModel& model = slot.runner->model();
    const std::string& device =
        model.generator != nullptr ? model.generator->facts().device_id : model.encoder->facts().device_id;
    Status status{.entry = slot.entry,
                  .bytes = model.bytes,
                  .expires = {},
                  .context = model.generator != nullptr ? model.generator->facts().context : 0,
                  .waiting = slot.runner->waiting(),
                  .running = slot.runner->running(),
                  .device = device};
    if (slot.leases == 0 && slot.keep_alive != kForever) {
      const auto left = slot.keep_alive - std::chrono::duration_cast<KeepAlive>(Clock::now() - slot.idle_since);
      status.expires = std::chrono::system_clock::now() + left;
    }
    all.push_back(std::move(status));
  }
  return all;
}

bool ModelRegistry::is_restarting() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(
      slots_, [](const auto& slot) { return slot.second.runner != nullptr && !slot.second.runner->is_ready(); });
}

bool ModelRegistry::is_loading() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(slots_, [](const auto& slot) { return slot.second.runner == nullptr; });
}

}  // namespace gabbro::server
