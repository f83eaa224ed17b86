#include "backends/gpu/collective/direct_sums.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "backends/gpu/memory/staging.h"

namespace gabbro::gpu {
namespace {

constexpr int64_t kTwoShotFrom = int64_t{1} << 17;  // elements, of more than two ranks: each stores less
constexpr uint32_t kStopped = ~0u;
constexpr uint64_t kPatienceSeconds = 4;  // for a flag; as RankWatch's

size_t place_of(DType dtype) { return dtype == DType::f32 ? 0 : dtype == DType::f16 ? 1 : 2; }

// A word that kernels write too.
std::atomic_ref<uint32_t> shared(uint32_t& word) { return std::atomic_ref(word); }

// The sums that there are, by their numbers.
struct Known {
  std::mutex mutex;
  std::map<int64_t, const DirectSums*> sums;
  int64_t last = 0;
};
Known& known() {
  static Known known;
  return known;
}
int64_t add_known(const DirectSums& sums) {
  const std::lock_guard lock(known().mutex);
  known().sums[++known().last] = &sums;
  return known().last;
}

}  // namespace

constexpr size_t kCounterWords = kReduceBlocks + kWordBlocks;  // u32 ahead of the table of inboxes

size_t DirectSums::word_bytes() const { return 2 * ranks_.size() * static_cast<size_t>(word_capacity()) * sizeof(u64); }
// Elements of one launch of words: twice as much is stored, for each peer.
int64_t DirectSums::word_capacity() const { return int64_t{1} << (has_two_shots() ? 16 : 17); }
// Elements of one launch by flags. More ranks need more memory for each.
int64_t DirectSums::capacity() const {
  const int64_t of_steps = int64_t{most_blocks_} * kReduceSteps * kReduceThreads * kReduceVectors * 4;
  return std::min(int64_t{1} << (has_two_shots() ? 21 : 23), of_steps);
}
size_t DirectSums::partial_elements() const { return 2 * (ranks_.size() - 1) * static_cast<size_t>(capacity()); }
size_t DirectSums::flag_bytes() const { return 2 * kReduceBlocks * ranks_.size() * kFlagStep * sizeof(uint32_t); }

ReduceInbox DirectSums::inbox_of(const Rank& rank) const {
  auto* const begin = static_cast<std::byte*>(rank.inbox);
  auto* const partials = reinterpret_cast<float*>(begin + word_bytes() + flag_bytes());
  return {.flags = reinterpret_cast<u32*>(begin + word_bytes()),
          .partials = partials,
          .sums = partials + partial_elements(),
          .words = reinterpret_cast<u64*>(begin)};
}

const DirectSums* DirectSums::find(int64_t id) {
  const std::lock_guard lock(known().mutex);
  const auto found = known().sums.find(id);
  return found == known().sums.end() ? nullptr : found->second;
}

DirectSums::DirectSums(std::span<GpuDevice* const> devices) : id_(add_known(*this)) {
  for (GpuDevice* const device : devices) {
    Rank& rank = ranks_.emplace_back(Rank{.device = device, .one_shot = {}, .two_shot = {}, .words = {}});
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      rank.one_shot[place_of(dtype)] = device->function(fmt::format("all_reduce_one_shot_{}", dtype_name(dtype)));
      rank.two_shot[place_of(dtype)] = device->function(fmt::format("all_reduce_two_shot_{}", dtype_name(dtype)));
      for (const Functions way : {&Rank::one_shot, &Rank::two_shot}) {
        const auto resident = static_cast<uint32_t>(api::resident_blocks((rank.*way)[place_of(dtype)]));
        most_blocks_ = std::clamp(resident, 1U, most_blocks_);
      }
      rank.words[place_of(dtype)] = device->function(fmt::format("all_reduce_words_{}", dtype_name(dtype)));
    }
  }
}

DirectSums::~DirectSums() {
  {
    const std::lock_guard lock(known().mutex);
    known().sums.erase(id_);
  }
  for (const Rank& rank : ranks_) {
    if (rank.inbox != nullptr) api::release(rank.device->context(), rank.inbox);
    if (rank.counters != nullptr) api::release(rank.device->context(), rank.counters);
  }
  if (failure_ != nullptr) api::release_pinned(ranks_.front().device->context(), failure_);
}

