// Data parallel training: one module computes a part of the batch on each of several devices, with copies of its
// parameters. Their gradients come back as sums in the order of the devices.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "src/train/device_links.h"

namespace gabbro::train {

struct ReplicaOptions {
  // Gradients are exchanged in groups of this size, while the devices compute the next ones. 25 MiB as PyTorch's
  // DistributedDataParallel: a transfer of that size takes long enough to reach the bandwidth of a link.
  size_t bucket_bytes = size_t{25} << 20;
  // Called with the sums over the devices of a backward pass, on the first device, undefined for parameters that had no
  // gradient; changes them. Null: there are no other processes.
  std::function<void(std::span<const Tensor> parameters, std::vector<Tensor>& sums)> across_processes = nullptr;
};

class Replicas : public std::enable_shared_from_this<Replicas> {
 public:
  // Throws bad_input for no devices and for a device that is there twice.
  explicit Replicas(Devices devices, ReplicaOptions options = {});

  const Devices& devices() const { return devices_; }
  DeviceLinks& links() { return *links_; }

  // Values of the parameters on each device: [device][parameter]. A parameter that has not changed since the
  // last call is not copied again. The gradient of a parameter is ((g0 + g1) + g2) + ..., of the gradients of the
  // devices in their order, in f32 where they are f16 or bf16. A device that a parameter is not used on adds nothing.
  // Throws bad_input for parameters that are not on the first device.
  std::vector<std::vector<Tensor>> replicate(std::span<const Tensor> parameters);

 private:
  struct Known {
    std::weak_ptr<TensorState> source;
    Tensor held;                 // the source, unless it is trained
    std::vector<Tensor> copies;  // of devices 1, 2, ...
  };

  std::vector<Tensor> sums_of(std::span<const Tensor> gradients, size_t parameters) const;
  std::vector<size_t> bucket_ends(std::span<const Tensor> gradients, size_t parameters) const;

  const Devices devices_;
  const ReplicaOptions options_;
  const std::shared_ptr<DeviceLinks> links_ = std::make_shared<DeviceLinks>();
  std::vector<Known> known_;  // by parameter
};

}  // namespace gabbro::train
