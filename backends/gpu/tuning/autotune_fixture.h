// An opened device of the simulator and products on it, for tests of what is measured, stored and used.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "backends/gpu/sim/memory.h"
#include "backends/gpu/tuning/tuning.h"
#include "backends/gpu/tuning/tuning_file.h"
#include "gabbro/backend_abi.h"
#include "src/base/half.h"

extern "C" const gabbro::abi::Backend* gabbro_backend();

namespace gabbro::gpu::autotuning {

using abi::StatusCode;
using abi::TensorView;

inline const abi::Backend& backend() { return *gabbro_backend(); }

inline TensorView matrix(DType dtype, int64_t rows, int64_t columns) {
  return {.data = nullptr, .shape = {rows, columns}, .strides = {columns, 1}, .rank = 2, .dtype = dtype};
}

// An opened device.
class Opened {
 public:
  Opened(abi::Tuning tuning, const std::string& file) {
    const abi::DeviceOptions options = {.tuning = {.mode = tuning, .file = file.c_str()}};
    EXPECT_EQ(backend().open(0, &options, &device_).code, StatusCode::kOk);
  }
  ~Opened() {
    for (const void* kernel : kernels_) backend().release_kernel(device_, kernel);
    for (void* memory : memory_) backend().free(device_, nullptr, memory);
    backend().close(device_);
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

  abi::BoundKernel find(const char* op, std::vector<TensorView> in, TensorView out,
                        const std::vector<abi::Attribute>& attributes = {}) {
    const abi::KernelRequest request = {.op = op,
                                        .inputs = in.data(),
                                        .input_count = static_cast<int32_t>(in.size()),
                                        .outputs = &out,
                                        .output_count = 1,
                                        .attributes = attributes.data(),
                                        .attribute_count = static_cast<int32_t>(attributes.size())};
    abi::BoundKernel kernel{};
    EXPECT_EQ(backend().find_kernel(device_, &request, &kernel).code, StatusCode::kOk) << op;
    kernels_.push_back(kernel.handle);
    return kernel;
  }

  template <class T>
  void* upload(const std::vector<T>& values) {
    void* memory = allocate(values.size() * sizeof(T));
    EXPECT_EQ(backend().copy_to_device(device_, nullptr, memory, values.data(), values.size() * sizeof(T)).code,
              StatusCode::kOk);
    return memory;
  }

  abi::Status execute(const abi::BoundKernel& kernel, std::vector<TensorView> in, TensorView out) {
    const abi::Launch launch = {.kernel = kernel.handle,
                                .inputs = in.data(),
                                .outputs = &out,
                                .input_count = static_cast<int32_t>(in.size()),
                                .output_count = 1,
                                .scratch = allocate(kernel.scratch_bytes)};
    return backend().execute(device_, nullptr, &launch, 1, nullptr);
  }

  std::vector<float> download(const TensorView& view) {
    std::vector<float> values(static_cast<size_t>(view.shape[0] * view.shape[1]));
    EXPECT_EQ(backend().copy_to_host(device_, nullptr, values.data(), view.data, values.size() * sizeof(float)).code,
              StatusCode::kOk);
    return values;
  }

  void* allocate(size_t bytes) {
    void* memory = nullptr;
    EXPECT_EQ(backend().allocate(device_, nullptr, bytes, &memory).code, StatusCode::kOk);
    memory_.push_back(memory);
    return memory;
  }

  abi::TuningFacts facts() {
    abi::TuningFacts facts{};
    EXPECT_EQ(backend().tuning_facts(device_, &facts).code, StatusCode::kOk);
    return facts;
  }
  abi::MeasuredShape measured(int32_t number) {
    abi::MeasuredShape shape{};
    EXPECT_EQ(backend().measured_shape(device_, number, &shape).code, StatusCode::kOk);
    return shape;
  }

  abi::Status set(const abi::TuningOptions& options) { return backend().set_tuning(device_, &options); }

  abi::Device* get() const { return device_; }

 private:
  abi::Device* device_ = nullptr;
  std::vector<const void*> kernels_;
  std::vector<void*> memory_;
};

// y = x · wᵀ of f16 weights: y[t][r] = sum over k of x[t][k] · w[r][k].
struct Product {
  int64_t tokens, rows = 40, columns = 64;
  std::vector<float> x = std::vector<float>(static_cast<size_t>(tokens * columns));
  std::vector<uint16_t> w = std::vector<uint16_t>(static_cast<size_t>(rows * columns));

