#include "backends/gpu/doctor/peers.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>
#include <vector>

#include "backends/gpu/doctor/peer_verdicts.h"
#include "backends/gpu/doctor/test_pattern.h"
#include "backends/gpu/memory/staging.h"

namespace gabbro::gpu {
namespace {

// Size of each of the two stages: while one is read, the other is written. Smaller ones lose time in pauses.
constexpr size_t kStageBytes = size_t{4} << 20;

// One SDMA copy of 256 MiB or more hangs on MI355X with some drivers (ROCm/rocm-systems PR 9927).
constexpr size_t kDirectPiece = size_t{64} << 20;

// Sizes that the test copies: odd ones, up to one that no cache between the devices holds, and where each begins.
constexpr size_t kTestBytes = (size_t{16} << 20) + 3;
constexpr size_t kTestSizes[] = {1, 4097, (size_t{1} << 20) - 1, kTestBytes - 64};
constexpr size_t kTestOffset = 60;
constexpr size_t kDoctorRounds = 3;  // of all sizes, for damage that does not show in each copy

constexpr int kTimedCopies = 3;  // of each route; the fastest counts
// Times of a shared machine vary; a direct copy also leaves the host's memory to others.
constexpr double kClearlyFaster = 1.5;

uint64_t checksum(std::span<const std::byte> bytes) {  // FNV-1a
  uint64_t hash = 0xcbf29ce484222325;
  for (const std::byte byte : bytes) hash = (hash ^ static_cast<uint64_t>(byte)) * 0x100000001b3;
  return hash;
}

// Null: none.
std::shared_ptr<std::byte> test_memory(api::Context* context) {
  return {static_cast<std::byte*>(api::allocate(context, kTestBytes)), [context](std::byte* memory) {
            if (memory != nullptr) api::release(context, memory);
          }};
}

bool switched_off() {
  const char* wanted = std::getenv("GABBRO_PEER_COPIES");
  return wanted != nullptr && std::string_view(wanted) == "0";
}

}  // namespace

const PeerCopies::Route& PeerCopies::route_from(const PeerEnd& from) {
  const auto known = routes_.find(from.index);
  return known != routes_.end() ? known->second : routes_.emplace(from.index, examine(from)).first->second;
}

PeerCopies::Route PeerCopies::examine(const PeerEnd& from) {
  if (switched_off()) return {.direct = false, .reason = kSwitchedOff};
  try {
    const std::string unreachable = api::connect(own_.context, from.context);
    if (!unreachable.empty()) return {.direct = false, .reason = unreachable};
    const PeerVerdict verdict(own_.index, from.index);
    if (const std::string damage = verdict.damage(); !damage.empty())
      return {
          .direct = false, .reason = damage + " (an earlier test; gabbro doctor --peers repeats it)", .damaged = true};
    Route route = test(from);
    verdict.keep(route.damaged ? route.reason : "");
    return route;
  } catch (const ApiError& error) {
    if (error.code == abi::StatusCode::kLost) throw;
    return {.direct = false, .reason = error.what()};
  }
}

PeerCopies::Route PeerCopies::test(const PeerEnd& from) {
  const auto source = test_memory(from.context), target = test_memory(own_.context);
  if (source == nullptr || target == nullptr) return {.direct = false, .reason = "there is no memory to test them in"};
  std::vector<std::byte> arrived(kTestBytes);
  uint32_t seed = 1;
  const size_t rounds = PeerVerdict::are_renewed() ? kDoctorRounds : 1;
  for (size_t i = 0; i < rounds * std::size(kTestSizes); ++i) {
    const size_t bytes = kTestSizes[i % std::size(kTestSizes)];
    const std::vector<std::byte> sent = test_pattern(kTestBytes, seed++), before = test_pattern(kTestBytes, seed++);
    copy_pieces_to_device(from.queue, source.get(), sent.data(), kTestBytes);
    copy_pieces_to_device(own_.queue, target.get(), before.data(), kTestBytes);
    copy_directly(from, {target.get() + kTestOffset, source.get() + kTestOffset, bytes});
    copy_pieces_to_host(own_.queue, arrived.data(), target.get(), kTestBytes);
    api::synchronize(own_.queue);
    // All of it, so that bytes that landed elsewhere are noticed too.
    std::vector<std::byte> expected = before;
    std::copy_n(sent.begin() + kTestOffset, bytes, expected.begin() + kTestOffset);
    const uint64_t found = checksum(arrived), wanted = checksum(expected);
    if (found != wanted) {
      return {.direct = false,
              .reason = fmt::format("of {} bytes sent directly the checksum was {:016x} and not {:016x}", bytes, found,
                                    wanted),
              .damaged = true};
    }
  }
  return timed(from, target.get(), source.get());
}

PeerCopies::Route PeerCopies::timed(const PeerEnd& from, void* target, const void* source) {
  const auto rate = [](const auto& copy) {
    double fastest = 0;
    for (int repeat = 0; repeat < kTimedCopies; ++repeat) {
      const auto start = std::chrono::steady_clock::now();
      copy();
      const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
      fastest = std::max(fastest, static_cast<double>(kTestBytes) / std::max(time.count(), 1e-9));
    }
    return fastest;
  };
  Route route{.direct = true, .reason = {}};
  route.direct_rate = rate([&] { copy_directly(from, {target, source, kTestBytes}); });
  try {
    route.staged_rate = rate([&] { copy_staged(from, {target, source, kTestBytes}); });
  } catch (const ApiError& error) {
    if (error.code != abi::StatusCode::kOutOfMemory) throw;
    return route;  // no memory for stages: only the direct route is left
  }
  if (route.staged_rate > kClearlyFaster * route.direct_rate) {
    route.direct = false;
    route.reason = fmt::format("direct copies reach {:.1f} GB/s, those through the host's memory {:.1f} GB/s",
                               route.direct_rate / 1e9, route.staged_rate / 1e9);
  } else {
    stage_.reset();
  }
  return route;
}

const PeerCopies::Route* PeerCopies::known_route(int32_t index) const {
  const auto known = routes_.find(index);
  return known != routes_.end() ? &known->second : nullptr;
}

void PeerCopies::enqueue_direct(api::Queue* to, api::Context* from, const PeerCopy& copy) {
  for (size_t at = 0; at < copy.bytes; at += kDirectPiece) {
    api::copy_peer(to, static_cast<std::byte*>(copy.target) + at, from, static_cast<const std::byte*>(copy.source) + at,
                   std::min(copy.bytes - at, kDirectPiece));
  }
}

void PeerCopies::enqueue_staged(api::Queue* to, const PeerEnd& from, const PeerCopy& copy) {
  if (copy.bytes == 0) return;
  if (stage_ == nullptr) {
    stage_.reset(api::allocate_pinned(own_.context, 2 * kStageBytes));
    if (stage_ == nullptr) throw ApiError(abi::StatusCode::kOutOfMemory, "no pinned memory to copy through");
    begin_.reset(api::create_event(own_.context));
    for (EventPointer& event : stage_free_) event.reset(api::create_event(own_.context));
  }
  const EventPointer sent(api::create_event(from.context));
  api::record(to, begin_.get());
  api::wait(from.queue, begin_.get());
  for (size_t at = 0; at < copy.bytes; at += kStageBytes, ++turn_) {
    const size_t part = std::min(copy.bytes - at, kStageBytes);
    std::byte* const stage = static_cast<std::byte*>(stage_.get()) + turn_ % 2 * kStageBytes;
    api::Event* const is_free = stage_free_[turn_ % 2].get();
    api::wait(from.queue, is_free);
    api::copy_to_host(from.queue, stage, static_cast<const std::byte*>(copy.source) + at, part);
    api::record(from.queue, sent.get());
    api::wait(to, sent.get());
    api::copy_to_device(to, static_cast<std::byte*>(copy.target) + at, stage, part);
    api::record(to, is_free);
  }
}

void PeerCopies::copy_directly(const PeerEnd& from, const PeerCopy& copy) {
  api::synchronize(from.queue);
  enqueue_direct(own_.queue, from.context, copy);
  api::synchronize(own_.queue);
}

void PeerCopies::copy_staged(const PeerEnd& from, const PeerCopy& copy) {
  api::synchronize(from.queue);
  enqueue_staged(own_.queue, from, copy);
  api::synchronize(own_.queue);
}

}  // namespace gabbro::gpu
