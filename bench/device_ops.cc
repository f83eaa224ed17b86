// Speed of single ops on the device that GABBRO_DEVICE names, next to the time that moving their bytes, or their
// arithmetic, would take at the rates of the first two lines. Argument: a part of the names (all).
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "src/backend/registry.h"

namespace gabbro {
namespace {

// Contiguous operands in device memory.
class Operand {
 public:
  Operand(Device& device, DType dtype, std::vector<int64_t> shape) {
    view_.rank = static_cast<int32_t>(shape.size());
    view_.dtype = dtype;
    view_.layout = abi::Layout::kStrided;
    int64_t step = 1;
    for (size_t axis = shape.size(); axis-- > 0;) {
      view_.shape[axis] = shape[axis];
      view_.strides[axis] = step;
      step *= shape[axis];
    }
    bytes_ = static_cast<size_t>(step) * static_cast<size_t>(dtype_info(dtype).block_bytes);
    memory_ = device.allocate(bytes_);
    view_.data = memory_.get();
  }
  // Normal numbers; never zeros, which some chips multiply faster.
  Operand& random(Device& device) {
    static std::mt19937 generator(1);
    std::vector<uint16_t> values(bytes_ / 2);
    if (view_.dtype == DType::f32) {
      std::normal_distribution<float> normal;
      std::vector<float> values(std::min<size_t>(bytes_ / 4, 1 << 20));
      for (float& value : values) value = normal(generator);
      for (size_t at = 0; at < bytes_; at += values.size() * 4) {
        device.copy_to_device(static_cast<std::byte*>(memory_.get()) + at, values.data(),
                              std::min(values.size() * 4, bytes_ - at));
      }
    } else {  // f16: 0.5 to 2 with either sign
      for (uint16_t& half : values)
        half = static_cast<uint16_t>(0x3800 + generator() % 0x800 + generator() % 2 * 0x8000);
      device.copy_to_device(memory_.get(), values.data(), bytes_);
    }
    return *this;
  }
  Operand& integers(Device& device, const std::function<int32_t(size_t)>& value) {
    std::vector<int32_t> values(bytes_ / 4);
    for (size_t i = 0; i < values.size(); ++i) values[i] = value(i);
    device.copy_to_device(memory_.get(), values.data(), bytes_);
    return *this;
  }
  const abi::TensorView& view() const { return view_; }
  size_t bytes() const { return bytes_; }

 private:
  abi::TensorView view_{};
  std::shared_ptr<void> memory_;
  size_t bytes_ = 0;
};

struct Row {
  std::string name;
  const char* op;
  std::vector<Operand*> inputs, outputs;
  double bytes = 0, flops = 0;
};

class Bench {
 public:
  Bench(Device& device, std::string filter) : device_(device), filter_(std::move(filter)) {}

  bool wants(const std::string& name) const { return name.find(filter_) != std::string::npos; }

  // Seconds of one launch, in a list of eight that is executed again and again; 0 where there is no kernel.
  double seconds(const Row& row) {
    std::vector<abi::TensorView> in, out;
    for (const Operand* operand : row.inputs) in.push_back(operand->view());
    for (const Operand* operand : row.outputs) out.push_back(operand->view());
    const auto kernel = find_kernel(device_, {row.op, in.data(), static_cast<int32_t>(in.size()), out.data(),
                                              static_cast<int32_t>(out.size()), nullptr, 0});
    if (kernel == nullptr) return 0;
    const auto scratch = device_.allocate(std::max<size_t>(kernel->bound.scratch_bytes, 1));
    constexpr int kLaunches = 8;
    const std::vector<abi::Launch> launches(kLaunches, {.kernel = kernel->bound.handle,
                                                        .inputs = in.data(),
                                                        .outputs = out.data(),
                                                        .input_count = static_cast<int32_t>(in.size()),
                                                        .output_count = static_cast<int32_t>(out.size()),
                                                        .scratch = scratch.get()});
    const auto run = [&](int times) {
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < times; ++i) execute(device_, launches, nullptr);
      float one = 0;
      device_.copy_to_host(&one, row.outputs[0]->view().data, sizeof one);
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / (times * kLaunches);
    };
    const double once = run(3);
    const int times = std::clamp(static_cast<int>(0.02 / (once * kLaunches)), 1, 1000);
    std::vector<double> measured;
    for (int i = 0; i < 5; ++i) measured.push_back(run(times));
    std::ranges::sort(measured);
    return measured[measured.size() / 2];
  }

  void print(const Row& row) {
    if (!wants(row.name)) return;
    const double time = seconds(row);
    if (time == 0) {
      std::printf("%-44s no kernel\n", row.name.c_str());
      return;
    }
    std::printf("%-44s %10.1f us", row.name.c_str(), time * 1e6);
    if (row.bytes > 0) std::printf(" %8.0f GB/s", row.bytes / time * 1e-9);
    if (row.flops > 0) std::printf(" %8.1f TFLOP/s", row.flops / time * 1e-12);
    std::printf("\n");
    std::fflush(stdout);
  }

