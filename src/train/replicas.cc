#include "src/train/replicas.h"

#include <algorithm>
#include <optional>
#include <set>

#include "src/base/error.h"
#include "src/graph/history.h"
#include "src/ops/ops.h"
#include "src/plan/eval.h"

namespace gabbro::train {
namespace {

// In f32 where the gradients have 16 bits.
Tensor sum_in_order(std::span<const Tensor> addends) {
  Tensor sum;
  size_t count = 0;
  for (const Tensor& addend : addends) {
    if (!addend.defined()) continue;
    ++count;
    const bool is_half = addend.dtype() == DType::f16 || addend.dtype() == DType::bf16;
    const Tensor wide = is_half && addends.size() > 1 ? cast(addend, DType::f32) : addend;
    sum = sum.defined() ? sum + wide : wide;
  }
  if (count == 0) return sum;
  for (const Tensor& addend : addends)
    if (addend.defined()) return cast(sum, addend.dtype());
  return sum;
}

}  // namespace

Replicas::Replicas(Devices devices, ReplicaOptions options)
    : devices_(std::move(devices)), options_(std::move(options)) {
  if (devices_.empty()) throw bad_input("[DataParallel] no devices are given");
  std::set<const Device*> seen;
  for (const std::shared_ptr<Device>& device : devices_)
    if (!seen.insert(device.get()).second) throw bad_input("[DataParallel] {} is given twice", device->facts().id);
}

std::vector<std::vector<Tensor>> Replicas::replicate(std::span<const Tensor> parameters) {
  const size_t count = parameters.size();
  std::vector<Tensor> changed;
  std::vector<size_t> which;
  known_.resize(count);
  for (size_t i = 0; i < count; ++i) {
    const Tensor& parameter = parameters[i];
    if (parameter.device() != devices_.front())
      throw bad_input("[DataParallel] a parameter of shape {} is on {}, not on {}", parameter.shape().to_string(),
                      parameter.device()->facts().id, devices_.front()->facts().id);
    if (known_[i].source.lock() == parameter.shared_state()) continue;
    which.push_back(i);
    changed.push_back(parameter);
  }
  eval(parameters);
  std::vector<DeviceLinks::Exchange> exchanges;
  for (size_t rank = 1; rank < devices_.size(); ++rank)
    exchanges.push_back(links_->send(changed, Devices(changed.size(), devices_[rank])));
  for (const size_t i : which) {
    const bool is_trained = needs_gradient(parameters[i]);
    known_[i] = {.source = parameters[i].shared_state(), .held = is_trained ? Tensor() : parameters[i], .copies = {}};
  }
  for (DeviceLinks::Exchange& exchange : exchanges) {
    const std::vector<Tensor> copies = links_->receive(std::move(exchange));
    for (size_t i = 0; i < which.size(); ++i) known_[which[i]].copies.push_back(copies[i]);
  }
  std::vector<Tensor> values;  // [device · parameter]
  for (size_t rank = 0; rank < devices_.size(); ++rank)
    for (size_t i = 0; i < count; ++i) values.push_back(rank == 0 ? parameters[i] : known_[i].copies[rank - 1]);
  if (count > 0) {
    const auto summed = [self = shared_from_this(), leaves = std::vector<Tensor>(parameters.begin(), parameters.end())](
                            std::span<const Tensor> gradients) {
      std::vector<Tensor> sums = self->sums_of(gradients, leaves.size());
      if (self->options_.across_processes != nullptr) self->options_.across_processes(leaves, sums);
      return sums;
    };
    values = with_gradient(parameters, values, summed);
  }
  std::vector<std::vector<Tensor>> of_devices;
  for (size_t rank = 0; rank < devices_.size(); ++rank)
    of_devices.emplace_back(values.begin() + static_cast<int64_t>(rank * count),
                            values.begin() + static_cast<int64_t>((rank + 1) * count));
  return of_devices;
}

// The ends of buckets, which begin with the last parameter, whose gradient is the first to be computed.
std::vector<size_t> Replicas::bucket_ends(std::span<const Tensor> gradients, size_t parameters) const {
  std::vector<size_t> ends;
  size_t bytes = 0;
  for (size_t i = parameters; i-- > 0;) {
    for (size_t at = i; at < gradients.size(); at += parameters) {
      if (!gradients[at].defined()) continue;
      bytes += dtype_bytes(gradients[at].dtype(), static_cast<size_t>(gradients[at].shape().elements()));
      break;
    }
    if (bytes < options_.bucket_bytes && i > 0) continue;
    ends.push_back(i);
    bytes = 0;
  }
  return ends;
}

// The devices compute the gradients of a bucket while the bucket before is on its way.
std::vector<Tensor> Replicas::sums_of(std::span<const Tensor> gradients, size_t parameters) const {
  std::vector<Tensor> sums(parameters);
  struct Bucket {
    size_t begin, end;
    DeviceLinks::Exchange exchange;
  };
  std::optional<Bucket> open;
  const auto close = [&] {
    if (!open) return;
    const std::vector<Tensor> received = links_->receive(std::move(open->exchange));
    const size_t length = open->end - open->begin;
    std::vector<Tensor> computed;
    for (size_t i = 0; i < length; ++i) {
      std::vector<Tensor> addends;
      for (size_t rank = 0; rank < devices_.size(); ++rank) addends.push_back(received[rank * length + i]);
      sums[open->begin + i] = sum_in_order(addends);
      if (sums[open->begin + i].defined()) computed.push_back(sums[open->begin + i]);
    }
    eval(computed);
    open.reset();
  };
  size_t end = parameters;
  for (const size_t begin : bucket_ends(gradients, parameters)) {
    std::vector<Tensor> bucket;
    for (size_t rank = 0; rank < devices_.size(); ++rank)
      for (size_t i = begin; i < end; ++i) bucket.push_back(gradients[rank * parameters + i]);
    DeviceLinks::Exchange exchange = links_->send(bucket, Devices(bucket.size(), devices_.front()));
    close();
    open.emplace(Bucket{.begin = begin, .end = end, .exchange = std::move(exchange)});
    end = begin;
  }
  close();
  return sums;
}

}  // namespace gabbro::train
