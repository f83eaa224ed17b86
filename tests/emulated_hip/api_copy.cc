// Copies and fills. A copy of up to 1 MiB from pageable memory is staged: its source is read by the call. A larger one
// waits until it is done, as the runtime pins the caller's pages. Pinned sources are read when the copy runs.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tests/emulated_hip/graphs.h"
#include "tests/emulated_hip/runtime.h"

using emulated_hip::Allocation;
using emulated_hip::call;
using emulated_hip::Failure;
using emulated_hip::Lock;
using emulated_hip::MappedCopy;
using emulated_hip::MemoryKind;
using emulated_hip::Runtime;
using emulated_hip::Stream;
using emulated_hip::TaskRef;

namespace {

constexpr size_t kStageBytes = size_t{1} << 20;

// Whether the kernel maps a file at this address.
bool is_of_file(const void* address) {
  std::ifstream maps("/proc/self/maps");
  const auto at = reinterpret_cast<uintptr_t>(address);
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0, inode = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx %*s %*s %*s %lu", &begin, &end, &inode) != 3) continue;
    if (begin <= at && at < end) return inode != 0 && line.find('/') != std::string::npos;
  }
  return false;
}

void require_device_memory(Runtime& runtime, const void* memory, size_t bytes) {
  if (runtime.memory.find_around(memory, bytes) == nullptr)
    throw Failure{hipErrorInvalidValue, fmt::format("{} bytes at {} are not in one allocation", bytes, memory)};
}

// A pageable source above the stage, of a file: what is refused or takes long on some systems.
void meet_mapped_source(Runtime& runtime, Lock& lock, size_t bytes) {
  runtime.statistics.mapped_to_device.add(bytes);
  if (runtime.settings.mapped_copy == MappedCopy::kRefuse)
    throw Failure{hipErrorInvalidValue, fmt::format("a copy of {} bytes from a mapped file", bytes)};
  if (runtime.settings.mapped_copy == MappedCopy::kDelay) {
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::seconds(1));
    lock.lock();
  }
}

// Enqueues a copy, or adds it to a capture. The Nth of EMULATED_GPU_FAIL=copy:N never ends.
TaskRef enqueue_copy(Runtime& runtime, Lock& lock, Stream& stream, std::function<void()> run) {
  if (emulated_hip::capture_work(runtime, stream, run, 0)) return nullptr;
  const bool is_lost = runtime.is_failing("copy");
  if (!is_lost) return runtime.engine.enqueue(lock, stream, std::move(run));
  auto lost = std::make_shared<emulated_hip::Task>();
  lost->stuck = true;
  return runtime.engine.enqueue(lock, stream, std::move(run), {lost});
}

void copy_to_device(Runtime& runtime, Lock& lock, void* target, const void* host, size_t bytes, Stream& stream) {
  if (bytes == 0) return;
  require_device_memory(runtime, target, bytes);
  if (runtime.settings.has_fault("graph:stale") && stream.capture == nullptr) {
    runtime.engine.enqueue(lock, stream, [&runtime, &stream, target, bytes] {
      const std::lock_guard held(runtime.mutex);
      const char* begin = static_cast<const char*>(target);
      emulated_hip::last_copy(stream) = {target, std::vector<char>(begin, begin + bytes)};
    });
  }
  if (runtime.is_pinned(host, bytes)) {
    runtime.statistics.pinned_to_device.add(bytes);
    enqueue_copy(runtime, lock, stream, [=] { std::memcpy(target, host, bytes); });
    return;
  }
  if (bytes <= kStageBytes) {
    runtime.statistics.pageable_to_device.add(bytes);
    const char* begin = static_cast<const char*>(host);
    enqueue_copy(runtime, lock, stream, [target, staged = std::vector<char>(begin, begin + bytes)] {
      std::memcpy(target, staged.data(), staged.size());
    });
    return;
  }
  if (is_of_file(host)) {
    meet_mapped_source(runtime, lock, bytes);
  } else {
    runtime.statistics.pageable_to_device.add(bytes);
  }
  const TaskRef task = enqueue_copy(runtime, lock, stream, [=] { std::memcpy(target, host, bytes); });
  if (task == nullptr) return;
  runtime.engine.wait(lock, task);
  emulated_hip::end_wait(runtime);
}

void copy_to_host(Runtime& runtime, Lock& lock, void* host, const void* source, size_t bytes, Stream& stream) {
  if (bytes == 0) return;
  require_device_memory(runtime, source, bytes);
  const bool is_pinned = runtime.is_pinned(host, bytes);
  (is_pinned ? runtime.statistics.pinned_to_host : runtime.statistics.pageable_to_host).add(bytes);
  const TaskRef task = enqueue_copy(runtime, lock, stream, [=] { std::memcpy(host, source, bytes); });
  if (task == nullptr || is_pinned) return;
  runtime.engine.wait(lock, task);
  emulated_hip::end_wait(runtime);
}

