// How fast attention, rms_norm and rope_kv_write run on this machine, next to what it could do.
// Arguments: threads (2), instruction set (all).

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "backends/cpu/kernel_test_util.h"

namespace gabbro::cpu {
namespace {

using test::Call;
using test::Tensor;
// One thread alone is timed by its own processor time, which a busy machine disturbs less.
double now(const ThreadPool& pool) {
  timespec time{};
  clock_gettime(pool.workers() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double seconds_of(ThreadPool& pool, const Kernel& kernel, const abi::Launch& launch, int repeats) {
  const double start = now(pool);
  pool.run([&](Worker& worker) {
    for (int i = 0; i < repeats; ++i) {
      kernel.run(launch, worker);
      worker.barrier();
    }
  });
  return (now(pool) - start) / repeats;
}

// The best of nine measurements of at least 10 ms.
double measure(const IsaTable& isa, ThreadPool& pool, const Call& call) {
  const auto kernel = test::make(isa, call, pool.workers());
  auto in = test::views(call.inputs);
  auto out = test::views(call.outputs);
  std::vector<float> scratch(kernel->scratch_bytes / sizeof(float) + 16);
  void* aligned = scratch.data();
  size_t space = scratch.size() * sizeof(float);
  std::align(64, kernel->scratch_bytes, aligned, space);
  const abi::Launch launch{kernel.get(), in.data(), out.data(), static_cast<int32_t>(in.size()), 1, aligned};
  const double once = seconds_of(pool, *kernel, launch, 3);
  std::vector<double> times;
  for (int i = 0; i < 9; ++i)
    times.push_back(seconds_of(pool, *kernel, launch, std::max(1, static_cast<int>(0.01 / once))));
  return *std::min_element(times.begin(), times.end());
}

// Multiply-adds of a square f32 product that stays in the cache: what this machine reaches.
double peak_flops(const IsaTable& isa, ThreadPool& pool) {
  Tensor a(DType::f32, {192, 256});
  Tensor b(DType::f32, {256, 512});
  Tensor c(DType::f32, {192, 512});
  return 2.0 * 192 * 256 * 512 / measure(isa, pool, {"matmul", {&a, &b}, {&c}, {}});
}

struct Shapes {
  int64_t heads;
  int64_t kv_heads;
  int64_t dim;
};

void attention(const IsaTable& isa, ThreadPool& pool, const Shapes& s, int64_t tokens, int64_t keys, double peak) {
  constexpr int64_t kPage = 64;
  const int64_t pages = (keys + kPage - 1) / kPage;
  std::mt19937 generator(1);
  Tensor q(DType::f32, {tokens, s.heads, s.dim});
  q.random(generator);
  Tensor k(DType::f16, {pages, s.kv_heads, s.dim, kPage});
  Tensor v(DType::f16, {pages, s.kv_heads, kPage, s.dim});
  std::normal_distribution<float> normal;
  for (Tensor* t : {&k, &v}) t->fill<uint16_t>([&] { return float_to_half_bits(normal(generator)); });
  Tensor table(DType::i32, {1, pages});
  Tensor sequence(DType::i32, {tokens});
  Tensor positions(DType::i32, {tokens});
  Tensor out(DType::f32, {tokens, s.heads, s.dim});
  for (int64_t i = 0; i < pages; ++i) table.data<int32_t>()[i] = static_cast<int32_t>(i);
  for (int64_t i = 0; i < tokens; ++i) positions.data<int32_t>()[i] = static_cast<int32_t>(keys - tokens + i);
  const double time = measure(isa, pool, {"attention", {&q, &k, &v, &table, &sequence, &positions}, {&out}, {}});
  double pairs = 0;
  for (int64_t i = 0; i < tokens; ++i) pairs += static_cast<double>(keys - tokens + i + 1);
  const double flops = 4.0 * pairs * static_cast<double>(s.heads * s.dim);
  const double bytes = 4.0 * static_cast<double>(keys * s.kv_heads * s.dim);
  std::printf(
      "attention H=%-2ld G=%ld D=%-3ld T=%-3ld keys=%-5ld %9.1f us %7.1f GFLOP/s (%3.0f %% of peak) %6.1f GB/s of "
      "cache\n",
      s.heads, s.kv_heads, s.dim, tokens, keys, time * 1e6, flops / time * 1e-9, 100 * flops / time / peak,
      bytes / time * 1e-9);
}

void norms(const IsaTable& isa, ThreadPool& pool, int64_t tokens) {
  constexpr int64_t kColumns = 576;
  Tensor x(DType::f32, {tokens, kColumns});
  Tensor weight(DType::f32, {kColumns});
  Tensor y(DType::f32, {tokens, kColumns});
  const double norm = measure(isa, pool, {"rms_norm", {&x, &weight}, {&y}, {}});
  std::printf("rms_norm  T=%-3ld C=%ld  %21.2f us %34.1f GB/s\n", tokens, kColumns, norm * 1e6,
              8e-9 * static_cast<double>(tokens * kColumns) / norm);
  Tensor q(DType::f32, {tokens, 9, 64});
  Tensor k(DType::f32, {tokens, 3, 64});
  Tensor v(DType::f32, {tokens, 3, 64});
  Tensor positions(DType::i32, {tokens});
  Tensor frequencies(DType::f32, {32});
  frequencies.fill<float>([] { return 0.1f; });
  Tensor k_cache(DType::f16, {8, 3, 64, 64});
  Tensor v_cache(DType::f16, {8, 3, 64, 64});
  Tensor table(DType::i32, {1, 8});
  Tensor sequence(DType::i32, {tokens});
  Tensor out(DType::f32, {tokens, 9, 64});
  for (int32_t i = 0; i < 8; ++i) table.data<int32_t>()[i] = i;
  for (int64_t i = 0; i < tokens; ++i) positions.data<int32_t>()[i] = static_cast<int32_t>(i);
  const double rope = measure(isa, pool,
                              {"rope_kv_write",
                               {&q, &k, &v, &positions, &frequencies, &k_cache, &v_cache, &table, &sequence},
                               {&out, &k_cache, &v_cache},
                               {}});
  std::printf("rope_kv_write T=%-3ld H=9 G=3 D=64 %11.2f us %34.1f GB/s\n", tokens, rope * 1e6,
              8e-9 * static_cast<double>(tokens * 15 * 64) / rope);
}

}  // namespace
}  // namespace gabbro::cpu

int main(int argc, char** argv) {
  using namespace gabbro::cpu;
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  for (const IsaTable* isa : isa_tables()) {
    if (!isa->supported() || (argc > 2 && std::string_view(argv[2]) != isa->name)) continue;
    ThreadPool pool(threads, threads);
    double barrier = 1;
    for (int burst = 0; burst < 200; ++burst) {
      constexpr int kBarriers = 1000;
      const double start = now(pool);
      pool.run([](Worker& worker) {
        for (int i = 0; i < kBarriers; ++i) worker.barrier();
      });
      barrier = std::min(barrier, (now(pool) - start) / kBarriers);
    }
    const double peak = peak_flops(*isa, pool);
    std::printf("%s, %d threads: barrier %.3f us, matmul in cache %.1f GFLOP/s\n", isa->name, threads, barrier * 1e6,
                peak * 1e-9);
    for (const Shapes& s : {Shapes{9, 3, 64}, Shapes{32, 8, 128}}) {
      for (const int64_t keys : {128, 1024, 8192}) attention(*isa, pool, s, 1, keys, peak);
      attention(*isa, pool, s, 512, 512, peak);
      attention(*isa, pool, s, 512, 1024, peak);
    }
    for (const int64_t tokens : {1, 512}) norms(*isa, pool, tokens);
  }
}
