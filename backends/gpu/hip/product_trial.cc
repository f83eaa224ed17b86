#include "backends/gpu/hip/product_trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <vector>

#include "backends/gpu/hip/product_words.h"
#include "backends/gpu/hip/runtime.h"
#include "src/base/half.h"

namespace gabbro::gpu::hip {
namespace {

constexpr uint32_t kSeedOfW = 1, kSeedOfX = 2, kSeedOfBias = 3;

// Element i of a factor, -2 to 2. Sums of thousands of products stay exact in f32, and finite in f16.
int value(int64_t i, uint32_t seed) {
  uint32_t bits = static_cast<uint32_t>(i) * 2654435761U + static_cast<uint32_t>(i >> 32) + seed * 40503U;
  bits = (bits ^ (bits >> 15)) * 2246822519U;
  return static_cast<int>((bits >> 16) % 5) - 2;
}

uint32_t bits_of(float value, DType dtype) {
  if (dtype == DType::f32) return std::bit_cast<uint32_t>(value);
  return dtype == DType::f16 ? float_to_half_bits(value) : float_to_bfloat_bits(value);
}

float float_of(uint32_t bits, DType dtype) {
  if (dtype == DType::f32) return std::bit_cast<float>(bits);
  const auto half = static_cast<uint16_t>(bits);
  return dtype == DType::f16 ? half_bits_to_float(half) : bfloat_bits_to_float(half);
}

double activated(double x, api::Activation activation) {
  switch (activation) {
    case api::Activation::kRelu:
      return std::max(x, 0.0);
    case api::Activation::kGeluTanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case api::Activation::kSilu:
      return x / (1 + std::exp(-x));
    case api::Activation::kNone:
      break;
  }
  return x;
}

class DeviceArray {
 public:
  DeviceArray(int64_t elements, DType dtype) : elements_(elements), dtype_(dtype) {
    const hipError_t result = runtime().hipMalloc_(&memory_, bytes(elements));
    if (result == hipErrorOutOfMemory) throw NoMemoryForTrial(abi::StatusCode::kOutOfMemory, "no memory to try it");
    runtime().check(result, "allocating");
  }
  ~DeviceArray() { static_cast<void>(runtime().hipFree_(memory_)); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  void* get() const { return memory_; }
  void fill(uint32_t seed, hipStream_t stream) const {
    constexpr int64_t kChunk = 1 << 18;  // elements: the runtime stages copies of up to 1 MiB
    std::vector<std::byte> chunk(bytes(kChunk));
    for (int64_t first = 0; first < elements_; first += kChunk) {
      const int64_t count = std::min(kChunk, elements_ - first);
      for (int64_t i = 0; i < count; ++i) write(&chunk[bytes(i)], static_cast<float>(value(first + i, seed)));
      copy_in(first, chunk.data(), count, stream);
    }
  }
  void set(int64_t i, float value, hipStream_t stream) const {
    std::byte element[4];
    write(element, value);
    copy_in(i, element, 1, stream);
  }
  float get(int64_t i, hipStream_t stream) const {
    uint32_t bits = 0;
    const Runtime& hip = runtime();
    hip.check(hip.hipMemcpyDtoHAsync_(&bits, place(i), bytes(1), stream), "copying from the device");
    hip.check(hip.hipStreamSynchronize_(stream), "waiting for the device");
    return float_of(bits, dtype_);
  }

 private:
  size_t bytes(int64_t elements) const { return dtype_bytes(dtype_, static_cast<size_t>(elements)); }
  std::byte* place(int64_t i) const { return static_cast<std::byte*>(memory_) + bytes(i); }
  void write(std::byte* to, float value) const {
    const uint32_t bits = bits_of(value, dtype_);
    std::copy_n(reinterpret_cast<const std::byte*>(&bits), bytes(1), to);
  }
  void copy_in(int64_t first, const std::byte* from, int64_t count, hipStream_t stream) const {
    const Runtime& hip = runtime();
    hip.check(hip.hipMemcpyHtoDAsync_(place(first), const_cast<std::byte*>(from), bytes(count), stream),
              "copying to the device");
    hip.check(hip.hipStreamSynchronize_(stream), "waiting for the device");
  }

  int64_t elements_;
  DType dtype_;
  void* memory_ = nullptr;
};

// Indices below `count`: both ends, and some in between.
std::vector<int64_t> samples(int64_t count) {
  std::vector<int64_t> indices = {0, count / 3, count / 2, count - count / 5 - 1, count - 1};
  const auto repeated = std::ranges::unique(indices);
  indices.erase(repeated.begin(), repeated.end());
  return indices;
}

int64_t index_in(const api::Factor& factor, int64_t batch, int64_t line, int64_t k) {
  return batch * factor.batch_step + (factor.transposed ? k * factor.step + line : line * factor.step + k);
}

double expected(const GemmShape& s, int64_t batch, int64_t token, int64_t row) {
  int64_t sum = 0;
  for (int64_t k = 0; k < s.depth; ++k)
    sum += value(index_in(s.w, batch, row, k), kSeedOfW) * value(index_in(s.x, batch, token, k), kSeedOfX);
  return activated(static_cast<double>(s.alpha) * static_cast<double>(sum) + (s.bias ? value(row, kSeedOfBias) : 0),
                   s.activation);
}

}  // namespace

std::string try_product(ProductLibrary& library, const GemmShape& s) {
  const auto product = library.make(s);
  if (product == nullptr) return "it does not take this product";
  const Runtime& hip = runtime();
  hipStream_t stream = nullptr;
  hip.check(hip.hipStreamCreateWithFlags_(&stream, hipStreamNonBlocking), "creating a stream");
  const DeviceArray w(extent_of(s.w, s.rows, s.depth, s.batches), s.dtype),
      x(extent_of(s.x, s.tokens, s.depth, s.batches), s.dtype), y(s.batches * s.tokens * s.y_step, s.result),
      bias(s.rows, s.result);
  w.fill(kSeedOfW, stream);
  x.fill(kSeedOfX, stream);
  bias.fill(kSeedOfBias, stream);
  const auto for_samples = [&](const auto& body) {
    for (const int64_t batch : samples(s.batches)) {
      for (const int64_t token : samples(s.tokens)) {
        for (const int64_t row : samples(s.rows)) body(batch, token, row, (batch * s.tokens + token) * s.y_step + row);
      }
    }
  };
  for_samples([&](int64_t, int64_t, int64_t, int64_t i) { y.set(i, std::nanf(""), stream); });
  product->run(stream,
               {.w = w.get(), .x = x.get(), .addend = nullptr, .bias = s.bias ? bias.get() : nullptr, .y = y.get()});
  hip.check(hip.hipStreamSynchronize_(stream), "waiting for the device");
  // Results are rounded to bf16 at worst, and activations may be approximations.
  constexpr double kShare = 1.0 / 64, kLeast = 0.05;
  std::string wrong;
  for_samples([&](int64_t batch, int64_t token, int64_t row, int64_t i) {
    const double found = y.get(i, stream), right = expected(s, batch, token, row);
    if (!wrong.empty() || std::abs(found - right) <= kShare * std::abs(right) + kLeast) return;
    wrong = fmt::format("y[{}][{}][{}] is {}, expected {}", batch, token, row, found, right);
  });
  hip.check(hip.hipStreamDestroy_(stream), "destroying a stream");
  return wrong;
}

}  // namespace gabbro::gpu::hip