void copy_on_device(Runtime& runtime, Lock& lock, void* target, const void* source, size_t bytes, Stream& stream) {
  if (bytes == 0) return;
  require_device_memory(runtime, target, bytes);
  require_device_memory(runtime, source, bytes);
  enqueue_copy(runtime, lock, stream, [=] { std::memmove(target, source, bytes); });
}

void copy(Runtime& runtime, Lock& lock, void* target, const void* source, size_t bytes, hipMemcpyKind kind,
          Stream& stream) {
  const auto is_of_device = [&](const void* memory) {
    const Allocation* found = runtime.memory.find_around(memory, 1);
    return found != nullptr && found->kind != MemoryKind::kPinned;
  };
  const bool to_device = kind == hipMemcpyDefault ? is_of_device(target)
                                                  : kind == hipMemcpyHostToDevice || kind == hipMemcpyDeviceToDevice;
  const bool from_device = kind == hipMemcpyDefault ? is_of_device(source)
                                                    : kind == hipMemcpyDeviceToHost || kind == hipMemcpyDeviceToDevice;
  if (to_device && from_device) return copy_on_device(runtime, lock, target, source, bytes, stream);
  if (to_device) return copy_to_device(runtime, lock, target, source, bytes, stream);
  if (from_device) return copy_to_host(runtime, lock, target, source, bytes, stream);
  enqueue_copy(runtime, lock, stream, [=] { std::memmove(target, source, bytes); });
}

void wait_for(Runtime& runtime, Lock& lock, Stream& stream) {
  if (stream.tail != nullptr) runtime.engine.wait(lock, stream.tail);
  emulated_hip::end_wait(runtime);
}

}  // namespace

hipError_t hipMemcpyHtoDAsync(hipDeviceptr_t target, const void* source, size_t bytes, hipStream_t stream) {
  return call("hipMemcpyHtoDAsync", [&](Runtime& runtime, Lock& lock) {
    copy_to_device(runtime, lock, target, source, bytes, runtime.stream(stream));
  });
}

hipError_t hipMemcpyDtoHAsync(void* target, hipDeviceptr_t source, size_t bytes, hipStream_t stream) {
  return call("hipMemcpyDtoHAsync", [&](Runtime& runtime, Lock& lock) {
    copy_to_host(runtime, lock, target, source, bytes, runtime.stream(stream));
  });
}

hipError_t hipMemcpyDtoDAsync(hipDeviceptr_t target, hipDeviceptr_t source, size_t bytes, hipStream_t stream) {
  return call("hipMemcpyDtoDAsync", [&](Runtime& runtime, Lock& lock) {
    copy_on_device(runtime, lock, target, source, bytes, runtime.stream(stream));
  });
}

hipError_t hipMemcpyAsync(void* target, const void* source, size_t bytes, hipMemcpyKind kind, hipStream_t stream) {
  return call("hipMemcpyAsync", [&](Runtime& runtime, Lock& lock) {
    copy(runtime, lock, target, source, bytes, kind, runtime.stream(stream));
  });
}

hipError_t hipMemcpy(void* target, const void* source, size_t bytes, hipMemcpyKind kind) {
  return call("hipMemcpy", [&](Runtime& runtime, Lock& lock) {
    emulated_hip::refuse_in_capture(runtime);
    Stream& stream = runtime.stream(nullptr);
    copy(runtime, lock, target, source, bytes, kind, stream);
    wait_for(runtime, lock, stream);
  });
}

hipError_t hipMemcpyPeerAsync(void* target, int target_device, const void* source, int source_device, size_t bytes,
                              hipStream_t stream) {
  return call("hipMemcpyPeerAsync", [&](Runtime& runtime, Lock& lock) {
    static_cast<void>(runtime.device(target_device));
    static_cast<void>(runtime.device(source_device));
    if (bytes == 0) return;
    require_device_memory(runtime, target, bytes);
    require_device_memory(runtime, source, bytes);
    const bool damages = runtime.settings.has_fault("peer:damage") && target_device != source_device;
    enqueue_copy(runtime, lock, runtime.stream(stream), [=] {
      std::memmove(target, source, bytes);
      if (damages) static_cast<unsigned char*>(target)[bytes / 2] ^= 16;
    });
  });
}

hipError_t hipMemsetAsync(void* target, int value, size_t bytes, hipStream_t stream) {
  return call("hipMemsetAsync", [&](Runtime& runtime, Lock& lock) {
    if (bytes == 0) return;
    require_device_memory(runtime, target, bytes);
    enqueue_copy(runtime, lock, runtime.stream(stream), [=] { std::memset(target, value, bytes); });
  });
}

// Does not wait for device memory.
hipError_t hipMemset(void* target, int value, size_t bytes) { return hipMemsetAsync(target, value, bytes, nullptr); }
