// Whether a device replays lists of launches as graphs: by the runtime's rules, GABBRO_GRAPHS, a test whose verdict is
// kept in the tuning file, and what failed since. Shared by the streams of a device.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>

#include "backends/gpu/api.h"
#include "backends/gpu/graph_check.h"

namespace gabbro::gpu {

class GraphPolicy {
 public:
  static constexpr const char* kTested = "tested";                            // evidence
  static constexpr const char* kSwitchedOff = "GABBRO_GRAPHS=0 asks for it";  // reason

  struct Source {
    std::function<std::string()> device;  // hardware, driver and runtime, for which a verdict holds
    std::function<std::string()> file;    // path of the tuning file; empty: verdicts are not kept
    std::function<GraphCheck()> check;
  };

  // GABBRO_GRAPHS=0: no graphs; 1: graphs without a test, also on a runtime that is known for wrong ones.
  GraphPolicy(api::GraphRules rules, Source source);

  // Asked before each list: false once it is known that there are no graphs.
  bool enabled() const { return enabled_.load(std::memory_order_relaxed); }
  // Asked before a graph is captured: the first call may test graphs, for less than a second.
  bool allowed();
  // Tests graphs, whatever is known of them, unless they are off.
  void check_again();
  // A capture or the launch of a graph failed. The second failure is the last.
  void failed(const std::string& message);

  size_t most_graphs() const { return rules_.most; }  // of a stream
  size_t spare_bytes() const { return rules_.spare; }
  // Why there are no graphs, in one line; empty: there are.
  std::string reason() const;
  // How it is known that graphs work: kTested, "tested before (FILE)", or empty.
  std::string evidence() const;

 private:
  // With the mutex held, as the next ones.
  void decide();
  void decide_by_check(int unfinished);
  void disable(std::string reason);

  api::GraphRules rules_;
  const Source source_;
  mutable std::mutex mutex_;
  std::atomic<bool> enabled_{true};
  bool decided_ = false;
  int failures_ = 0;
  std::string reason_, evidence_;
};

}  // namespace gabbro::gpu
