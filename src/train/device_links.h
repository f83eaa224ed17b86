// Copies of tensors on other devices, as work on the devices' streams, and graphs whose nodes lead from one device to
// another one.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "src/backend/handoff.h"

namespace gabbro::train {

using Devices = std::vector<std::shared_ptr<Device>>;

class DeviceLinks : public std::enable_shared_from_this<DeviceLinks> {
 public:
  // Tensors that are on the way. At most two exchanges of a pair of devices are open at a time.
  struct Exchange {
    struct Route {
      Handoff* handoff;
      size_t slot;
      std::vector<size_t> tensors;  // of the exchange
    };
    std::vector<Tensor> tensors;  // undefined while they are on the way
    std::vector<Layout> layouts;
    std::vector<Route> routes;
  };

  // Evaluates the tensors, all devices at once, and enqueues copies of tensors[i] on to[i]; undefined tensors stay so,
  // and a tensor that is on its device already is not copied. Throws bad_input for packed matrices.
  Exchange send(std::span<const Tensor> tensors, const Devices& to);
  // The copies, for later work of the receivers' compute streams, without histories.
  std::vector<Tensor> receive(Exchange exchange);
  std::vector<Tensor> copies(std::span<const Tensor> tensors, const Devices& to) { return receive(send(tensors, to)); }

  // Copies through which gradients pass to the tensors.
  std::vector<Tensor> moved(std::span<const Tensor> tensors, const Devices& to);

 private:
  Handoff& handoff(const std::shared_ptr<Device>& from, const std::shared_ptr<Device>& to);

  std::map<std::pair<const Device*, const Device*>, std::unique_ptr<Handoff>> handoffs_;
};

// Gives `values`, which are there, a history: one node whose gradient function makes the gradients
// of `inputs` from theirs. Value i is a copy of input i % inputs.size(), and needs a gradient if that input does.
std::vector<Tensor> with_gradient(std::span<const Tensor> inputs, std::span<const Tensor> values,
                                  std::function<std::vector<Tensor>(std::span<const Tensor>)> gradient);

}  // namespace gabbro::train
