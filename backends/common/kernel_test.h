// For the tests of kernels, on every device: tensors that own their memory, calls of an op with them, and comparison
// with a reference that names the worst element.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "gabbro/backend_abi.h"

namespace gabbro::kernel_test {

using Shape = std::vector<int64_t>;

// A strided view that owns its memory.
class Tensor {
 public:
  Tensor(DType dtype, Shape shape) : Tensor(dtype, shape, contiguous(shape), 0, product(shape)) {}
  // `span` elements of memory; the first element of the view is number `offset`.
  Tensor(DType dtype, const Shape& shape, const Shape& strides, int64_t offset, int64_t span)
      : offset_(offset), memory_(dtype_bytes(dtype, static_cast<size_t>(span)) + kSlack) {
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
    view.data = memory_.data() + offset_bytes();
    return view;
  }
  // All of the memory, and where the view begins in it.
  std::span<std::byte> memory() { return {memory_.data(), memory_.size() - kSlack}; }
  int64_t offset_bytes() const { return static_cast<int64_t>(dtype_bytes(view_.dtype, static_cast<size_t>(offset_))); }
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
    T* all = reinterpret_cast<T*>(memory_.data());
    for (size_t i = 0; i < memory().size() / sizeof(T); ++i) all[i] = next();
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
  static constexpr size_t kSlack = 64;  // behind the end, for reads of whole vectors
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

// One call of an op. `inputs` and `outputs` are borrowed; an output that is an input too is written in place.
struct Call {
  const char* op;
  std::vector<Tensor*> inputs;
  std::vector<Tensor*> outputs;
  std::vector<abi::Attribute> attributes;

  // KernelRequest::aliases.
  std::vector<int32_t> aliases() const {
    std::vector<int32_t> all;
    for (const Tensor* output : outputs) {
      const auto input = std::find(inputs.begin(), inputs.end(), output);
      all.push_back(input == inputs.end() ? -1 : static_cast<int32_t>(input - inputs.begin()));
    }
    return all;
  }
};

inline std::vector<abi::TensorView> views(const std::vector<Tensor*>& tensors) {
  std::vector<abi::TensorView> all;
  for (Tensor* tensor : tensors) all.push_back(tensor->view());
  return all;
}

// Runs kernel calls: one instruction set of the CPU, or one device.
class Target {
 public:
  virtual ~Target() = default;
  virtual bool takes(const Call& call) const = 0;  // whether there is a kernel for it
  virtual void run(const Call& call) const = 0;    // without a kernel the test fails
};

// Calls body for each target of the program that the test is linked into (tests/kernels/isa_target.cc,
// device_target.cc).
void for_each_target(const std::function<void(const Target&)>& body);

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

}  // namespace gabbro::kernel_test
