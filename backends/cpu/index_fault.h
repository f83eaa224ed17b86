// Indices that are out of range: how kernels report the first one of an execution to the device.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <utility>

#include "backends/common/index_rule.h"

namespace gabbro::cpu {

class IndexFault {
 public:
  // Called by any worker; the first call counts. The rule must outlive the execution.
  void report(const abi::IndexRule& rule, int64_t index) {
    if (set_.exchange(true, std::memory_order_relaxed)) return;
    rule_ = &rule;
    index_ = index;
  }

  // After the workers are done: the message of the execution's first report, if there was one. Resets it.
  std::optional<std::string> take() {
    if (!set_.load(std::memory_order_relaxed)) return std::nullopt;
    set_.store(false, std::memory_order_relaxed);
    return abi::bad_index_message(*rule_, index_);
  }

 private:
  std::atomic<bool> set_{false};
  const abi::IndexRule* rule_ = nullptr;
  int64_t index_ = 0;
};

// Base of the kernels that read indices. The device calls report_to() once the kernel is made; without it, an index
// that is out of range selects nothing, and no one is told.
class IndexReader {
 public:
  explicit IndexReader(abi::IndexRule rule) : rule_(std::move(rule)) {}
  virtual ~IndexReader() = default;

  void report_to(IndexFault* fault) { fault_ = fault; }

 protected:
  // The position that the index selects; -1 if it is ignored, or out of range, which is reported.
  int64_t position(int64_t index) const {
    if (index >= 0 && index < rule_.size && index != rule_.ignored) [[likely]]
      return index;
    return special_position(index);
  }

 private:
  int64_t special_position(int64_t index) const {
    if (index == rule_.ignored) return -1;
    if (index < 0 && index >= rule_.least) return index + rule_.size;
    if (fault_ != nullptr) fault_->report(rule_, index);
    return -1;
  }

  abi::IndexRule rule_;
  IndexFault* fault_ = nullptr;
};

}  // namespace gabbro::cpu