  explicit Product(int64_t token_count) : tokens(token_count) {
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7 % 11) - 5;  // exact in f16, and in 8 bits
    for (size_t i = 0; i < w.size(); ++i) w[i] = float_to_half_bits(static_cast<float>(i * 5 % 13) - 6);
  }
  abi::BoundKernel find(Opened& device) const {
    return device.find("linear", {matrix(DType::f32, tokens, columns), matrix(DType::f16, rows, columns)},
                       matrix(DType::f32, tokens, rows));
  }
  abi::Status run(Opened& device, const abi::BoundKernel& kernel, std::vector<float>* y = nullptr) const {
    TensorView in = matrix(DType::f32, tokens, columns), weight = matrix(DType::f16, rows, columns),
               out = matrix(DType::f32, tokens, rows);
    in.data = device.upload(x);
    weight.data = device.upload(w);
    out.data = device.allocate(static_cast<size_t>(tokens * rows) * sizeof(float));
    const abi::Status status = device.execute(kernel, {in, weight}, out);
    if (y != nullptr) *y = device.download(out);
    return status;
  }
  std::vector<float> expected() const {
    std::vector<float> y(static_cast<size_t>(tokens * rows));
    for (int64_t i = 0; i < tokens * rows; ++i) {
      for (int64_t k = 0; k < columns; ++k)
        y[static_cast<size_t>(i)] += x[static_cast<size_t>(i / rows * columns + k)] *
                                     half_bits_to_float(w[static_cast<size_t>(i % rows * columns + k)]);
    }
    return y;
  }
  // Finds the kernel and runs it; the result has to be right.
  std::string check(Opened& device) const {
    const abi::BoundKernel kernel = find(device);
    std::vector<float> y;
    const abi::Status status = run(device, kernel, &y);
    EXPECT_EQ(status.code, StatusCode::kOk) << status.message;
    EXPECT_EQ(y, expected());
    return kernel.implementation;
  }
};

class Autotune : public testing::Test {
 protected:
  Autotune() : file_(testing::TempDir() + "gabbro_autotune_test.txt") { clean(); }
  ~Autotune() override {
    clean();
    EXPECT_EQ(sim::allocation_count(), 0U) << "a closed device left memory behind";
  }
  void clean() const {
    for (const char* name :
         {"GABBRO_SIM_PRODUCTS", "GABBRO_SIM_PRODUCTS_VERSION", "GABBRO_SIM_FAIL", "GABBRO_TUNE", "GABBRO_TUNING_FILE",
          "GABBRO_MIOPEN_SEARCH", "GABBRO_SIM_CONVOLUTIONS", "GABBRO_SIM_DISTRUSTS_PRODUCTS"})
      ::unsetenv(name);
    for (const std::string& path : {file_, file_ + ".other"}) std::filesystem::remove(path);
  }

  static void set(const char* name, const char* value) { ::setenv(name, value, 1); }

  TuningTable stored() const {
    std::string problem;
    TuningTable table = TuningFile(file_).load(problem);
    EXPECT_EQ(problem, "");
    return table;
  }
  // Makes the file say that this way was the fastest.
  void prefer(const std::string& candidate) const {
    TuningTable table = stored();
    for (auto& [key, entry] : table) entry.chosen = candidate;
    ASSERT_EQ(TuningFile(file_).store(table), "");
  }
  static std::vector<std::string> names(const abi::MeasuredShape& shape) {
    std::vector<std::string> all;
    for (int32_t i = 0; i < shape.candidate_count; ++i) all.emplace_back(shape.candidates[i].name);
    return all;
  }

  std::string file_;
};

}  // namespace gabbro::gpu::autotuning
