#include "src/plan/plan_cache.h"

namespace gabbro {

std::shared_ptr<Plan> PlanCache::find(std::string_view key) {
  const std::lock_guard lock(mutex_);
  return find_locked(key);
}

std::shared_ptr<Plan> PlanCache::get(const std::shared_ptr<Device>& device, std::string key, Program program) {
  if (auto plan = find(key)) return plan;
  auto plan = std::make_shared<Plan>(device, std::move(program));
  const std::lock_guard lock(mutex_);
  if (auto other = find_locked(key)) return other;  // another thread was faster
  ++made_;
  recent_.emplace_front(std::move(key), plan);
  index_[recent_.front().first] = recent_.begin();
  if (recent_.size() > kCapacity) {
    index_.erase(recent_.back().first);
    recent_.pop_back();
  }
  return plan;
}

void PlanCache::clear() {
  std::list<Entry> forgotten;  // destroyed after the lock is released
  const std::lock_guard lock(mutex_);
  index_.clear();
  forgotten.swap(recent_);
}

size_t PlanCache::made() const {
  const std::lock_guard lock(mutex_);
  return made_;
}

std::shared_ptr<Plan> PlanCache::find_locked(std::string_view key) {
  const auto found = index_.find(key);
  if (found == index_.end()) return nullptr;
  recent_.splice(recent_.begin(), recent_, found->second);
  return recent_.front().second;
}

}  // namespace gabbro
