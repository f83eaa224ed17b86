#include "backends/cpu/device.h"

#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "backends/common/dequantized.h"
#include "backends/common/request.h"
#include "backends/common/status_error.h"
#include "backends/cpu/pack/layout.h"
#include "src/base/round_up.h"

namespace gabbro::cpu {
namespace {

constexpr size_t kAlignment = SmallBlocks::kUnit;  // a cache line
constexpr size_t kHugePage = BlockCache::kHugePage;

// Launches to look ahead for weights: rope and attention come between q, k, v and the output.
constexpr int32_t kWeightsAhead = 3;

// To start a pool that spins and to wait for its last worker costs about 1 µs, 50 µs once it sleeps, and a millisecond
// where others keep the processor busy (a chain of 4096 elements: 1.1 ms with two threads, 15 µs with one). One thread
// takes 10 to 20 µs for this many bytes in its cache, or operations.
constexpr double kSmallBytes = 131072;
constexpr double kSmallFlops = 262144;

// Within longer work, such launches are done by one worker without barriers in between. One core takes about a
// microsecond for each; a barrier takes 0.3 µs, and milliseconds where others keep the processor busy.
constexpr double kTinyBytes = 16384;
constexpr double kTinyFlops = 32768;

// About as much as a core does in a millisecond or two.
constexpr double kMediumBytes = 16777216;
constexpr double kMediumFlops = 67108864;

enum class Work { kSmall, kMedium, kLarge };

// Small work is done sooner by one thread than by several, medium work if the cores are busy. A kernel that does not
// know its work counts as much.
Work work_of(const abi::Launch* launches, int32_t count) {
  double bytes = 0, flops = 0;
  for (int32_t i = 0; i < count; ++i) {
    const auto* kernel = static_cast<const Kernel*>(launches[i].kernel);
    bytes += kernel->bytes;
    flops += kernel->flops;
    if (kernel->bytes == 0 || bytes > kMediumBytes || flops > kMediumFlops) return Work::kLarge;
  }
  return bytes > kSmallBytes || flops > kSmallFlops ? Work::kMedium : Work::kSmall;
}

bool is_tiny(const abi::Launch& launch) {
  const auto* kernel = static_cast<const Kernel*>(launch.kernel);
  return kernel->bytes > 0 && kernel->bytes <= kTinyBytes && kernel->flops <= kTinyFlops;
}

void run(const abi::Launch& launch, Worker& worker) { static_cast<const Kernel*>(launch.kernel)->run(launch, worker); }

void run_tiny(const abi::Launch* launches, int32_t count, Worker& worker) {
  for (int32_t i = 0; i < count; ++i) {
    if (i > 0) worker.barrier();
    if (worker.stopped()) return;
    run(launches[i], worker);
  }
}

// The end of the tiny launches that begin with number `first`.
int32_t end_of_tiny(const abi::Launch* launches, int32_t first, int32_t count) {
  while (first < count && is_tiny(launches[first])) ++first;
  return first;
}

}  // namespace

const IsaTable* choose_isa(const char* forced, std::string& reason) {
  const std::string_view wanted = forced == nullptr ? "" : forced;
  std::string names;
  for (const IsaTable* isa : isa_tables()) {
    if (wanted.empty() ? isa->supported() : wanted == isa->name) {
      if (isa->supported()) return isa;
      reason = "GABBRO_CPU: this processor has no " + std::string(wanted);
      return nullptr;
    }
    names += (names.empty() ? "" : ", ") + std::string(isa->name);
  }
  if (wanted.empty()) {
    reason = "this build has kernels for " + names + " alone, which this processor does not run";
    return nullptr;
  }
  reason = "GABBRO_CPU: '" + std::string(wanted.substr(0, 32)) + "' is not one of " + names;
  return nullptr;
}

void MemoryCount::allocated(size_t bytes) {
  ++allocations_;
  const uint64_t now = in_use_ += bytes;
  for (uint64_t peak = peak_; peak < now && !peak_.compare_exchange_weak(peak, now);) {
  }
}

void MemoryCount::released(size_t bytes) {
  ++releases_;
  in_use_ -= bytes;
}

void MemoryCount::reset() {
  peak_ = in_use_.load();
  allocations_ = releases_ = failures_ = 0;
}

abi::PoolFacts MemoryCount::facts() const {
  return {.reserved = in_use_,
          .in_use = in_use_,
          .reserved_peak = peak_,
          .in_use_peak = peak_,
          .allocations = allocations_,
          .releases = releases_,
          .failures = failures_};
}

void* CpuDevice::allocate(size_t bytes) {
  // Linux overcommits: a larger allocation would succeed, and the OOM killer end a process later.
  const uint64_t in_use = memory_.in_use();
  if (in_use > memory_total_ || bytes > memory_total_ - in_use) return memory_.refused(), nullptr;
  if (kept_.bytes() > memory_total_ - in_use - bytes) kept_.clear();
  const size_t alignment = bytes >= kHugePage ? kHugePage : kAlignment;
  const size_t size = round_up(std::max<size_t>(bytes, 1), alignment);
  void* pointer = nullptr;
  if (alignment == kHugePage) {
    pointer = kept_.take(size);
  } else if (size <= SmallBlocks::kLargest) {
    pointer = small_.take(size);
  }
  if (pointer == nullptr) {
    pointer = std::aligned_alloc(alignment, size);
    if (pointer == nullptr) return memory_.refused(), nullptr;
    if (alignment == kHugePage) madvise(pointer, bytes, MADV_HUGEPAGE);  // advice: failure is fine
  }
  memory_.allocated(malloc_usable_size(pointer));
  return pointer;
}

void CpuDevice::free(void* pointer) {
  if (pointer == nullptr) return;
  const size_t size = malloc_usable_size(pointer);
  memory_.released(size);
  if (size < kHugePage) return small_.put(pointer, size);
  kept_.put(pointer, size / kHugePage * kHugePage);  // malloc may have added to it
}

void CpuDevice::free_unpooled(void* pointer) {
  if (pointer == nullptr) return;
  memory_.released(malloc_usable_size(pointer));
  std::free(pointer);
}

abi::PoolFacts CpuDevice::memory_facts() const {
  abi::PoolFacts facts = memory_.facts();
  facts.reserved += kept_.bytes();
  return facts;
}

size_t CpuDevice::packed_bytes(DType dtype, int64_t rows, int64_t columns) const {
  return isa_.packed_bytes(dtype, rows, columns);
}

void CpuDevice::pack(abi::Stream*, const abi::PackRequest& r, const void* source, void* target) {
  // Panels are whole: kPackRows is a multiple of their rows.
  static_assert(abi::kPackRows % kPanelRows == 0);
  auto* const own = static_cast<std::byte*>(target) + packed_bytes(r.dtype, r.first_row, r.columns);
  const auto task = [&](Worker& worker) { isa_.pack(r.dtype, r.row_count, r.columns, source, own, worker); };
  // Rows of a part come in sequence, while the pool computes with other weights.
  if (r.row_count < r.rows) {
    ThreadPool::run_apart(task);
  } else {
    pool_.run(task);
  }
}

std::unique_ptr<Kernel> CpuDevice::make_kernel(const abi::KernelRequest& wanted) {
  const abi::StoredRequest stored(wanted, has_panels);
  const abi::KernelRequest& request = stored.get();
  const bool in_place = has_any_alias(request);
  for (const KernelEntry& entry : isa_.kernels) {
    if (!entry.has(request.op) || entry.in_place != in_place) continue;
    auto kernel = entry.make(request, {.workers = pool_.workers()});
    if (kernel == nullptr) continue;
    if (auto* reader = dynamic_cast<IndexReader*>(kernel.get())) reader->report_to(&index_fault_);
    return kernel;
  }
  return nullptr;
}

bool CpuDevice::execute(abi::Stream*, const abi::Launch* launches, int32_t count, const std::atomic<bool>* cancel) {
  const auto walk = [&](Worker& worker) {
    int32_t expected = 0;  // the launch whose weights the worker was told of
    for (int32_t i = 0; i < count && !worker.stopped(); ++i) {
      if (i > 0) worker.barrier();
      if (worker.stopped()) break;
      if (const int32_t end = end_of_tiny(launches, i, count); worker.count() > 1 && end > i) {
        if (worker.index() == 0) pool_.run_alone_inside([&](Worker& alone) { run_tiny(launches + i, end - i, alone); });
        i = end - 1;
        continue;
      }
      run(launches[i], worker);
      const int32_t end = std::min(count, i + 1 + kWeightsAhead);
      for (int32_t next = std::max(expected, i) + 1; expected <= i && next < end; ++next) {
        const auto weights = static_cast<const Kernel*>(launches[next].kernel)->first_weights(launches[next], worker);
        if (weights.empty()) continue;
        worker.expect(weights);
        expected = next;
      }
    }
  };
  const Work work = work_of(launches, count);
  const bool whole = work == Work::kSmall    ? pool_.run_alone(walk, cancel)
                     : work == Work::kMedium ? pool_.run_where_sooner(walk, cancel)
                                             : pool_.run(walk, cancel);
  if (const auto message = index_fault_.take()) throw abi::StatusError(abi::StatusCode::kBadIndex, *message);
  return whole;
}

}  // namespace gabbro::cpu
