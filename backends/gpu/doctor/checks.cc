#include "backends/gpu/doctor/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "backends/gpu/device.h"
#include "backends/gpu/doctor/kernel_check.h"
#include "backends/gpu/doctor/test_pattern.h"
#include "backends/gpu/facts.h"

namespace gabbro::gpu {
namespace {

using abi::CheckStatus;

constexpr size_t kMiB = size_t{1} << 20;

void answer(abi::CheckResult& result, CheckStatus status, std::string_view summary, std::string_view fix = {}) {
  result.status = status;
  set_text(result.summary, summary);
  set_text(result.fix, fix);
}

template <class Body>
double seconds(const Body& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::max(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 1e-9);
}

// Device memory, released by the destructor.
class Memory {
 public:
  Memory(GpuDevice& device, size_t bytes) : device_(device), pointer_(device.allocate(nullptr, bytes)) {
    if (pointer_ == nullptr)
      throw ApiError(abi::StatusCode::kOutOfMemory, fmt::format("no device memory for {} bytes", bytes));
  }
  ~Memory() { device_.free(nullptr, pointer_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  void* get() const { return pointer_; }

 private:
  GpuDevice& device_;
  void* pointer_;
};

bool check_code_objects(GpuDevice& device, abi::CheckResult& result) {
  const std::string kernels = device.kernels();
  const auto says = [&](const char* words) { return kernels.find(words) != std::string::npos; };
  if (says("cannot be written")) {  // code that is compiled at each start
    answer(result, CheckStatus::kWarning, kernels, "set GABBRO_HOME to a folder that can be written");
  } else if (says("the runtime refuses")) {
    answer(result, CheckStatus::kWarning, kernels, "update ROCm: 6.3 and newer take all of the plugin's kernels");
  } else {
    answer(result, CheckStatus::kOk, kernels);
  }
  return true;
}

// Allocations of each size come and go, with a pattern at both ends; then the device has as much memory as before.
bool check_allocator(GpuDevice& device, abi::CheckResult& result) {
  constexpr int kCycles = 32;
  constexpr size_t kTolerance = 64 * kMiB;  // what other programs may take meanwhile; a cycle that leaks loses more
  const std::vector<size_t> sizes = {1, 4097, kMiB - 1, 3 * kMiB + 5, 16 * kMiB};
  size_t before = 0;
  for (int cycle = 0; cycle <= kCycles; ++cycle) {
    const std::vector<std::byte> written = test_pattern(4096, static_cast<uint32_t>(cycle));
    for (const size_t bytes : sizes) {
      const Memory memory(device, bytes);
      const size_t part = std::min(bytes, written.size());
      auto* const ending = static_cast<std::byte*>(memory.get()) + bytes - part;
      std::vector<std::byte> read(part);
      for (void* place : {memory.get(), static_cast<void*>(ending)}) {
        device.copy_to_device(nullptr, place, written.data(), part);
        device.copy_to_host(nullptr, read.data(), place, part);
        if (std::equal(read.begin(), read.end(), written.begin())) continue;
        answer(result, CheckStatus::kError,
               fmt::format("an allocation of {} bytes does not hold what is written", bytes),
               "stop what else uses the card; where it stays so, the card or its driver is faulty");
        return true;
      }
    }
    device.pool(abi::MemoryKind::kDevice).trim();
    if (cycle == 0) before = device.free_memory();  // after what the runtime allocates for itself
  }
  const size_t after = device.free_memory();
  if (after + kTolerance < before) {
    answer(result, CheckStatus::kError,
           fmt::format("{} MiB are gone after {} cycles of allocation", (before - after) / kMiB, kCycles),
           "stop what else uses the card, and run it again; where it stays so, update the driver");
  } else {
    answer(result, CheckStatus::kOk, fmt::format("memory is back after {} cycles of allocation", kCycles));
  }
  return true;
}

bool check_host_copies(GpuDevice& device, abi::CheckResult& result) {
  constexpr size_t kBytes = 64 * kMiB;
  constexpr double kSlow = 3e9;  // bytes/s: four lanes of PCIe 3.0 reach 3.2
  const auto pinned = device.allocate_pinned(kBytes);
  const Memory memory(device, kBytes);
  const std::vector<std::byte> pageable = test_pattern(kBytes, 1);
  std::memcpy(pinned.get(), pageable.data(), kBytes);
  const auto rate = [&](const void* host) {
    double fastest = 0;
    for (int repeat = 0; repeat < 3; ++repeat) {
      fastest = std::max(fastest, kBytes / seconds([&] {
                                    device.copy_to_device(nullptr, memory.get(), host, kBytes);
                                    device.synchronize_stream(nullptr);
                                  }));
    }
    return fastest;
  };
  const double pageable_rate = rate(pageable.data()), pinned_rate = rate(pinned.get());
  std::memset(pinned.get(), 0, kBytes);
  const double back_rate = kBytes / seconds([&] {
                             device.copy_to_host(nullptr, pinned.get(), memory.get(), kBytes);
                             device.synchronize_stream(nullptr);
                           });
  const std::string rates = fmt::format("to the device {:.1f} GB/s pinned, {:.1f} GB/s pageable; back {:.1f} GB/s",
                                        pinned_rate / 1e9, pageable_rate / 1e9, back_rate / 1e9);
  if (std::memcmp(pinned.get(), pageable.data(), kBytes) != 0) {
    answer(result, CheckStatus::kError, "what was copied to the device and back is not the same",
           "amd_iommu=off or iommu=pt on the kernel's command line; where it stays so, the card or its slot is faulty");
  } else if (pinned_rate < kSlow) {
    answer(result, CheckStatus::kWarning, rates, "gabbro doctor: the check pcie-link shows the lanes in use");
  } else {
    answer(result, CheckStatus::kOk, rates);
  }
  return true;
}

// y = -x over memory that no cache holds.
bool check_bandwidth(GpuDevice& device, abi::CheckResult& result) {
  const double possible = device.memory_bandwidth();
  if (possible == 0) return false;
  const size_t bytes = std::min(512 * kMiB, device.free_memory() / 8);
  const Memory x(device, bytes), y(device, bytes);
  abi::TensorView in{
      .shape = {static_cast<int64_t>(bytes / sizeof(float))}, .strides = {1}, .rank = 1, .dtype = DType::f32};
  abi::TensorView out = in;
  const auto kernel =
      device.make_kernel({.op = "neg", .inputs = &in, .input_count = 1, .outputs = &out, .output_count = 1});
  if (kernel == nullptr) return false;
  in.data = x.get();
  out.data = y.get();
  const abi::Launch launch{.kernel = kernel.get(), .inputs = &in, .outputs = &out, .input_count = 1, .output_count = 1};
  double fastest = 1e9;
  for (int repeat = 0; repeat < 4; ++repeat) {
    fastest = std::min(fastest, seconds([&] {
                         device.execute(nullptr, &launch, 1, nullptr);
                         device.synchronize_stream(nullptr);
                       }));
  }
  device.forget_graphs_of(kernel.get());
  const double reached = 2.0 * static_cast<double>(bytes) / fastest;
  judge_bandwidth(reached, possible, result);
  return true;
}

bool check_kernels(GpuDevice& device, abi::CheckResult& result) {
  const std::vector<KernelVerdict> verdicts = gpu::check_kernels(device);
  std::string wrong;
  size_t count = 0;
  for (const KernelVerdict& verdict : verdicts) {
    if (verdict.right) continue;
    ++count;
    if (count == 1) wrong = fmt::format("{} (off by {:.2g} of the result)", verdict.name, verdict.error);
  }
  const auto counter = device.stream(nullptr).nonzero_counter();
  if (count == 0 && counter) {
    answer(result, CheckStatus::kError,
           fmt::format("after all kernels have ended, counter {} of their blocks is {} and not 0", counter->index,
                       counter->value),
           "update the driver and its runtime; until then use --device cpu, and report it");
  } else if (count == 0) {
    answer(result, CheckStatus::kOk, fmt::format("{} kernels compute what the host does", verdicts.size()));
  } else {
    answer(result, CheckStatus::kError,
           fmt::format("{} of {} kernels compute something else than the host: {}", count, verdicts.size(), wrong),
           "use --device cpu; run it once more: if it names other kernels each time the card's memory is faulty, else "
           "report it with the output of gabbro devices --json");
  }
  return true;
}

// Names the BLAS libraries that the device uses, and why it does not use the others.
bool check_products(GpuDevice& device, abi::CheckResult& result) {
  const std::vector<std::string> libraries = api::product_libraries(device.context());
  if (libraries.empty()) return false;
  std::string used, unused;
  for (const std::string& library : libraries) {
    const std::string problem = api::library_problem(device.context(), library);
    std::string& list = problem.empty() ? used : unused;
    if (!list.empty()) list += problem.empty() ? ", " : "; ";
    list += problem.empty() ? fmt::format("{} {}", library, api::library_version(device.context(), library))
                            : fmt::format("not {}: {}", library, problem);
  }
  const bool trusted = api::trusts_product_libraries(device.context());
  if (used.empty()) {
    answer(result, trusted ? CheckStatus::kWarning : CheckStatus::kOk,
           "Gabbro's own kernels multiply matrices, " + unused,
           trusted ? "install a library for faster prompts; without one Gabbro's own kernels do it" : "");
    return true;
  }
  const std::string text =
      fmt::format("{} may multiply matrices{}{}", used, trusted ? "" : " of shapes that were measured (gabbro tune)",
                  unused.empty() ? "" : "; " + unused);
  answer(result, CheckStatus::kOk, text);
  return true;
}

// The routes from every other device of the backend, and the way through the host, which has to work anyhow.
bool check_peer_copies(GpuDevice& device, abi::CheckResult& result) {
  constexpr size_t kBytes = 16 * kMiB + 1;
  const int32_t devices = api::device_count();
  if (devices < 2) {
    answer(result, CheckStatus::kSkipped, "there is one device");
    return true;
  }
  std::string direct, staged, reason;
  bool damaged = false;
  for (int32_t other = 0; other < devices; ++other) {
    if (other == device.index()) continue;
    GpuDevice peer(other);
    const std::string name = fmt::format("{}:{}", api::backend_name(), other);
    const PeerCopies::Route route = device.route_from(peer);
    std::string& list = route.direct ? direct : staged;
    list += (list.empty() ? "" : ", ") + name;
    if (route.direct && route.direct_rate > 0) list += fmt::format(" at {:.1f} GB/s", route.direct_rate / 1e9);
    if (!route.direct && reason.empty()) reason = route.reason;
    damaged = damaged || route.damaged;
    const Memory source(peer, kBytes), target(device, kBytes);
    const std::vector<std::byte> sent = test_pattern(kBytes, static_cast<uint32_t>(other) + 1);
    std::vector<std::byte> arrived(kBytes);
    peer.copy_to_device(nullptr, source.get(), sent.data(), kBytes);
    peer.synchronize_stream(nullptr);  // the copy below is on another queue of the peer
    device.copy_staged_from(peer, nullptr, {target.get(), source.get(), kBytes});
    device.copy_to_host(nullptr, arrived.data(), target.get(), kBytes);
    if (arrived == sent) continue;
    answer(result, CheckStatus::kError, fmt::format("copies from {} are damaged even through the host's memory", name),
           "iommu=pt on the kernel's command line; where it stays so, a card or its slot is faulty");
    return true;
  }
  if (staged.empty()) {
    answer(result, CheckStatus::kOk, fmt::format("copies come directly from {}", direct));
    return true;
  }
  const std::string summary =
      fmt::format("copies from {} go through the host's memory{}: {}", staged,
                  direct.empty() ? "" : fmt::format(", those from {} directly", direct), reason);
  if (damaged) {
    answer(result, CheckStatus::kError, summary,
           "iommu=pt on the kernel's command line, then restart; until then other programs need NCCL_P2P_DISABLE=1");
  } else if (reason == PeerCopies::kSwitchedOff) {
    answer(result, CheckStatus::kOk, summary);
  } else {
    answer(result, CheckStatus::kWarning, summary,
           "put the cards behind one root port and switch ACS off in the firmware; GABBRO_PEER_COPIES=0 accepts it");
  }
  return true;
}

bool check_graph_replays(GpuDevice& device, abi::CheckResult& result) {
  GraphPolicy& policy = device.graph_policy();
  policy.allowed();
  if (policy.evidence() != GraphPolicy::kTested) policy.check_again();
  const std::string reason = policy.reason();
  if (reason.empty()) {
    answer(result, CheckStatus::kOk, "graphs of launches compute what single launches do");
  } else if (reason == GraphPolicy::kSwitchedOff) {
    answer(result, CheckStatus::kOk, fmt::format("launches are not replayed as graphs: {}", reason));
  } else {
    answer(result, CheckStatus::kWarning, fmt::format("launches are not replayed as graphs: {}", reason),
           "update the driver and its runtime; GABBRO_GRAPHS=0 accepts it, which costs a few percent of speed");
  }
  return true;
}

struct Check {
  std::string_view id;
  bool (*run)(GpuDevice& device, abi::CheckResult& result);
};

constexpr Check kChecks[] = {
    {"code-objects", check_code_objects}, {"kernels", check_kernels},     {"peer-copies", check_peer_copies},
    {"graphs", check_graph_replays},      {"allocator", check_allocator}, {"host-copies", check_host_copies},
    {"bandwidth", check_bandwidth},       {"products", check_products},
};

}  // namespace

void judge_bandwidth(double reached, double possible, abi::CheckResult& result) {
  constexpr double kLowShare = 0.5, kHighShare = 1.1;
  const double share = reached / possible;
  if (share > kHighShare) {
    // More than the memory can do: the figure is another card's.
    answer(result, CheckStatus::kOk,
           fmt::format("a copy moves {:.0f} GB/s; the figure for this card, {:.0f} GB/s, is too low", reached / 1e9,
                       possible / 1e9));
    return;
  }
  const std::string summary =
      fmt::format("a copy moves {:.0f} GB/s, {:.0f} % of what the memory can do", reached / 1e9, 100 * share);
  if (share < kLowShare) {
    answer(result, CheckStatus::kWarning, summary, "stop what else uses the card; look at its power limit and clocks");
  } else {
    answer(result, CheckStatus::kOk, summary);
  }
}

bool run_check(int32_t index, std::string_view id, abi::CheckResult& result) {
  const auto check = std::ranges::find(kChecks, id, &Check::id);
  if (check == std::end(kChecks)) return false;
  GpuDevice device(index);
  return check->run(device, result);
}

}  // namespace gabbro::gpu
