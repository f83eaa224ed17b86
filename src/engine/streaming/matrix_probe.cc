#include "src/engine/streaming/matrix_probe.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "gabbro/graph/eval.h"
#include "gabbro/ops/neural.h"
#include "src/backend/stream.h"
#include "src/base/cache_flush.h"
#include "src/base/large_memory.h"
#include "src/base/round_up.h"
#include "src/base/seconds_since.h"

namespace gabbro::streaming {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

Products::Products(Device& cpu, DType dtype, size_t bytes) : cpu_(cpu), dtype_(dtype) {
  const size_t row = dtype_bytes(dtype, kProbeColumns);
  rows_ = round_up(static_cast<int64_t>(bytes / row), abi::kPackRows);
  bytes_ = static_cast<size_t>(rows_) * row;
  device_bytes_ = std::max(cpu.matrix_bytes(dtype, rows_, kProbeColumns), size_t{1});
  zeros_ = allocate_large(bytes_);
  std::memset(zeros_.get(), 0, bytes_);
  weight_ = cpu.upload_matrix(dtype, rows_, kProbeColumns, zeros_);
  if (device_bytes_ == 1) device_bytes_ = bytes_;
}

template <class Work>
double Products::median_speed(double seconds, const Work& work) {
  std::vector<double> times;
  const auto begin = Clock::now();
  constexpr size_t kLeast = 5;
  while (times.size() < kLeast || seconds_since(begin) < seconds) {
    flush_from_caches(weight_.state().storage.get(), device_bytes_);
    if (zeros_ != weight_.state().storage) flush_from_caches(zeros_.get(), bytes_);
    const auto start = Clock::now();
    work();
    times.push_back(seconds_since(start));
  }
  std::ranges::nth_element(times, times.begin() + std::ssize(times) / 2);
  return static_cast<double>(bytes_) / times[times.size() / 2];
}

double Products::speed(int64_t tokens, double seconds) {
  const std::vector<float> ones(static_cast<size_t>(tokens * kProbeColumns), 1.0f);
  const Tensor x = cpu_.upload(DType::f32, Shape{tokens, kProbeColumns}, ones.data());
  const auto multiply = [&] {
    Tensor y = linear(x, weight_);
    eval(std::span(&y, 1));
  };
  multiply();  // the first one makes a plan
  return median_speed(seconds, multiply);
}

double Products::pack_speed(double seconds) {
  if (!weight_.state().spec.packed) return 0;
  const int64_t count = rows_ / 2 / abi::kPackRows * abi::kPackRows;  // a part is packed by its caller alone
  const abi::PackRequest part = {dtype_, rows_, kProbeColumns, 0, count};
  const Device::State& state = cpu_.state();
  const double whole = median_speed(seconds, [&] {
    check(state.backend->pack(state.device, nullptr, &part, zeros_.get(), weight_.state().storage.get()), "packing");
  });
  return whole * static_cast<double>(count) / static_cast<double>(rows_);
}

PartPacker::PartPacker(Device& device, DType dtype, size_t piece_bytes) : device_(device), dtype_(dtype) {
  rows_ = static_cast<int64_t>(piece_bytes / dtype_bytes(dtype, kColumns)) / abi::kPackRows * abi::kPackRows;
  if (rows_ == 0) return;
  const int64_t all = rows_ + abi::kPackRows;  // a part is packed by its caller alone
  const size_t bytes = static_cast<size_t>(all) * dtype_bytes(dtype, kColumns);
  zeros_ = allocate_large(bytes);
  std::memset(zeros_.get(), 0, bytes);
  weight_ = device.upload_matrix(dtype, all, kColumns, zeros_);
}

void PartPacker::pack(std::span<const std::byte> read) {
  const auto rows = static_cast<int64_t>(read.size() / dtype_bytes(dtype_, kColumns)) / abi::kPackRows * abi::kPackRows;
  if (!packs() || rows == 0) return;
  const abi::PackRequest part = {dtype_, rows_ + abi::kPackRows, kColumns, 0, std::min(rows, rows_)};
  const Device::State& state = device_.state();
  const auto start = Clock::now();
  check(state.backend->pack(state.device, nullptr, &part, read.data(), weight_.state().storage.get()), "packing");
  seconds_ += seconds_since(start);
  bytes_ += static_cast<size_t>(part.row_count) * dtype_bytes(dtype_, kColumns);
}

void PartPacker::pack_zeros(double seconds) {
  const auto start = Clock::now();
  const size_t bytes = static_cast<size_t>(rows_) * dtype_bytes(dtype_, kColumns);
  do {
    pack({static_cast<const std::byte*>(zeros_.get()), bytes});
  } while (seconds_since(start) < seconds);
}

double small_evaluations(Device& device) {
  constexpr int64_t kRows = 512;
  const std::vector<float> zeros(static_cast<size_t>(kRows * kRows), 0.0f);
  const Tensor w = device.upload(DType::f32, Shape{kRows, kRows}, zeros.data());
  const Tensor x = device.upload(DType::f32, Shape{1, kRows}, zeros.data());
  std::vector<double> times;
  for (int i = 0; i < 200; ++i) {
    const auto start = Clock::now();
    Tensor y = linear(x, w);
    eval(std::span(&y, 1));
    times.push_back(seconds_since(start));
  }
  std::ranges::nth_element(times, times.begin() + 100);
  return 1 / times[100];
}

double gpu_multiply_speed(Device& device, DType dtype) {
  constexpr size_t kBytes = size_t{256} << 20;  // an RX 7900's cache has 96 MiB, an H200's 50 MiB
  constexpr int kTimes = 16;
  const int64_t rows =
      round_up(static_cast<int64_t>(kBytes / dtype_bytes(dtype, kProbeColumns)), int64_t{abi::kPackRows});
  const std::shared_ptr<void> zeros = allocate_large(static_cast<size_t>(rows) * dtype_bytes(dtype, kProbeColumns));
  std::memset(zeros.get(), 0, static_cast<size_t>(rows) * dtype_bytes(dtype, kProbeColumns));
  const Tensor w = device.upload_matrix(dtype, rows, kProbeColumns, zeros);
  const std::vector<float> ones(kProbeColumns, 1.0f);
  const Tensor x = device.upload(DType::f32, Shape{1, kProbeColumns}, ones.data());
  const auto seconds = [&](int times) {
    const auto start = Clock::now();
    for (int i = 0; i < times; ++i) {
      Tensor y = linear(x, w);
      eval(std::span(&y, 1));
    }
    device.state().compute_stream(device).synchronize();
    return seconds_since(start);
  };
  seconds(2);  // makes the plan
  const size_t packed = device.matrix_bytes(dtype, rows, kProbeColumns);
  const size_t bytes = packed > 0 ? packed : static_cast<size_t>(rows) * dtype_bytes(dtype, kProbeColumns);
  return kTimes * static_cast<double>(bytes) / seconds(kTimes);
}

double gpu_small_layers(Device& device) {
  constexpr int64_t kWidth = 256;
  constexpr int kOperations = 12;  // launches of a decoder's layer
  constexpr int kTimes = 64;
  const std::vector<float> zeros(static_cast<size_t>(kWidth * kWidth), 0.0f);
  const Tensor w = device.upload(DType::f32, Shape{kWidth, kWidth}, zeros.data());
  Tensor x = device.upload(DType::f32, Shape{1, kWidth}, zeros.data());
  const auto seconds = [&](int times) {
    const auto start = Clock::now();
    for (int i = 0; i < times; ++i) {
      for (int k = 0; k < kOperations; ++k) x = linear(x, w);
      eval(std::span(&x, 1));
    }
    device.state().compute_stream(device).synchronize();
    return seconds_since(start);
  };
  seconds(4);  // makes the plan
  return kTimes / seconds(kTimes);
}

}  // namespace gabbro::streaming
