// For the tests of kernels: tensors that own their memory, requests made of them, and comparison with a reference that
// names the worst element. Each test runs for every instruction set that this machine has, with one to three workers.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "backends/cpu/isa.h"
#include "backends/cpu/kernel.h"
#include "backends/cpu/pool.h"
#include "src/base/half.h"

namespace gabbro::cpu::test {

using Shape = std::vector<int64_t>;

// A strided view of memory of its own.
class Tensor {
 public:
  Tensor(DType dtype, Shape shape) : Tensor(dtype, shape, contiguous(shape), 0, product(shape)) {}
  // `span` elements of memory; the first element of the view is number `offset`.
  Tensor(DType dtype, const Shape& shape, const Shape& strides, int64_t offset, int64_t span)
      : offset_(offset), memory_(dtype_bytes(dtype, static_cast<size_t>(span)) + 64) {
    view_ = {.rank = static_cast<int32_t>(shape.size()), .dtype = dtype, .layout = abi::Layout::kStrided};
    std::copy(shape.begin(), shape.end(), view_.shape);
    std::copy(strides.begin(), strides.end(), view_.strides);
  }

  static int64_t product(std::span<const int64_t> shape) {
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    return count;
  }
  static Shape contiguous(const Shape& shape) {
    Shape strides(shape.size());
    int64_t stride = 1;
    for (size_t i = shape.size(); i-- > 0; stride *= shape[i]) strides[i] = stride;
    return strides;
  }

  abi::TensorView view() {
    abi::TensorView view = view_;
    view.data = memory_.data() + dtype_bytes(view_.dtype, static_cast<size_t>(offset_));
    return view;
  }
  int64_t count() const { return product({view_.shape, static_cast<size_t>(view_.rank)}); }

  template <class T>
  T* data() {
    return static_cast<T*>(view().data);
  }

  // The element that is number `index` in row-major order.
  template <class T>
  T& at(int64_t index) {
    int64_t position = 0;
    for (int axis = view_.rank - 1; axis >= 0; --axis) {
      position += index % view_.shape[axis] * view_.strides[axis];
      index /= view_.shape[axis];
    }
    return data<T>()[position];
  }

  // All of the memory, also what the view does not show.
  template <class T>
  Tensor& fill(const std::function<T()>& next) {
    T* memory = reinterpret_cast<T*>(memory_.data());
    for (size_t i = 0; i < (memory_.size() - 64) / sizeof(T); ++i) memory[i] = next();
    return *this;
  }
  Tensor& random(std::mt19937& generator, float low = -2, float high = 2) {
    std::uniform_real_distribution<float> uniform(low, high);
    return fill<float>([&] { return uniform(generator); });
  }

  template <class T>
  std::vector<T> values() {
    std::vector<T> all(static_cast<size_t>(count()));
    for (int64_t i = 0; i < count(); ++i) all[i] = at<T>(i);
    return all;
  }

 private:
  abi::TensorView view_{};
  int64_t offset_;
  std::vector<std::byte> memory_;
};

inline abi::Attribute integer(const char* name, int64_t value) {
  return {.name = name, .kind = abi::AttributeKind::kInteger, .integer = value};
}
inline abi::Attribute real(const char* name, double value) {
  return {.name = name, .kind = abi::AttributeKind::kReal, .real = value};
}

// One call of an op. `inputs` and `outputs` are borrowed.
struct Call {
  const char* op;
  std::vector<Tensor*> inputs;
  std::vector<Tensor*> outputs;
  std::vector<abi::Attribute> attributes;
};

inline std::vector<abi::TensorView> views(const std::vector<Tensor*>& tensors) {
  std::vector<abi::TensorView> all;
  for (Tensor* tensor : tensors) all.push_back(tensor->view());
  return all;
}

// Null where the set has no kernel for the call.
inline std::unique_ptr<Kernel> make(const IsaTable& isa, const Call& call, int workers) {
  std::vector<abi::TensorView> in = views(call.inputs);
  std::vector<abi::TensorView> out = views(call.outputs);
  for (auto* list : {&in, &out}) {
    for (abi::TensorView& view : *list) view.data = nullptr;
  }
  const abi::KernelRequest request{call.op,
                                   in.data(),
                                   static_cast<int32_t>(in.size()),
                                   out.data(),
                                   static_cast<int32_t>(out.size()),
                                   call.attributes.data(),
                                   static_cast<int32_t>(call.attributes.size())};
  for (const KernelEntry& entry : isa.kernels) {
    if (std::string_view(entry.op) != call.op) continue;
    if (auto kernel = entry.make(request, {.workers = workers})) return kernel;
  }
  return nullptr;
}

// Carries the call out; the scratch memory holds NaNs before, and a guard behind it must stay.
inline void run(const IsaTable& isa, const Call& call, ThreadPool& pool) {
  const auto kernel = make(isa, call, pool.workers());
  ASSERT_NE(kernel, nullptr) << isa.name << " has no kernel for this " << call.op;
  std::vector<abi::TensorView> in = views(call.inputs);
  std::vector<abi::TensorView> out = views(call.outputs);
  constexpr size_t kGuard = 64;
  std::vector<uint8_t> scratch(kernel->scratch_bytes + 64 + kGuard, 0xff);
  uint8_t* aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64;
  const abi::Launch launch{.kernel = kernel.get(),
                           .inputs = in.data(),
                           .outputs = out.data(),
                           .input_count = static_cast<int32_t>(in.size()),
                           .output_count = static_cast<int32_t>(out.size()),
                           .scratch = aligned};
  pool.run([&](Worker& worker) { kernel->run(launch, worker); });
  for (size_t i = 0; i < kGuard; ++i) {
    ASSERT_EQ(aligned[kernel->scratch_bytes + i], 0xff) << call.op << " wrote past its scratch memory";
  }
  EXPECT_FALSE(kernel->implementation.empty());
}

// Calls body(isa, pool) for each set that runs here and for one to three workers.
inline void for_each_isa(const std::function<void(const IsaTable&, ThreadPool&)>& body) {
  for (const IsaTable* isa : isa_tables()) {
    if (!isa->supported()) continue;
    for (int workers = 1; workers <= 3; ++workers) {
      SCOPED_TRACE(std::string(isa->name) + ", " + std::to_string(workers) + " workers");
      ThreadPool pool(workers, 2);
      body(*isa, pool);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

// |actual - expected| ≤ tolerance(i) for all i, and NaN where NaN is expected; else one failure with the worst element.
template <class Tolerance>
void expect_close(const std::vector<float>& actual, const std::vector<double>& expected, Tolerance&& tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  double worst = 1;
  std::string message;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double a = actual[i];
    if (std::isnan(a) && std::isnan(expected[i])) continue;
    if (a == expected[i]) continue;
    const double ratio = std::abs(a - expected[i]) / tolerance(i);
    if (ratio <= worst) continue;
    worst = std::isnan(ratio) ? std::numeric_limits<double>::infinity() : ratio;
    if (std::isnan(ratio) || ratio > 1) {
      message = "element " + std::to_string(i) + ": expected " + std::to_string(expected[i]) + ", got " +
                std::to_string(a) + ", " + std::to_string(worst) + " times the tolerance of " +
                std::to_string(tolerance(i) * 1e9) + "e-9";
    }
  }
  EXPECT_TRUE(message.empty()) << message;
}

inline constexpr double kEpsilon = std::numeric_limits<float>::epsilon();

}  // namespace gabbro::cpu::test
