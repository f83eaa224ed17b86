// Copies from other devices of this backend into the memory of one. They go directly where the devices reach each other
// and a test with checksums comes out right; cards of AMD are known to damage what they send each other where the IOMMU
// is set up badly. Else, and where that is faster, they go through pinned memory of the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "backends/gpu/api.h"

namespace gabbro::gpu {

// One end of a copy. Nothing else may use its queue meanwhile.
struct PeerEnd {
  int32_t index;  // of the device
  api::Context* context;
  api::Queue* queue;
};

struct PeerCopy {
  void* target;
  const void* source;
  size_t bytes;
};

class PeerCopies {
 public:
  struct Route {
    bool direct = false;
    std::string reason;                       // why not, in one line
    bool damaged = false;                     // since bytes arrived that were not sent
    double direct_rate = 0, staged_rate = 0;  // bytes/s; 0: not measured
  };
  static constexpr const char* kSwitchedOff = "GABBRO_PEER_COPIES=0 asks for it";

  explicit PeerCopies(const PeerEnd& own) : own_(own) {}

  // How copies from the other device go. The first call tests it, which takes some milliseconds.
  const Route& route_from(const PeerEnd& from);

  // Nothing before route_from().
  const Route* known_route(int32_t index) const;

  // Enqueues the copy on a queue of the receiver, after what that one was given. Throws ApiError.
  static void enqueue_direct(api::Queue* to, api::Context* from, const PeerCopy& copy);
  // Through the host's memory, with the queue of the other end for the first half of the way; both wait for each other
  // by events.
  void enqueue_staged(api::Queue* to, const PeerEnd& from, const PeerCopy& copy);

 private:
  struct ReleasePinned {
    api::Context* context;
    void operator()(void* memory) const { api::release_pinned(context, memory); }
  };

  // These wait for the copy.
  void copy_directly(const PeerEnd& from, const PeerCopy& copy);
  void copy_staged(const PeerEnd& from, const PeerCopy& copy);
  Route examine(const PeerEnd& from);
  Route test(const PeerEnd& from);
  // Times both routes with memory of the test, and takes the direct one unless it is clearly slower.
  Route timed(const PeerEnd& from, void* target, const void* source);

  struct DestroyEvent {
    void operator()(api::Event* event) const { api::destroy_event(event); }
  };
  using EventPointer = std::unique_ptr<api::Event, DestroyEvent>;

  PeerEnd own_;
  std::map<int32_t, Route> routes_;  // by the other device's index
  // Two stages of pinned memory, made by the first copy through them. A stage is free again after its event.
  std::unique_ptr<void, ReleasePinned> stage_{nullptr, {own_.context}};
  EventPointer stage_free_[2], begin_;
  size_t turn_ = 0;
};

}  // namespace gabbro::gpu
