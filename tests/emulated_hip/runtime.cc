#include "tests/emulated_hip/runtime.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

#include "backends/gpu/sim/block.h"

namespace emulated_hip {
namespace {

// Buffers of the runtime itself: signals, staging buffers, scratch and argument memory.
constexpr size_t kOwnBytes = size_t{256} << 20;

thread_local int selected_device = 0;
thread_local hipError_t last_error = hipSuccess;

}  // namespace

Runtime& Runtime::get() {
  static Runtime& runtime = *new Runtime;
  return runtime;
}

Runtime::Runtime()
    : settings(Settings::of_process()), engine(settings.seed), memory(settings.poisons), pid(::getpid()) {
  for (const std::string& name : settings.gpus) {
    const Card* card = find_card(name);
    const size_t total = settings.memory.value_or(card->memory_mib << 20);
    const int index = static_cast<int>(devices.size());
    const size_t reported = card->integrated ? settings.carve_out.value_or(total) : total;
    devices.push_back({.card = card,
                       .total = total,
                       .reported = reported,
                       .properties = properties_of(*card, index, reported),
                       .peers = {}});
  }
  gabbro::gpu::sim::poisons_shared = settings.poisons;
  if (!settings.statistics.empty()) std::atexit([] { get().write_statistics(); });
}

// One write, so that the lines of several processes do not mix.
void Runtime::write_statistics() const {
  if (pid != ::getpid()) return;
  size_t charged = 0, most = 0;
  for (const Device& device : devices) {
    charged += device.charged;
    most += device.most_charged;
  }
  const std::string line = statistics.json(charged, most, settings.rules.name) + "\n";
  std::FILE* file = std::fopen(settings.statistics.c_str(), "a");
  if (file == nullptr) {
    fmt::print(stderr, "emulated HIP: EMULATED_GPU_STATISTICS: cannot write {}\n", settings.statistics);
    return;
  }
  std::fwrite(line.data(), 1, line.size(), file);
  std::fclose(file);
}

int Runtime::current_device() const {
  if (devices.empty()) throw Failure{hipErrorNoDevice, "EMULATED_GPUS names no device"};
  return selected_device;
}

void Runtime::set_current_device(int index) {
  static_cast<void>(device(index));
  selected_device = index;
}

Device& Runtime::device(int index) {
  if (devices.empty()) throw Failure{hipErrorNoDevice, "EMULATED_GPUS names no device"};
  if (index < 0 || index >= static_cast<int>(devices.size()))
    throw Failure{hipErrorInvalidDevice, fmt::format("there is no device {}", index)};
  return devices[static_cast<size_t>(index)];
}

Stream& Runtime::stream(hipStream_t handle) {
  if (handle == nullptr || handle == hipStreamPerThread) return *engine.null_stream(current_device());
  auto* stream = reinterpret_cast<Stream*>(handle);
  if (!engine.has_stream(stream)) throw Failure{hipErrorContextIsDestroyed, "the stream does not exist"};
  return *stream;
}

bool Runtime::has_room(const Device& on, size_t bytes) const {
  const size_t taken = on.charged + kOwnBytes + settings.used;
  return taken <= on.total && bytes <= on.total - taken;
}

void Runtime::charge(Device& on, size_t bytes) {
  on.charged += bytes;
  on.most_charged = std::max(on.most_charged, on.charged);
}

bool Runtime::is_failing(const std::string& what) {
  const uint64_t number = settings.fail(what);
  return number != 0 && ++counts[what] == number;
}

void Runtime::fault(hipError_t error, const std::string& text, const void* address) {
  if (settings.rules.aborts_on_fault) {
    fmt::print(stderr, "{}\n", text);
    fmt::print(stderr,
               "Memory access fault by GPU node-1 (Agent handle: 0x{:x}) on address {}. Reason: Page not present or "
               "supervisor privilege.\n",
               0x5581e0, address);
    std::fflush(stderr);
    if (!settings.statistics.empty()) write_statistics();
    std::abort();
  }
  fmt::print(stderr, "{}\n", text);
  engine.fail(error);
}

bool Runtime::is_pinned(const void* host, size_t bytes) {
  if (memory.find_around(host, bytes) != nullptr) return true;
  const auto at = reinterpret_cast<uintptr_t>(host);
  const auto after = registered.upper_bound(at);
  if (after == registered.begin()) return false;
  const auto& [begin, size] = *std::prev(after);
  return at + bytes <= begin + size;
}

hipError_t finish_call(const char* name, hipError_t error, const std::string& why) {
  Runtime& runtime = Runtime::get();
  last_error = error;
  ++runtime.statistics.failed_calls;
  ++runtime.statistics.failures[name];
  if (runtime.settings.logs)
    fmt::print(stderr, "emulated HIP: {} returns {}: {}\n", name, static_cast<int>(error), why);
  return error;
}

hipError_t refused_call(const char* name) {
  const Runtime& runtime = Runtime::get();
  if (runtime.pid == ::getpid()) return hipSuccess;
  // Without the lock, which the parent may have held: a real runtime hangs here.
  fmt::print(stderr, "emulated HIP: {} in a process that was forked after the runtime was first used\n", name);
  return hipErrorNotInitialized;
}

}  // namespace emulated_hip

hipError_t hipGetLastError() {
  const hipError_t error = emulated_hip::last_error;
  emulated_hip::last_error = hipSuccess;
  return error;
}
hipError_t hipPeekAtLastError() { return emulated_hip::last_error; }
