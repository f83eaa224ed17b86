// The graphs of a stream: a list of launches that came before is captured when it comes again, and replayed from then
// on.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backends/gpu/accesses.h"
#include "backends/gpu/api.h"
#include "backends/gpu/graph_policy.h"
#include "gabbro/backend_abi.h"

namespace gabbro::gpu {

struct DestroyGraph {
  void operator()(api::Graph* graph) const { api::destroy_graph(graph); }
};
using OwnedGraph = std::unique_ptr<api::Graph, DestroyGraph>;

// A capture on a queue, which the destructor ends if end() was not reached.
class Capture {
 public:
  // Throws ApiError.
  explicit Capture(api::Queue* queue) : queue_(queue) { api::begin_capture(queue); }
  ~Capture() {
    if (queue_ != nullptr) api::abandon_capture(queue_);
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  // Throws ApiError; the capture has ended then too.
  OwnedGraph end() { return OwnedGraph(api::end_capture(std::exchange(queue_, nullptr))); }

 private:
  api::Queue* queue_;
};

// Used with the stream's mutex held.
class GraphCache {
 public:
  // `ahead`: see Launcher.
  using Enqueue = std::function<void(const abi::Launch& launch, const WrittenMemory* ahead)>;

  GraphCache(api::Context* context, api::Queue* queue, GraphPolicy& policy, Enqueue enqueue)
      : context_(context), queue_(queue), policy_(policy), enqueue_(std::move(enqueue)) {}
  GraphCache(const GraphCache&) = delete;
  GraphCache& operator=(const GraphCache&) = delete;

  // Whether the launches went out as a graph. If a graph cannot be made or launched, the list is never tried again.
  // Throws ApiError where the device fails.
  bool replay(const abi::Launch* launches, int32_t count);

  size_t forget();                         // drops all graphs, and returns how many there were
  void forget_kernel(const void* kernel);  // drops those that name it
  size_t graph_count() const;

 private:
  struct Recorded {
    std::vector<const void*> signature;  // the kernels, then the addresses they work on
    int32_t launches = 0;
    OwnedGraph graph;
    const char* name = "a graph";  // for note_launch()
    bool never = false;            // a graph of it failed
    uint64_t used = 0;
  };
  static constexpr size_t kMaxLists = 64;
  static constexpr int32_t kGraphLaunches = 8;  // shorter lists are not worth a graph

  void drop_oldest(bool with_graph);
  bool capture(Recorded& recorded, const abi::Launch* launches, int32_t count);
  bool launch(Recorded& recorded);
  void give_up(Recorded& recorded, const ApiError& error);

  api::Context* const context_;
  api::Queue* const queue_;
  GraphPolicy& policy_;
  const Enqueue enqueue_;
  std::unordered_map<uint64_t, Recorded> recorded_;  // by hash of the signature
  Recorded* last_ = nullptr;                         // that was replayed
  uint64_t clock_ = 0;
};

}  // namespace gabbro::gpu