 private:
  Device& device_;
  std::string filter_;
};

// Attention over a cache of `keys` keys in `sequences` sequences, with `tokens` of them at the end of each asked for.
void attention(Device& device, Bench& bench, int64_t sequences, int64_t tokens, int64_t keys) {
  constexpr int64_t kHeads = 32, kKvHeads = 8, kDim = 128, kPage = 64;
  const std::string name = "attention " + std::to_string(sequences) + " x " + std::to_string(tokens) + " of " +
                           std::to_string(keys) + " keys";
  if (!bench.wants(name)) return;
  const int64_t all = sequences * tokens, pages = (keys + kPage - 1) / kPage;
  Operand q(device, DType::f32, {all, kHeads, kDim}), k(device, DType::f16, {sequences * pages, kKvHeads, kDim, kPage}),
      v(device, DType::f16, {sequences * pages, kKvHeads, kPage, kDim}), table(device, DType::i32, {sequences, pages}),
      sequence(device, DType::i32, {all}), positions(device, DType::i32, {all}),
      y(device, DType::f32, {all, kHeads, kDim});
  q.random(device);
  k.random(device);
  v.random(device);
  table.integers(device, [](size_t i) { return static_cast<int32_t>(i); });
  sequence.integers(device, [&](size_t i) { return static_cast<int32_t>(static_cast<int64_t>(i) / tokens); });
  positions.integers(device,
                     [&](size_t i) { return static_cast<int32_t>(keys - tokens + static_cast<int64_t>(i) % tokens); });
  const double pairs = static_cast<double>(sequences) * static_cast<double>(tokens) *
                       (static_cast<double>(keys) - static_cast<double>(tokens - 1) / 2);
  const bool few = tokens == 1;
  bench.print({.name = name,
               .op = "attention",
               .inputs = {&q, &k, &v, &table, &sequence, &positions},
               .outputs = {&y},
               .bytes = few ? static_cast<double>(k.bytes() + v.bytes()) : 0,
               .flops = few ? 0 : 4 * pairs * kHeads * kDim});
}

void rows(Device& device, Bench& bench, int64_t count, int64_t columns) {
  const std::string size = " " + std::to_string(count) + " x " + std::to_string(columns);
  Operand x(device, DType::f32, {count, columns}), w(device, DType::f32, {columns}),
      y(device, DType::f32, {count, columns});
  x.random(device);
  w.random(device);
  const auto bytes = static_cast<double>(x.bytes() + y.bytes());
  bench.print({.name = "rms_norm" + size, .op = "rms_norm", .inputs = {&x, &w}, .outputs = {&y}, .bytes = bytes});
  bench.print({.name = "softmax" + size, .op = "softmax", .inputs = {&x}, .outputs = {&y}, .bytes = bytes});
}

void matmul(Device& device, Bench& bench, int64_t batch, int64_t m, int64_t k, int64_t n) {
  const std::string name = "matmul " + std::to_string(batch) + " x " + std::to_string(m) + " x " + std::to_string(k) +
                           " x " + std::to_string(n);
  if (!bench.wants(name)) return;
  Operand a(device, DType::f32, {batch, m, k}), b(device, DType::f32, {batch, k, n}),
      c(device, DType::f32, {batch, m, n});
  a.random(device);
  b.random(device);
  bench.print({.name = name,
               .op = "matmul",
               .inputs = {&a, &b},
               .outputs = {&c},
               .bytes = static_cast<double>(a.bytes() + b.bytes() + c.bytes()),
               .flops = 2.0 * static_cast<double>(batch * m) * static_cast<double>(k * n)});
}

}  // namespace
}  // namespace gabbro

int main(int argc, char** argv) {
  using namespace gabbro;
  const std::shared_ptr<Device> device = open_device("auto", {.threads = 2});
  Bench bench(*device, argc > 1 ? argv[1] : "");
  const bool small = device->host_accessible();  // a CPU would take minutes for the rest
  std::printf("%s %s\n", device->facts().id, device->facts().name);
  rows(*device, bench, 4096, 4096);
  rows(*device, bench, 512, 4096);
  matmul(*device, bench, 1, 1, 4096, 4096);
  matmul(*device, bench, 32, 128, 128, 128);
  matmul(*device, bench, 1, 1024, 1024, 1024);
  for (const int64_t keys : {512, 2048, 8192, 16384}) {
    if (!small || keys <= 2048) attention(*device, bench, 1, keys, keys);
  }
  attention(*device, bench, 1, 1, 8192);
  if (!small) attention(*device, bench, 32, 1, 8192);
}
