// The entry point of libgabbro_cpu.so: the contract's table of functions. No exception leaves this file.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "backends/common/plugin_entry.h"
#include "backends/cpu/device.h"
#include "src/base/set_text.h"

namespace gabbro::cpu {
namespace {

using abi::guarded;
using abi::make_status;
using abi::Status;
using abi::StatusCode;

CpuDevice& cpu(abi::Device* device) { return abi::device_cast<CpuDevice>(device); }

Status no_such_device(int32_t index) {
  return make_status(StatusCode::kFailed, "cpu:" + std::to_string(index) + ": there is one CPU device, cpu:0");
}

int32_t device_count() { return 1; }

Status device_facts(int32_t index, abi::DeviceFacts* facts) {
  return guarded([&] {
    if (index != 0) return no_such_device(index);
    const Host host;
    std::string reason;
    const IsaTable* isa = choose_isa(std::getenv("GABBRO_CPU"), reason);
    const AvailableMemory memory = host.memory();
    *facts = {};
    set_text(facts->name, host.processor_name());
    set_text(facts->id, "cpu");
    set_text(facts->architecture, isa == nullptr ? "" : isa->name);
    set_text(facts->reason, reason);
    facts->memory_total = memory.total;
    facts->memory_free = memory.free;
    facts->compute_units = host.cores(allowed_processors());
    facts->wave_size = 1;
    facts->usable = isa != nullptr;
    facts->integrated = true;
    facts->host_accessible = true;
    return Status{};
  });
}

Status open(int32_t index, const abi::DeviceOptions* options, abi::Device** device) {
  return guarded([&] {
    constexpr int32_t kMaxThreads = 1024;
    if (index != 0) return no_such_device(index);
    std::string reason;
    const IsaTable* isa = choose_isa(std::getenv("GABBRO_CPU"), reason);
    if (isa == nullptr) return make_status(StatusCode::kFailed, reason);
    const int32_t wanted = options == nullptr ? 0 : options->threads;
    if (wanted < 0 || wanted > kMaxThreads) {
      return make_status(StatusCode::kFailed, "cpu: " + std::to_string(wanted) + " threads: not in 0..1024");
    }
    const Host host;
    const std::vector<int> processors = allowed_processors();
    const int cores = host.cores(processors);
    const int threads = wanted == 0 ? cores : wanted;
    // Two threads of one core may well spin; more than there are processors, or than the quota pays for, may not.
    const int at_once = threads <= cores ? cores : std::min<int>(static_cast<int>(processors.size()), 2 * cores);
    *device = reinterpret_cast<abi::Device*>(new CpuDevice(*isa, threads, at_once, host.memory().total));
    return Status{};
  });
}

Status allocate(abi::Device* device, abi::Stream*, size_t bytes, void** pointer) {
  *pointer = cpu(device).allocate(bytes);
  if (*pointer != nullptr) return {};
  return make_status(StatusCode::kOutOfMemory, "cpu: no memory for " + std::to_string(bytes) + " bytes");
}

void free(abi::Device* device, abi::Stream*, void* pointer) { cpu(device).free(pointer); }

void free_unpooled(abi::Device* device, abi::Stream*, void* pointer) { cpu(device).free_unpooled(pointer); }

Status trim(abi::Device* device, abi::MemoryKind kind, size_t* bytes) {
  *bytes = kind == abi::MemoryKind::kDevice ? cpu(device).trim() : 0;
  return {};
}

// The host's memory is the device's: there is none to pin.
Status memory_facts(abi::Device* device, abi::MemoryKind kind, abi::PoolFacts* facts) {
  *facts = kind == abi::MemoryKind::kDevice ? cpu(device).memory_facts() : abi::PoolFacts{};
  return {};
}

Status reset_memory_facts(abi::Device* device, abi::MemoryKind kind) {
  if (kind == abi::MemoryKind::kDevice) cpu(device).reset_memory_facts();
  return {};
}

Status copy(abi::Device*, abi::Stream*, void* target, const void* source, size_t bytes) {
  if (bytes > 0) std::memcpy(target, source, bytes);
  return {};
}

Status synchronize(abi::Device*, abi::Stream*) { return {}; }

void release_kernel(abi::Device*, const void* handle) { delete static_cast<const Kernel*>(handle); }

constexpr abi::Backend kBackend = {
    .abi_version = abi::kVersion,
    .name = "cpu",
    .score = 0,
    .device_count = device_count,
    .device_facts = device_facts,
    .open = open,
    .close = abi::close_device<CpuDevice>,
    .create_stream = abi::create_null_stream,
    .destroy_stream = abi::destroy_null_stream,
    .synchronize = synchronize,
    .create_event = abi::create_null_event,
    .destroy_event = abi::destroy_null_event,
    .record = abi::order_null_event,
    .wait = abi::order_null_event,
    .synchronize_event = abi::synchronize_null_event,
    .allocate = allocate,
    .free = free,
    .free_unpooled = free_unpooled,
    .copy_to_device = copy,
    .copy_to_host = copy,
    .memory_facts = memory_facts,
    .reset_memory_facts = reset_memory_facts,
    .trim = trim,
    .packed_bytes = abi::packed_bytes_on<CpuDevice>,
    .pack = abi::pack_on<CpuDevice>,
    .find_kernel = abi::find_kernel_on<CpuDevice>,
    .release_kernel = release_kernel,
    .execute = abi::execute_on<CpuDevice>,
};

}  // namespace
}  // namespace gabbro::cpu

extern "C" __attribute__((visibility("default"))) const gabbro::abi::Backend* gabbro_backend() {
  return &gabbro::cpu::kBackend;
}
