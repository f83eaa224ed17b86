#include "backends/gpu/memory/ranges.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "src/base/round_up.h"

namespace gabbro::gpu {
namespace {

// Bytes that a range has after it was extended: at least 1/4 more than before and 1/64 of all, or each page of a long
// context would be a call of the runtime for every range of the cache.
size_t grown(size_t wanted, size_t mapped, size_t all, size_t step) {
  const size_t more = round_up(std::max(mapped / 4, all / 64), step);
  return std::min(std::max(wanted, mapped + more), all);
}

}  // namespace

Ranges::~Ranges() {
  for (auto& [range, size] : ranges_) unmap(range, size);
}

// One more piece. False where there is not enough memory.
bool Ranges::map(void* range, Range& to, size_t bytes) {
  if (!api::map_memory(context_, range, to.mapped, bytes)) return false;
  to.pieces.push_back(bytes);
  to.mapped += bytes;
  return true;
}

// Releases a range: its pieces one by one, from the end, since hipMemUnmap of several at once leaves memory behind
// (ROCR-Runtime issue 285). Returns the bytes that the runtime took back.
size_t Ranges::unmap(void* range, Range& from) {
  size_t unmapped = 0;
  for (; !from.pieces.empty(); from.pieces.pop_back()) {
    const size_t bytes = from.pieces.back();
    from.mapped -= bytes;
    const std::string failure = api::unmap_memory(context_, static_cast<std::byte*>(range) + from.mapped, bytes);
    if (failure.empty()) unmapped += bytes;
    if (!failure.empty()) stop_using(failure);
  }
  const std::string failure = api::release_addresses(context_, range, from.bytes);
  if (!failure.empty()) stop_using(failure);
  return unmapped;
}

void Ranges::stop_using(const std::string& problem) {
  if (problem_.empty()) problem_ = problem;
}

namespace {

constexpr size_t kTestedSteps[] = {1, 2, 1, 3, 2};  // of the pieces of each range
constexpr size_t kTestedBytes = 128;                // on each side of a border

// Calls body(bytes before the border, its number) for each end of a piece.
template <class Body>
void for_borders(size_t step, const Body& body) {
  size_t border = 0, number = 0;
  for (const size_t steps : kTestedSteps) body(border += steps * step, number++);
}

std::array<std::byte, 2 * kTestedBytes> written_at(size_t range, size_t border) {
  std::array<std::byte, 2 * kTestedBytes> bytes{};
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(range * 61 + border * 17 + i);
  return bytes;
}

}  // namespace

// As a KV cache uses ranges: several that grow by turns, by pieces of different sizes. The bytes across the borders of
// pieces are written, then read.
void Ranges::test(size_t step) {
  constexpr size_t kRanges = 4;
  const size_t steps = std::accumulate(std::begin(kTestedSteps), std::end(kTestedSteps), size_t{0});
  std::array<std::pair<void*, Range>, kRanges> ranges{};
  const auto release_all = [&](api::Queue* queue) {
    api::destroy_queue(queue);
    for (auto& [range, size] : ranges) {
      if (range != nullptr) unmap(range, size);
    }
  };
  const std::unique_ptr<api::Queue, decltype(release_all)> queue(api::create_queue(context_), release_all);
  for (auto& [range, size] : ranges) {
    size = {.bytes = steps * step};
    range = api::reserve_addresses(context_, size.bytes);
  }
  for (const size_t more : kTestedSteps) {
    for (auto& [range, size] : ranges) {
      if (!map(range, size, more * step))
        throw ApiError(abi::StatusCode::kOutOfMemory, "there is no memory to test ranges in");
    }
  }
  // The last border is the end of the range.
  const auto bytes_at = [&](size_t border) { return border == steps * step ? kTestedBytes : 2 * kTestedBytes; };
  for (size_t i = 0; i < kRanges; ++i) {
    for_borders(step, [&](size_t border, size_t number) {
      void* const at = static_cast<std::byte*>(ranges[i].first) + border - kTestedBytes;
      api::copy_to_device(queue.get(), at, written_at(i, number).data(), bytes_at(border));
    });
  }
  for (size_t i = 0; i < kRanges; ++i) {
    for_borders(step, [&](size_t border, size_t number) {
      const auto expected = written_at(i, number);
      auto read = expected;
      void* const at = static_cast<std::byte*>(ranges[i].first) + border - kTestedBytes;
      api::copy_to_host(queue.get(), read.data(), at, bytes_at(border));
      api::synchronize(queue.get());
      if (read != expected)
        throw ApiError(abi::StatusCode::kFailed, "ranges do not hold what is written across their pieces");
    });
  }
}

// Throws ApiError. Some versions of HIP keep the memory of ranges that were released; other programs that allocate
// meanwhile look the same, but hardly twice.
void Ranges::require_working(size_t step) {
  constexpr size_t kTolerance = 16;  // steps, of the 36 of a test
  for (int run = 0; run < 2; ++run) {
    const size_t before = api::free_memory(context_);
    test(step);
    if (api::free_memory(context_) + kTolerance * step >= before) return;
  }
  throw ApiError(abi::StatusCode::kFailed, "the runtime keeps the memory of ranges that were released");
}

bool Ranges::usable() {
  if (step_ > 0 || !problem_.empty()) return problem_.empty();
  try {
    const size_t step = api::range_step(context_);
    if (step == 0) throw ApiError(abi::StatusCode::kUnsupported, "the device has no memory that comes by need");
    require_working(step);
    step_ = step;
  } catch (const ApiError& error) {
    if (error.code == abi::StatusCode::kOutOfMemory) return false;  // says nothing of later
    stop_using(error.what());
  }
  return problem_.empty();
}

std::string Ranges::problem() const {
  const std::lock_guard lock(mutex_);
  return problem_;
}

void* Ranges::reserve(size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (!usable()) return nullptr;
  const size_t size = round_up(std::max<size_t>(bytes, 1), step_);
  void* const range = api::reserve_addresses(context_, size);
  ranges_[range] = {.bytes = size};
  return range;
}

bool Ranges::extend(void* range, size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = ranges_.find(range);
  if (found == ranges_.end() || bytes > found->second.bytes)
    throw std::logic_error("gpu: a range is extended that is not one, or past its end");
  Range& now = found->second;
  const size_t before = now.mapped, wanted = round_up(bytes, step_);
  if (wanted <= before) return true;
  const size_t least = wanted - before, most = grown(wanted, before, now.bytes, step_) - before;
  try {
    const bool extended = map(range, now, most) || (most > least && map(range, now, least)) ||
                          (pool_.trim() > 0 && map(range, now, least));
    if (!extended) return false;
  } catch (const ApiError& error) {
    if (error.code == abi::StatusCode::kFailed) stop_using(error.what());
    throw;
  }
  pool_.count_range(static_cast<std::ptrdiff_t>(now.mapped - before));
  return true;
}

void Ranges::release(void* range) {
  const std::lock_guard lock(mutex_);
  const auto found = ranges_.find(range);
  if (found == ranges_.end()) throw std::logic_error("gpu: released what is not a range");
  Range size = std::move(found->second);
  ranges_.erase(found);
  pool_.count_range(-static_cast<std::ptrdiff_t>(unmap(range, size)));
}

}  // namespace gabbro::gpu