std::unique_ptr<DirectSums> DirectSums::make(std::span<GpuDevice* const> devices, std::string& problem) {
  problem = devices.size() > kMostRanks ? fmt::format("they are more than {}", kMostRanks) : api::rank_sum_problem();
  if (!problem.empty()) return nullptr;
  std::unique_ptr<DirectSums> made(new DirectSums(devices));
  for (const auto step : {&DirectSums::connect, &DirectSums::allocate, &DirectSums::test}) {
    problem = (made.get()->*step)();
    if (!problem.empty()) return nullptr;
  }
  return made;
}

// Lets each rank write the memory of each other one.
std::string DirectSums::connect() {
  for (const Rank& own : ranks_) {
    for (const Rank& other : ranks_) {
      if (&own == &other) continue;
      const PeerCopies::Route route = own.device->route_from(*other.device);
      if (!route.direct) return route.reason;
    }
  }
  return {};
}

std::string DirectSums::allocate() {
  const size_t ranks = ranks_.size();
  const size_t sums = has_two_shots() ? 2 * static_cast<size_t>(capacity()) : 0;
  const size_t bytes = word_bytes() + flag_bytes() + (partial_elements() + sums) * sizeof(float);
  std::vector<ReduceInbox> inboxes;
  for (Rank& rank : ranks_) {
    rank.inbox = api::allocate_shared(rank.device->context(), bytes);
    rank.counters =
        api::allocate(rank.device->context(), kCounterWords * sizeof(uint32_t) + ranks * sizeof(ReduceInbox));
    if (rank.inbox == nullptr || rank.counters == nullptr) return "the memory does not suffice for their sums";
    inboxes.push_back(inbox_of(rank));
  }
  failure_ = static_cast<uint32_t*>(api::allocate_pinned(ranks_.front().device->context(), sizeof(uint32_t)));
  if (failure_ == nullptr) return "the pinned memory does not suffice for their sums";
  for (const Rank& rank : ranks_) {
    clear(rank);
    GpuStream& stream = rank.device->stream(nullptr);
    const std::lock_guard lock(stream.mutex());
    api::copy_to_device(stream.queue(), static_cast<uint32_t*>(rank.counters) + kCounterWords, inboxes.data(),
                        ranks * sizeof(ReduceInbox));
    stream.synchronize();
  }
  shared(*failure_) = 0;
  return {};
}

// The flags and the counters of a rank, whose stream is done.
void DirectSums::clear(const Rank& rank) const {
  GpuStream& stream = rank.device->stream(nullptr);
  const std::lock_guard lock(stream.mutex());
  const std::vector<std::byte> zeros(word_bytes() + flag_bytes());
  copy_pieces_to_device(stream.queue(), rank.inbox, zeros.data(), zeros.size());
  api::copy_to_device(stream.queue(), rank.counters, zeros.data(), kCounterWords * sizeof(uint32_t));
  stream.synchronize();
}

void DirectSums::enqueue(size_t rank, const Launcher& run, const Operands& all) const {
  if (all.count <= word_capacity()) return enqueue_part(&Rank::words, rank, run, all);
  const bool is_one_shot = !has_two_shots() || all.count < kTwoShotFrom;
  for (int64_t first = 0; first < all.count; first += capacity()) {
    const size_t offset = dtype_bytes(all.dtype, static_cast<size_t>(first));
    const auto from = [&](const void* memory) { return static_cast<const std::byte*>(memory) + offset; };
    enqueue_part(is_one_shot ? &Rank::one_shot : &Rank::two_shot, rank, run,
                 {.x = from(all.x),
                  .addend = all.addend != nullptr ? from(all.addend) : nullptr,
                  .y = static_cast<std::byte*>(all.y) + offset,
                  .dtype = all.dtype,
                  .count = std::min(capacity(), all.count - first)});
  }
}

