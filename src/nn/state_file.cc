#include "gabbro/nn/state_file.h"

#include <algorithm>
#include <deque>

#include "src/backend/device.h"
#include "src/base/error.h"
#include "src/formats/hugging_face/safetensors.h"
#include "src/plan/eval.h"

namespace gabbro::nn {
namespace {

template <class T>
std::vector<std::byte> bytes_of(const Tensor& x) {
  const std::vector<T> values = to_host<T>(x);
  const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
  return {bytes, bytes + values.size() * sizeof(T)};
}

// Whether the bytes of a computed tensor can be written directly.
bool in_host_memory(const Tensor& x) { return x.device()->host_accessible() && x.state().layout.is_contiguous(); }

std::span<const std::byte> bytes_in_place(const Tensor& x) {
  const TensorState& state = x.state();
  const auto* storage = static_cast<const std::byte*>(state.storage.get());
  const auto elements = static_cast<size_t>(x.shape().elements());
  return {storage + dtype_bytes(x.dtype(), static_cast<size_t>(state.layout.offset)), dtype_bytes(x.dtype(), elements)};
}

std::vector<std::byte> host_bytes(const Tensor& x) {
  switch (dtype_info(x.dtype()).block_bytes) {
    case 1:
      return bytes_of<int8_t>(x);
    case 2:
      return bytes_of<int16_t>(x);
    case 4:
      return bytes_of<int32_t>(x);
    default:
      return bytes_of<int64_t>(x);
  }
}

// A tensor of the file. Its pages are released once copied, so that the state is in memory once.
Tensor upload(const safetensors::File& file, const safetensors::TensorInfo& info, Device& device) {
  constexpr size_t kSlice = size_t{16} << 20;
  const Tensor tensor = device.upload(info.dtype(), Shape(info.shape), nullptr);
  auto* const target = static_cast<std::byte*>(tensor.state().storage.get());
  const size_t start = static_cast<size_t>(info.data.data() - file.mapped()->bytes().data());
  for (size_t done = 0; done < info.data.size(); done += kSlice) {
    const size_t bytes = std::min(kSlice, info.data.size() - done);
    device.copy_to_device(target + done, info.data.data() + done, bytes);
    file.mapped()->release(start + done, bytes);
  }
  return tensor;
}

}  // namespace

StateDict load_state(const std::string& path, const std::shared_ptr<Device>& device) {
  const safetensors::File file(path);
  StateDict state;
  for (const safetensors::TensorInfo& info : file.tensors()) {
    try {
      state.push_back({info.name, upload(file, info, *device)});
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("{}: {}", path, error.what()), error.hint());
    }
  }
  file.mapped()->require_unchanged();
  return state;
}

void save_state(const std::string& path, const StateDict& state, const std::map<std::string, std::string>& metadata) {
  std::vector<Tensor> values;
  for (const NamedTensor& named : state) {
    if (!named.tensor.defined() || is_quantized(named.tensor.dtype()) || named.tensor.spec().packed)
      throw bad_input("{}: tensor '{}' cannot be saved: only plain ones can", path, named.name);
    values.push_back(named.tensor);
  }
  if (!values.empty()) eval(values);
  std::deque<std::vector<std::byte>> bytes;
  std::vector<safetensors::TensorData> tensors;
  for (const NamedTensor& named : state) {
    const std::span<const int64_t> shape = named.tensor.shape().lengths();
    tensors.push_back({.name = named.name,
                       .dtype = named.tensor.dtype(),
                       .shape = {shape.begin(), shape.end()},
                       .data = in_host_memory(named.tensor) ? bytes_in_place(named.tensor)
                                                            : bytes.emplace_back(host_bytes(named.tensor))});
  }
  safetensors::write(path, tensors, metadata);
}

void save(const std::string& path, const Module& module) {
  // Metadata that Hugging Face's loaders need.
  save_state(path, module.state_dict(), {{"format", "pt"}});
}

void load(const std::string& path, Module& module, bool strict) {
  const std::shared_ptr<Device> device = module.tensor_device();
  if (device == nullptr) throw bad_input("{}: the module has no tensors", path);
  const StateDict state = load_state(path, device);
  try {
    module.load_state_dict(state, strict);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", path, error.what()), error.hint());
  }
}

}  // namespace gabbro::nn
