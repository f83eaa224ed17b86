// The plans of one device by the structure of their graphs; the least recently used ones are forgotten.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "src/plan/plan.h"

namespace gabbro {

class PlanCache {
 public:
  static constexpr size_t kCapacity = 256;  // a decoder uses a few; a plan of 30 layers takes about 300 KiB

  // Null: not cached.
  std::shared_ptr<Plan> find(std::string_view key);
  // Makes the plan if it is not cached. `key` is the program's.
  std::shared_ptr<Plan> get(const std::shared_ptr<Device>& device, std::string key, Program program);
  void clear();

  size_t made() const;  // since the device was opened

 private:
  using Entry = std::pair<std::string, std::shared_ptr<Plan>>;

  std::shared_ptr<Plan> find_locked(std::string_view key);

  mutable std::mutex mutex_;
  std::list<Entry> recent_;
  std::unordered_map<std::string_view, std::list<Entry>::iterator> index_;
  size_t made_ = 0;
};

}  // namespace gabbro