void DirectSums::enqueue_part(Functions functions, size_t number, const Launcher& run, const Operands& part) const {
  const Rank& rank = ranks_[number];
  const bool has_words = functions == &Rank::words;
  auto* const counters = static_cast<uint32_t*>(rank.counters);
  const uint32_t blocks = has_words ? kWordBlocks : std::min(blocks_for(part.count, 4 * kReduceThreads), most_blocks_);
  run((rank.*functions)[place_of(part.dtype)], {blocks, 1, 1},
      AllReduceArgs{.x = part.x,
                    .addend = part.addend,
                    .y = part.y,
                    .inboxes = reinterpret_cast<const ReduceInbox*>(counters + kCounterWords),
                    .counters = has_words ? counters + kReduceBlocks : counters,
                    .failure = failure_,
                    .count = part.count,
                    .capacity = has_words ? word_capacity() : capacity(),
                    .rank = static_cast<u32>(number),
                    .ranks = static_cast<u32>(ranks_.size()),
                    .most_ticks = kPatienceSeconds * api::ticks_per_second()});
}

void DirectSums::stop() {
  uint32_t none = 0;
  shared(*failure_).compare_exchange_strong(none, kStopped);
}

void DirectSums::begin() {
  if (shared(*failure_) == 0) return;
  for (const Rank& rank : ranks_) rank.device->synchronize_stream(nullptr);
  for (const Rank& rank : ranks_) clear(rank);
  shared(*failure_) = 0;
}

std::optional<size_t> DirectSums::late_rank() const {
  const uint32_t failure = shared(*failure_);
  if (failure == 0 || failure == kStopped) return std::nullopt;
  return failure - 1;
}

namespace {

// Small whole numbers, whose sums are exact.
float test_value(size_t rank, int round, int64_t i) {
  return static_cast<float>((i * 7 + static_cast<int64_t>(rank) * 31 + round * 13) % 97 - 48);
}

}  // namespace

// Sums of several sizes in a row, as fast as the rank can.
std::string DirectSums::test_rank(size_t number) {
  constexpr int kRounds = 9;
  const Functions functions[] = {&Rank::one_shot, has_two_shots() ? &Rank::two_shot : &Rank::one_shot, &Rank::words};
  constexpr int64_t kCounts[] = {700, 4096, 3};
  GpuDevice& device = *ranks_[number].device;
  GpuStream& stream = device.stream(nullptr);
  const auto most = static_cast<size_t>(*std::ranges::max_element(kCounts));
  const auto release = [&](void* memory) { api::release(device.context(), memory); };
  const std::unique_ptr<void, decltype(release)> x(api::allocate(device.context(), most * sizeof(float)), release);
  if (x == nullptr) return "the memory does not suffice for a test of their sums";
  std::vector<float> values(most);
  const std::lock_guard lock(stream.mutex());
  for (int round = 0; round < kRounds; ++round) {
    for (const int64_t count : kCounts) {
      const std::span<float> part = std::span(values).first(static_cast<size_t>(count));
      for (int64_t i = 0; i < count; ++i) part[static_cast<size_t>(i)] = test_value(number, round, i);
      copy_pieces_to_device(stream.queue(), x.get(), std::as_bytes(part).data(), part.size_bytes());
      enqueue_part(functions[round % 3], number, {.queue = stream.queue(), .counters = nullptr},
                   {.x = x.get(), .addend = nullptr, .y = x.get(), .dtype = DType::f32, .count = count});
      stream.synchronize();
      copy_pieces_to_host(stream.queue(), std::as_writable_bytes(part).data(), x.get(), part.size_bytes());
      for (int64_t i = 0; i < count; ++i) {
        float sum = 0;
        for (size_t rank = 0; rank < ranks_.size(); ++rank) sum += test_value(rank, round, i);
        if (part[static_cast<size_t>(i)] != sum || shared(*failure_) != 0)
          return "sums that they stored into each other's memory were wrong";
      }
    }
  }
  return {};
}

std::string DirectSums::test() {
  std::vector<std::string> problems(ranks_.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        problems[rank] = test_rank(rank);
      } catch (const ApiError& error) {
        problems[rank] = error.what();
      }
      if (!problems[rank].empty()) stop();  // the others need not wait
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto bad = std::ranges::find_if(problems, [](const std::string& problem) { return !problem.empty(); });
  return bad == problems.end() ? "" : *bad;
}

}  // namespace gabbro::gpu
