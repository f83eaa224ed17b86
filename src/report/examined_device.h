// The device that the parts examine, and single calls of its kernels without the planner between them.
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gabbro/backend/device.h"
#include "src/backend/device.h"
#include "src/report/part.h"

namespace gabbro::report {

// Throws Error kNoDevice that says what is missing. Never a CPU.
DevicePointer open_examined_device(const PartOptions& options);

// A tensor in the device's memory, contiguous.
struct Buffer {
  std::shared_ptr<void> memory;
  abi::TensorView view{};
  size_t bytes = 0;
};
Buffer make_buffer(Device& device, std::initializer_list<int64_t> shape, DType dtype);
// With values from a generator, in [-1, 1), or zeros.
Buffer random_buffer(Device& device, std::initializer_list<int64_t> shape, DType dtype, uint32_t seed);
Buffer zero_buffer(Device& device, std::initializer_list<int64_t> shape, DType dtype);
// The matrix [rows, columns] in the device's layout of weights, with random values.
Buffer random_weight(Device& device, int64_t rows, int64_t columns, DType dtype, uint32_t seed);

std::vector<float> random_floats(size_t count, uint32_t seed);
std::vector<float> downloaded(Device& device, const Buffer& f32);

// A kernel with its operands, whose memory it keeps.
class KernelCall {
 public:
  KernelCall(std::shared_ptr<KernelHandle> kernel, const std::vector<Buffer>& inputs, const Buffer& output,
             std::shared_ptr<void> scratch);

  // Valid while the call is neither moved nor destroyed.
  abi::Launch launch();
  const char* implementation() const { return kernel_->bound.implementation; }
  double flops() const { return kernel_->bound.flops; }
  double bytes() const { return kernel_->bound.bytes; }

 private:
  std::shared_ptr<KernelHandle> kernel_;
  std::vector<abi::TensorView> inputs_;
  abi::TensorView output_;
  std::shared_ptr<void> scratch_;
  std::vector<std::shared_ptr<void>> operands_;  // their memory
};

// Nothing where the device has no kernel for it. Integer attributes by name, and a scale if it is not 0.
std::optional<KernelCall> make_call(Device& device, const char* op, const std::vector<Buffer>& inputs,
                                    const Buffer& output, double scale = 0);

template <class Body>
double seconds_of(const Body& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// 16 hexadecimal digits of FNV-1a.
std::string hash_of(const void* data, size_t bytes);

}  // namespace gabbro::report
