#include "src/report/examined_device.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/error.h"
#include "src/base/half.h"
#include "src/formats/quant/quant.h"

namespace gabbro::report {
namespace {

std::vector<std::byte> converted(const std::vector<float>& values, DType dtype, int64_t columns) {
  std::vector<std::byte> bytes(dtype_bytes(dtype, values.size()));
  const size_t rows = values.size() / static_cast<size_t>(columns), row_bytes = bytes.size() / rows;
  for (size_t row = 0; row < rows; ++row)
    quantize_row(dtype, values.data() + row * static_cast<size_t>(columns), bytes.data() + row * row_bytes, columns);
  return bytes;
}

}  // namespace

DevicePointer open_examined_device(const PartOptions& options) {
  DevicePointer device = open_device(options.device.empty() ? "gpu" : options.device);
  if (device->facts().wave_size == 1) throw Error(ErrorCode::kNoDevice, "the device is a CPU");
  return device;
}

Buffer make_buffer(Device& device, std::initializer_list<int64_t> shape, DType dtype) {
  Buffer buffer;
  buffer.view.rank = static_cast<int32_t>(shape.size());
  buffer.view.dtype = dtype;
  buffer.view.layout = abi::Layout::kStrided;
  std::ranges::copy(shape, buffer.view.shape);
  int64_t count = 1;
  for (size_t i = shape.size(); i-- > 0; count *= buffer.view.shape[i]) buffer.view.strides[i] = count;
  buffer.bytes = dtype_bytes(dtype, static_cast<size_t>(count));
  buffer.memory = device.allocate(buffer.bytes);
  buffer.view.data = buffer.memory.get();
  return buffer;
}

std::vector<float> random_floats(size_t count, uint32_t seed) {
  std::vector<float> values(count);
  for (float& value : values) {
    seed = seed * 1664525 + 1013904223;
    value = static_cast<float>(seed >> 8) * 0x1p-23f - 1;
  }
  return values;
}

Buffer random_buffer(Device& device, std::initializer_list<int64_t> shape, DType dtype, uint32_t seed) {
  Buffer buffer = make_buffer(device, shape, dtype);
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  const std::vector<float> values = random_floats(static_cast<size_t>(count), seed);
  const std::vector<std::byte> bytes = converted(values, dtype, *(shape.end() - 1));
  device.copy_to_device(buffer.view.data, bytes.data(), bytes.size());
  return buffer;
}

Buffer zero_buffer(Device& device, std::initializer_list<int64_t> shape, DType dtype) {
  Buffer buffer = make_buffer(device, shape, dtype);
  const std::vector<std::byte> zeros(buffer.bytes);
  device.copy_to_device(buffer.view.data, zeros.data(), zeros.size());
  return buffer;
}

Buffer random_weight(Device& device, int64_t rows, int64_t columns, DType dtype, uint32_t seed) {
  const Device::State& state = device.state();
  Buffer file = random_buffer(device, {rows, columns}, dtype, seed);
  const size_t packed = state.backend->packed_bytes(state.device, dtype, rows, columns);
  if (packed == 0) return file;
  Buffer weight = file;
  weight.bytes = packed;
  weight.memory = device.allocate(packed);
  weight.view.data = weight.memory.get();
  weight.view.layout = abi::Layout::kPacked;
  const abi::PackRequest request = {dtype, rows, columns, 0, rows};
  check(state.backend->pack(state.device, nullptr, &request, file.view.data, weight.view.data), "packing a weight");
  device.synchronize();
  return weight;
}

std::vector<float> downloaded(Device& device, const Buffer& f32) {
  std::vector<float> values(f32.bytes / sizeof(float));
  device.copy_to_host(values.data(), f32.view.data, f32.bytes);
  return values;
}

abi::Launch KernelCall::launch() {
  return {.kernel = kernel_->bound.handle,
          .inputs = inputs_.data(),
          .outputs = &output_,
          .input_count = static_cast<int32_t>(inputs_.size()),
          .output_count = 1,
          .scratch = scratch_.get()};
}

KernelCall::KernelCall(std::shared_ptr<KernelHandle> kernel, const std::vector<Buffer>& inputs, const Buffer& output,
                       std::shared_ptr<void> scratch)
    : kernel_(std::move(kernel)), output_(output.view), scratch_(std::move(scratch)), operands_{output.memory} {
  for (const Buffer& input : inputs) {
    inputs_.push_back(input.view);
    operands_.push_back(input.memory);
  }
}

std::optional<KernelCall> make_call(Device& device, const char* op, const std::vector<Buffer>& inputs,
                                    const Buffer& output, double scale) {
  std::vector<abi::TensorView> views;
  for (const Buffer& buffer : inputs) {
    views.push_back(buffer.view);
    views.back().data = nullptr;
  }
  abi::TensorView result = output.view;
  result.data = nullptr;
  const abi::Attribute attribute = {"scale", abi::AttributeKind::kReal, 0, scale, nullptr};
  const abi::KernelRequest request = {.op = op,
                                      .inputs = views.data(),
                                      .input_count = static_cast<int32_t>(views.size()),
                                      .outputs = &result,
                                      .output_count = 1,
                                      .attributes = &attribute,
                                      .attribute_count = scale != 0 ? 1 : 0};
  std::shared_ptr<KernelHandle> kernel = find_kernel(device, request);
  if (kernel == nullptr) return std::nullopt;
  std::shared_ptr<void> scratch = device.allocate(std::max<size_t>(kernel->bound.scratch_bytes, 64));
  return KernelCall(std::move(kernel), inputs, output, std::move(scratch));
}

std::string hash_of(const void* data, size_t bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (size_t i = 0; i < bytes; ++i) hash = (hash ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001b3;
  return fmt::format("{:016x}", hash);
}

}  // namespace gabbro::report
