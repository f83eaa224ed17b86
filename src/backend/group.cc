#include "src/backend/group.h"

#include <algorithm>
#include <set>

#include "src/base/error.h"

namespace gabbro {
namespace {

// Addresses of the tensors, in the order of the ranks.
std::vector<void*> memory_of(std::span<const Tensor> of_ranks) {
  std::vector<void*> memory;
  for (const Tensor& tensor : of_ranks) memory.push_back(tensor.state().storage.get());
  return memory;
}

std::string names_of(std::span<const std::shared_ptr<Device>> devices) {
  std::string names;
  for (const std::shared_ptr<Device>& device : devices)
    names += (names.empty() ? "" : ", ") + std::string(device->facts().id);
  return names;
}

}  // namespace

Group::Group(std::vector<std::shared_ptr<Device>> devices) : devices_(std::move(devices)) {
  if (devices_.empty()) throw bad_input("a group needs a device");
  backend_ = devices_.front()->state().backend;
  std::set<const Device*> seen;
  std::vector<abi::Device*> ranks;
  for (const std::shared_ptr<Device>& device : devices_) {
    if (device->state().backend != backend_)
      throw bad_input("a group has devices of one backend, not {}", names_of(devices_));
    if (!seen.insert(device.get()).second) throw bad_input("a group has {} twice", device->facts().id);
    ranks.push_back(device->state().device);
  }
  if (devices_.size() == 1) return;
  const std::string doing = "a group of " + names_of(devices_);
  if (backend_->create_group == nullptr) throw failed("{}: the backend has no collectives", doing);
  check(backend_->create_group(ranks.data(), static_cast<int32_t>(ranks.size()), &group_), doing);
  if (backend_->rank_sums == nullptr) {
    no_rank_sums_ = "the backend has none";
  } else if (const abi::Status status = backend_->rank_sums(group_, &rank_sums_); status.code != abi::StatusCode::kOk) {
    no_rank_sums_ = status.message;
  }
}

Group::~Group() {
  if (group_ == nullptr) return;
  try {
    for (const std::shared_ptr<Device>& device : devices_) device->synchronize();
  } catch (const Error&) {
    // A device failed: it does nothing more.
  }
  backend_->destroy_group(group_);
}

void Group::require(const char* collective, std::span<const Tensor> of_ranks) const {
  if (of_ranks.size() != devices_.size())
    throw bad_input("[{}] {} tensors for {} ranks", collective, of_ranks.size(), devices_.size());
  for (size_t rank = 0; rank < devices_.size(); ++rank) {
    const Tensor& tensor = of_ranks[rank];
    if (!tensor.defined() || !tensor.has_value() || tensor.device() != devices_[rank])
      throw bad_input("[{}] the tensor of rank {} has no value on {}", collective, rank, devices_[rank]->facts().id);
    if (tensor.spec() != of_ranks.front().spec())
      throw bad_input("[{}] the tensor of rank {} is another than that of rank 0", collective, rank);
    if (!tensor.state().layout.is_contiguous() || tensor.state().layout.offset != 0)
      throw bad_input("[{}] the tensor of rank {} is not contiguous", collective, rank);
  }
}

std::vector<Tensor> Group::all_reduce(std::span<const Tensor> of_ranks, abi::Reduction reduction) const {
  require("all_reduce", of_ranks);
  if (group_ == nullptr) return {of_ranks.begin(), of_ranks.end()};
  const Tensor& first = of_ranks.front();
  std::vector<Tensor> results;
  for (const std::shared_ptr<Device>& device : devices_)
    results.push_back(device->upload(first.dtype(), first.shape(), nullptr));
  check(backend_->all_reduce(group_, nullptr, memory_of(of_ranks).data(), memory_of(results).data(), first.dtype(),
                             first.shape().elements(), reduction),
        "all_reduce on " + names_of(devices_));
  return results;
}

void Group::stop_rank_sums() const {
  if (rank_sums_ != 0) backend_->stop_rank_sums(group_);
}

void Group::begin_rank_sums() const {
  if (rank_sums_ != 0) check(backend_->begin_rank_sums(group_), "sums on " + names_of(devices_));
}

std::optional<size_t> Group::late_rank() const {
  const int32_t rank = rank_sums_ == 0 ? -1 : backend_->late_rank(group_);
  return rank < 0 ? std::nullopt : std::optional(static_cast<size_t>(rank));
}

std::vector<Tensor> Group::all_gather(std::span<const Tensor> of_ranks) const {
  require("all_gather", of_ranks);
  if (group_ == nullptr) return {of_ranks.begin(), of_ranks.end()};
  if (backend_->all_gather == nullptr) throw failed("all_gather on {}: the backend has none", names_of(devices_));
  const Tensor& first = of_ranks.front();
  if (first.shape().rank() == 0) throw bad_input("[all_gather] a scalar has no axis to gather along");
  std::vector<int64_t> lengths(first.shape().lengths().begin(), first.shape().lengths().end());
  lengths.front() *= std::ssize(devices_);
  std::vector<Tensor> results;
  for (const std::shared_ptr<Device>& device : devices_)
    results.push_back(device->upload(first.dtype(), Shape(lengths), nullptr));
  check(backend_->all_gather(group_, nullptr, memory_of(of_ranks).data(), memory_of(results).data(),
                             dtype_bytes(first.dtype(), static_cast<size_t>(first.shape().elements()))),
        "all_gather on " + names_of(devices_));
  return results;
}

}  // namespace gabbro
