// Copies from other devices of this backend into the memory of one. They go directly where the devices reach each other
// and a test with checksums comes out right; cards of AMD are known to damage what they send each other where the IOMMU
// is set up badly. Else, and where that is faster, they go through pinned memory of the host.
#pragma once

#include <cstddef>
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

  // After all that both queues were given; the bytes are there on return. Throws ApiError.
  void copy(void* target, const PeerEnd& from, const void* source, size_t bytes);

  // Through the host's memory, whatever the route.
  void copy_staged(void* target, const PeerEnd& from, const void* source, size_t bytes);

 private:
  struct ReleasePinned {
    api::Context* context;
    void operator()(void* memory) const { api::release_pinned(context, memory); }
  };

  void copy_directly(void* target, const PeerEnd& from, const void* source, size_t bytes);
  Route examine(const PeerEnd& from);
  Route test(const PeerEnd& from);
  // Times both routes with memory of the test, and takes the direct one unless it is clearly slower.
  Route timed(const PeerEnd& from, void* target, const void* source);

  PeerEnd own_;
  std::map<int32_t, Route> routes_;  // by the other device's index
  std::unique_ptr<void, ReleasePinned> stage_{nullptr, {own_.context}};
};

}  // namespace gabbro::gpu
