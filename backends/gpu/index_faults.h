// Indices that are out of range: kernels report the first one in memory of the host, which reads it where it waits for
// the device anyway. Costs neither a launch nor a copy unless there is one.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backends/common/index_rule.h"
#include "backends/gpu/api.h"
#include "kernels/index/index_check.h"

namespace gabbro::gpu {

class IndexFaults {
 public:
  explicit IndexFaults(api::Context* context);

  // Forgets what was reported; also to be called once before the first kernel runs.
  void reset(api::Queue* queue);

  // For a kernel that reads indices by this rule.
  IndexCheck check_for(const abi::IndexRule& rule);

  // After a wait for `queue`: the message of the first report since the last call, if there was one. Resets it.
  std::optional<std::string> take(api::Queue* queue);

 private:
  // The call that gave an index. Kept as long as the device: launches of a released kernel may still be running.
  struct Site {
    std::string op;
    int64_t axis;
    bool labels;
    bool operator==(const Site&) const = default;
  };

  std::shared_ptr<IndexFault> fault_;  // pinned
  std::shared_ptr<u32> claimed_;       // of the device
  std::vector<Site> sites_;
  std::mutex mutex_;
};

}  // namespace gabbro::gpu
