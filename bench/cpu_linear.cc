// Speed of the CPU's `linear` at the shapes of SmolLM2-135M, against what this machine reads and multiplies.
// cpu_linear [threads] [tokens] [format] [isa]: a line per format and shape; the weights come from memory, not cache.
#include <immintrin.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string_view>
#include <vector>

#include "backends/cpu/kernel.h"
#include "backends/cpu/pack/layout.h"
#include "backends/cpu/pool.h"

namespace gabbro::cpu {
namespace {

using Clock = std::chrono::steady_clock;

// The shortest of many runs: other work on the machine only adds time.
template <class Body>
double best_seconds(double budget, Body&& body) {
  double best = 1e9;
  const auto end = Clock::now() + std::chrono::duration<double>(budget);
  do {
    const auto start = Clock::now();
    body();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  } while (Clock::now() < end);
  return best;
}

struct Free {
  void operator()(void* p) const { std::free(p); }
};
using Memory = std::unique_ptr<std::byte, Free>;

Memory allocate(size_t bytes) {  // in large pages, as the device's own memory
  const size_t whole = ((bytes + (2 << 20) - 1) >> 21) << 21;
  void* memory = std::aligned_alloc(size_t{2} << 20, whole);
  madvise(memory, whole, MADV_HUGEPAGE);
  return Memory(static_cast<std::byte*>(memory));
}

[[gnu::target("avx512f,avx512vnni")]] void multiply_bytes(int64_t rounds, int* sink) {
  __m512i a = _mm512_set1_epi32(*sink), b = a, c = a, d = a, e = a, f = a, g = a, h = a;
  for (int64_t i = 0; i < rounds; ++i) {
    __asm__ volatile(
        "vpdpbusd %0, %0, %0\n vpdpbusd %1, %1, %1\n vpdpbusd %2, %2, %2\n vpdpbusd %3, %3, %3\n"
        "vpdpbusd %4, %4, %4\n vpdpbusd %5, %5, %5\n vpdpbusd %6, %6, %6\n vpdpbusd %7, %7, %7\n"
        : "+v"(a), "+v"(b), "+v"(c), "+v"(d), "+v"(e), "+v"(f), "+v"(g), "+v"(h));
  }
  *sink = _mm512_cvtsi512_si32(a);
}

[[gnu::target("avx512f")]] void multiply_floats(int64_t rounds, float* sink) {
  __m512 a = _mm512_set1_ps(*sink), b = a, c = a, d = a, e = a, f = a, g = a, h = a;
  for (int64_t i = 0; i < rounds; ++i) {
    __asm__ volatile(
        "vfmadd231ps %0, %0, %0\n vfmadd231ps %1, %1, %1\n vfmadd231ps %2, %2, %2\n vfmadd231ps %3, %3, %3\n"
        "vfmadd231ps %4, %4, %4\n vfmadd231ps %5, %5, %5\n vfmadd231ps %6, %6, %6\n vfmadd231ps %7, %7, %7\n"
        : "+v"(a), "+v"(b), "+v"(c), "+v"(d), "+v"(e), "+v"(f), "+v"(g), "+v"(h));
  }
  *sink = _mm512_cvtss_f32(a);
}

[[gnu::target("avx2")]] int read_all(const std::byte* from, int64_t bytes) {
  __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
  for (int64_t i = 0; i < bytes; i += 128) {
    const auto* at = reinterpret_cast<const __m256i*>(from + i);
    a = _mm256_add_epi32(a, _mm256_load_si256(at));
    b = _mm256_add_epi32(b, _mm256_load_si256(at + 1));
    c = _mm256_add_epi32(c, _mm256_load_si256(at + 2));
    d = _mm256_add_epi32(d, _mm256_load_si256(at + 3));
  }
  return _mm256_extract_epi32(_mm256_add_epi32(_mm256_add_epi32(a, b), _mm256_add_epi32(c, d)), 0);
}

struct Peaks {
  double read = 0, bytes = 0, floats = 0;  // GB/s, GMAC/s, GMAC/s
};

Peaks measure_peaks(ThreadPool& pool) {
  Peaks peaks;
  constexpr int64_t kRounds = 20'000, kPiece = 1 << 20, kPieces = 256;
  const int threads = pool.workers();
  if (__builtin_cpu_supports("avx512vnni")) {
    const double b = best_seconds(0.3, [&] {
      pool.run([](Worker&) {
        int sink = 1;
        multiply_bytes(kRounds, &sink);
      });
    });
    const double f = best_seconds(0.3, [&] {
      pool.run([](Worker&) {
        float sink = 0;
        multiply_floats(kRounds, &sink);
      });
    });
    peaks.bytes = static_cast<double>(kRounds) * 8 * 64 * threads / b * 1e-9;
    peaks.floats = static_cast<double>(kRounds) * 8 * 16 * threads / f * 1e-9;
  }
  const Memory memory = allocate(kPiece * kPieces);
  std::memset(memory.get(), 1, kPiece * kPieces);
  std::atomic<int> sink = 0;
  const double r = best_seconds(0.6, [&] {
    pool.run([&](Worker& worker) {
      worker.parallel_for(kPieces, 1, [&](int64_t i, int64_t) { sink += read_all(memory.get() + i * kPiece, kPiece); });
    });
  });
  peaks.read = static_cast<double>(kPiece * kPieces) / r * 1e-9;
  return peaks;
}

struct Shape {
  int64_t rows, columns;
  int times;  // in one token of SmolLM2-135M
};
constexpr Shape kShapes[] = {{576, 576, 60}, {192, 576, 60}, {1536, 576, 60}, {576, 1536, 30}, {49152, 576, 1}};

abi::TensorView view(DType dtype, int64_t rows, int64_t columns, abi::Layout layout = abi::Layout::kStrided) {
  return {
      .data = nullptr, .shape = {rows, columns}, .strides = {columns, 1}, .rank = 2, .dtype = dtype, .layout = layout};
}

// Plain weights have no packed form.
size_t stored_bytes(const IsaTable& isa, DType dtype, const Shape& shape) {
  const size_t packed = isa.packed_bytes(dtype, shape.rows, shape.columns);
  return packed > 0 ? packed : static_cast<size_t>(shape.rows) * dtype_bytes(dtype, static_cast<size_t>(shape.columns));
}

// Seconds of one product, the pool's wake-up included; the weights have left the cache since they were last used.
double measure(const IsaTable& isa, ThreadPool& pool, DType dtype, const Shape& shape, int64_t tokens, double* pack) {
  const size_t source_bytes = static_cast<size_t>(shape.rows) * dtype_bytes(dtype, static_cast<size_t>(shape.columns));
  const bool in_place = isa.packed_bytes(dtype, shape.rows, shape.columns) == 0;
  const size_t packed = stored_bytes(isa, dtype, shape);
  const size_t copies = tokens > 32 ? 1 : (size_t{192} << 20) / packed + 1;
  std::mt19937 random(1);
  const Memory source = allocate(source_bytes), weights = allocate(packed * copies);
  for (size_t i = 0; i < source_bytes; ++i) source.get()[i] = static_cast<std::byte>(random() & 0x3f);
  for (size_t c = 0; c < copies; ++c) {
    void* target = weights.get() + c * packed;
    const auto start = Clock::now();
    pool.run([&](Worker& w) {
      if (in_place) {
        if (w.index() == 0) std::memcpy(target, source.get(), packed);
        return;
      }
      isa.pack(dtype, shape.rows, shape.columns, source.get(), target, w);
    });
    *pack = std::chrono::duration<double>(Clock::now() - start).count();
  }
  std::vector<float> x(static_cast<size_t>(tokens * shape.columns)), y(static_cast<size_t>(tokens * shape.rows));
  for (float& value : x) value = static_cast<float>(random() % 2001) / 1000 - 1;
  abi::TensorView inputs[] = {
      view(DType::f32, tokens, shape.columns),
      view(dtype, shape.rows, shape.columns, in_place ? abi::Layout::kStrided : abi::Layout::kPacked)};
  abi::TensorView output = view(DType::f32, tokens, shape.rows);
  const abi::KernelRequest request = {
      .op = "linear", .inputs = inputs, .input_count = 2, .outputs = &output, .output_count = 1};
  std::unique_ptr<Kernel> kernel;
  for (const KernelEntry& entry : isa.kernels) {
    if (entry.op != nullptr && entry.has("linear")) kernel = entry.make(request, {.workers = pool.workers()});
  }
  const Memory scratch = allocate(kernel->scratch_bytes);
  inputs[0].data = x.data();
  output.data = y.data();
  abi::Launch launch = {
      .inputs = inputs, .outputs = &output, .input_count = 2, .output_count = 1, .scratch = scratch.get()};
  size_t copy = 0;
  return best_seconds(0.4, [&] {
    inputs[1].data = weights.get() + copy * packed;
    copy = (copy + 1) % copies;
    pool.run([&](Worker& worker) { kernel->run(launch, worker); });
  });
}

int run(int threads, int64_t tokens, std::string_view only, std::string_view isa_name) {
  ThreadPool pool(threads, threads);
  const Peaks peaks = measure_peaks(pool);
  std::printf("%d threads: read %.1f GB/s, u8·s8 %.0f GMAC/s, f32 %.0f GMAC/s\n", threads, peaks.read, peaks.bytes,
              peaks.floats);
  std::printf("%-8s %6s %12s %9s %8s %8s %6s %9s\n", "format", "tokens", "rows x k", "us", "GB/s", "GMAC/s", "peak%",
              "pack GB/s");
  for (const IsaTable* isa : isa_tables()) {
    if (!isa->supported() || isa_name != isa->name) continue;
    for (int d = 0; d < kDTypeCount; ++d) {
      const auto dtype = static_cast<DType>(d);
      double total = 0;
      if (!only.empty() && only != dtype_name(dtype)) continue;
      for (Shape shape : kShapes) {
        if (shape.columns % dtype_info(dtype).block_elements != 0) shape.columns = (shape.columns + 255) / 256 * 256;
        if (!is_weight_dtype(dtype) || (tokens > 32 && shape.rows > 10000)) continue;
        double pack = 0;
        const double seconds = measure(*isa, pool, dtype, shape, tokens, &pack);
        total += seconds * shape.times;
        const double packed = static_cast<double>(stored_bytes(*isa, dtype, shape));
        const double macs = static_cast<double>(shape.rows * shape.columns * tokens) / seconds * 1e-9;
        const double gbs = packed / seconds * 1e-9;
        const double share = tokens <= 4 ? gbs / peaks.read : macs / (is_quantized(dtype) ? peaks.bytes : peaks.floats);
        std::printf("%-8s %6ld %6ldx%-5ld %9.2f %8.1f %8.1f %5.0f%% %9.2f\n", dtype_name(dtype).data(), tokens,
                    shape.rows, shape.columns, seconds * 1e6, gbs, macs, share * 100, packed / pack * 1e-9);
      }
      if (total > 0)
        std::printf("%-8s whole model: %.3f ms, %.0f tokens/s\n", dtype_name(dtype).data(), total * 1e3,
                    static_cast<double>(tokens) / total);
    }
  }
  return 0;
}

}  // namespace
}  // namespace gabbro::cpu

int main(int count, char** words) {
  const auto word = [&](int i, const char* otherwise) { return count > i ? words[i] : otherwise; };
  return gabbro::cpu::run(std::atoi(word(1, "2")), std::atoi(word(2, "1")), word(3, ""), word(4, "avx512"));
}
