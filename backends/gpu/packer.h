// Packing of weights on the device, as work on a queue.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "backends/gpu/api.h"

namespace gabbro::gpu {

class Packer {
 public:
  explicit Packer(api::Context* context) : context_(context) {}

  static std::string kernel_name(DType dtype);

  // abi::Backend::pack by `function`, the kernel of that name. Formats without one (null) are packed by the host, which
  // waits for the queue.
  void pack(api::Queue* queue, const api::Function* function, const abi::PackRequest& request, const void* source,
            void* target);

 private:
  void pack_on_host(api::Queue* queue, const abi::PackRequest& request, const void* source, void* target);
  const uint16_t* grid_of(DType dtype, api::Queue* queue);

  api::Context* context_;
  std::mutex mutex_;
  std::map<DType, std::shared_ptr<uint16_t>> grids_;  // on the device
};

}  // namespace gabbro::gpu
