#include "src/backend/doctor/peer_matrix.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <map>
#include <memory>
#include <vector>

#include "src/backend/device.h"
#include "src/backend/registry.h"

namespace gabbro::doctor {
namespace {

constexpr size_t kBytes = size_t{16} << 20;  // no cache between the devices holds them
constexpr int kTimedCopies = 3;
constexpr int kShortCopies = 30;
// Sizes of the checked copies in turn: one element, odd ones, and one of several pages.
constexpr size_t kCheckedSizes[] = {4, 4097, (size_t{1} << 16) + 1, (size_t{1} << 20) - 1};
constexpr size_t kCheckedCopies = 32;

// Bytes that differ by copy and place.
std::vector<std::byte> pattern(size_t bytes, uint64_t seed) {
  std::vector<std::byte> values(bytes);
  uint64_t state = seed * 0x9e3779b97f4a7c15 + 1;
  for (std::byte& value : values) {
    state = state * 6364136223846793005 + 1442695040888963407;
    value = static_cast<std::byte>(state >> 56);
  }
  return values;
}

template <class Copy>
double fastest(int repeats, const Copy& copy) {
  double least = std::numeric_limits<double>::max();
  for (int i = 0; i < repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    copy();
    least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return std::max(least, 1e-9);
}

void examine_pair(Device& from, Device& to, PeerFinding& finding) {
  const abi::PeerRoute route = to.route_from(from);
  finding.direct = route.direct;
  finding.reason = route.reason;
  const std::shared_ptr<void> source = from.allocate(kBytes), target = to.allocate(kBytes);
  for (size_t i = 0; i < kCheckedCopies; ++i) {
    const size_t bytes = kCheckedSizes[i % std::size(kCheckedSizes)];
    const std::vector<std::byte> sent = pattern(bytes, 2 * i), before = pattern(bytes, 2 * i + 1);
    std::vector<std::byte> arrived(bytes);
    from.copy_to_device(source.get(), sent.data(), bytes);
    from.synchronize();
    to.copy_to_device(target.get(), before.data(), bytes);
    to.copy_from(from, target.get(), source.get(), bytes);
    to.copy_to_host(arrived.data(), target.get(), bytes);
    finding.wrong_copies += arrived != sent ? 1 : 0;
  }
  const auto copy = [&](size_t bytes) { to.copy_from(from, target.get(), source.get(), bytes); };
  finding.bytes_per_second = static_cast<double>(kBytes) / fastest(kTimedCopies, [&] { copy(kBytes); });
  finding.seconds = fastest(kShortCopies, [&] { copy(4); });
}

}  // namespace

std::vector<PeerFinding> examine_peers() {
  ::setenv("GABBRO_PEER_VERDICTS", "renew", 1);  // plugins read it when they test a pair
  std::map<std::string, std::vector<std::string>> backends;
  for (const abi::DeviceFacts& facts : list_devices()) {
    const std::string id = facts.id;
    if (facts.usable && id.find(':') != std::string::npos) backends[id.substr(0, id.find(':'))].push_back(id);
  }
  std::vector<PeerFinding> findings;
  for (auto& [backend, ids] : backends) {
    if (ids.size() < 2) continue;
    std::ranges::sort(ids, {}, [](const std::string& id) { return std::pair(id.size(), id); });
    std::map<std::string, std::shared_ptr<Device>> devices;
    std::map<std::string, std::string> problems;
    for (const std::string& id : ids) {
      try {
        devices[id] = open_device(id);
      } catch (const Error& error) {
        problems[id] = error.what();
      }
    }
    for (const std::string& from : ids) {
      for (const std::string& to : ids) {
        if (from == to) continue;
        PeerFinding& finding = findings.emplace_back(PeerFinding{.from = from, .to = to});
        for (const std::string& id : {from, to})
          if (problems.contains(id)) finding.problem = problems[id];
        if (!finding.problem.empty()) continue;
        try {
          examine_pair(*devices[from], *devices[to], finding);
        } catch (const Error& error) {
          finding.problem = error.what();
        }
      }
    }
  }
  return findings;
}

}  // namespace gabbro::doctor
