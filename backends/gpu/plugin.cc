// The entry point of libgabbro_sim.so, libgabbro_cuda.so and libgabbro_rocm.so: the contract's table of functions. No
// exception leaves this file.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/common/plugin_entry.h"
#include "backends/gpu/collective/device_group.h"
#include "backends/gpu/device.h"
#include "backends/gpu/doctor/checks.h"
#include "backends/gpu/facts.h"
#include "backends/gpu/launch_names.h"
#include "backends/gpu/wait.h"

namespace gabbro::gpu {
namespace {

using abi::guarded;
using abi::make_status;
using abi::Status;
using abi::StatusCode;

GpuDevice& gpu(abi::Device* device) { return abi::device_cast<GpuDevice>(device); }

int32_t device_count() {
  try {
    return api::device_count();
  } catch (...) {
    return 0;
  }
}

Status device_facts(int32_t index, abi::DeviceFacts* facts) {
  return guarded([&] {
    *facts = {};
    std::snprintf(facts->id, sizeof(facts->id), "%s:%d", api::backend_name(), index);
    api::device_facts(index, *facts);
    return Status{};
  });
}

Status open(int32_t index, const abi::DeviceOptions* options, abi::Device** device) {
  return guarded([&] {
    *device =
        reinterpret_cast<abi::Device*>(new GpuDevice(index, options == nullptr ? abi::DeviceOptions{} : *options));
    return Status{};
  });
}

Status allocate(abi::Device* device, abi::Stream* stream, size_t bytes, void** pointer) {
  return guarded([&] {
    *pointer = gpu(device).allocate(stream, bytes);
    if (*pointer != nullptr) return Status{};
    return make_status(StatusCode::kOutOfMemory, "no device memory for " + std::to_string(bytes) + " bytes");
  });
}

void free(abi::Device* device, abi::Stream* stream, void* pointer) { gpu(device).free(stream, pointer); }

void free_unpooled(abi::Device* device, abi::Stream* stream, void* pointer) {
  gpu(device).pool(abi::MemoryKind::kDevice).release_unpooled(pointer, &gpu(device).stream(stream));
}

Status reserve_range(abi::Device* device, size_t bytes, void** range) {
  return guarded([&] {
    *range = gpu(device).reserve_range(bytes);
    if (*range != nullptr) return Status{};
    return make_status(StatusCode::kUnsupported, gpu(device).ranges_problem());
  });
}

Status extend_range(abi::Device* device, void* range, size_t bytes) {
  return guarded([&] {
    if (gpu(device).extend_range(range, bytes)) return Status{};
    return make_status(StatusCode::kOutOfMemory, "no device memory for " + std::to_string(bytes) + " bytes");
  });
}

void release_range(abi::Device* device, void* range) { gpu(device).release_range(range); }

// A call of the contract whose body only does something.
template <class Body>
Status done(const Body& body) {
  return guarded([&] {
    body();
    return Status{};
  });
}

Status create_stream(abi::Device* device, abi::Stream** stream) {
  return done([&] { *stream = reinterpret_cast<abi::Stream*>(gpu(device).create_stream()); });
}

void destroy_stream(abi::Device* device, abi::Stream* stream) {
  if (stream != nullptr) gpu(device).destroy_stream(&gpu(device).stream(stream));
}

Status synchronize(abi::Device* device, abi::Stream* stream) {
  return done([&] { gpu(device).synchronize_stream(stream); });
}

api::Event* event_of(abi::Event* event) { return reinterpret_cast<api::Event*>(event); }

Status create_event(abi::Device* device, abi::Event** event) {
  return done([&] { *event = reinterpret_cast<abi::Event*>(gpu(device).create_event()); });
}

void destroy_event(abi::Device*, abi::Event* event) {
  if (event != nullptr) api::destroy_event(event_of(event));
}

Status record(abi::Device* device, abi::Stream* stream, abi::Event* event) {
  return done([&] { gpu(device).record(stream, event_of(event)); });
}

Status wait(abi::Device* device, abi::Stream* stream, abi::Event* event) {
  return done([&] { gpu(device).wait(stream, event_of(event)); });
}

Status synchronize_event(abi::Device* device, abi::Event* event) {
  return done([&] { gpu(device).synchronize_event(event_of(event)); });
}

Status copy_to_device(abi::Device* device, abi::Stream* stream, void* target, const void* host, size_t bytes) {
  return done([&] { gpu(device).copy_to_device(stream, target, host, bytes); });
}

Status copy_to_host(abi::Device* device, abi::Stream* stream, void* host, const void* source, size_t bytes) {
  return done([&] { gpu(device).copy_to_host(stream, host, source, bytes); });
}

Status allocate_host(abi::Device* device, size_t bytes, void** pointer) {
  return guarded([&] {
    *pointer = gpu(device).allocate_pinned(bytes).release();
    return Status{};
  });
}

void free_host(abi::Device* device, void* pointer) { gpu(device).release_pinned(pointer); }

bool is_pinned(abi::Device* device, const void* host) { return gpu(device).is_pinned(host); }

Status memory_facts(abi::Device* device, abi::MemoryKind kind, abi::PoolFacts* facts) {
  return guarded([&] {
    *facts = gpu(device).pool(kind).facts();
    return Status{};
  });
}

Status reset_memory_facts(abi::Device* device, abi::MemoryKind kind) {
  return guarded([&] {
    gpu(device).pool(kind).reset_facts();
    return Status{};
  });
}

Status reserve(abi::Device* device, abi::MemoryKind kind, size_t bytes) {
  return guarded([&] {
    if (gpu(device).pool(kind).reserve(bytes)) return Status{};
    return make_status(StatusCode::kOutOfMemory, "cannot reserve the memory at once");
  });
}

Status trim(abi::Device* device, abi::MemoryKind kind, size_t* bytes) {
  return guarded([&] {
    *bytes = gpu(device).pool(kind).trim();
    return Status{};
  });
}

void release_kernel(abi::Device* device, const void* handle) {
  gpu(device).forget_graphs_of(handle);  // another kernel may be allocated at the same address
  delete static_cast<const Kernel*>(handle);
}

Status run_check(int32_t index, const char* id, abi::CheckResult* result) {
  return guarded([&] {
    *result = {};
    if (gpu::run_check(index, id, *result)) return Status{};
    return make_status(StatusCode::kUnsupported, "no such check");
  });
}

Status tuning_facts(abi::Device* device, abi::TuningFacts* facts) {
  return guarded([&] {
    gpu(device).tuning().facts(*facts);
    return Status{};
  });
}

Status measured_shape(abi::Device* device, int32_t number, abi::MeasuredShape* shape) {
  return guarded([&] {
    if (number >= 0 && gpu(device).tuning().measured(static_cast<size_t>(number), *shape)) return Status{};
    return make_status(StatusCode::kUnsupported, "no such measurement");
  });
}

Status set_tuning(abi::Device* device, const abi::TuningOptions* options) {
  return guarded([&] {
    gpu(device).tuning().set(*options);
    return Status{};
  });
}

Status forget_tuning(abi::Device* device) {
  return guarded([&] {
    gpu(device).tuning().forget();
    return Status{};
  });
}

Status copy_between(abi::Device* to, abi::Stream* stream, void* target, abi::Device* from, const void* source,
                    size_t bytes) {
  return guarded([&] {
    gpu(to).copy_from(gpu(from), stream, {.target = target, .source = source, .bytes = bytes});
    return Status{};
  });
}

Status peer_route(abi::Device* to, abi::Device* from, abi::PeerRoute* route) {
  return guarded([&] {
    const PeerCopies::Route found = gpu(to).route_from(gpu(from));
    *route = {.direct = found.direct, .reason = {}};
    set_text(route->reason, found.reason);
    return Status{};
  });
}

Status await_stream(abi::Device* device, abi::Stream* stream, const std::atomic<bool>* cancel) {
  return done([&] { gpu(device).synchronize_stream(stream, cancel); });
}

Status await_event(abi::Device* device, abi::Event* event, const std::atomic<bool>* cancel) {
  return done([&] { gpu(device).synchronize_event(event_of(event), cancel); });
}

Status create_group(abi::Device* const* devices, int32_t count, abi::Group** group) {
  return guarded([&] {
    auto made = std::make_unique<DeviceGroup>();
    std::vector<api::Context*> contexts;
    for (int32_t i = 0; i < count; ++i) {
      made->devices.push_back(&gpu(devices[i]));
      if (std::ranges::count(made->devices, made->devices.back()) > 1)
        return make_status(StatusCode::kFailed, "a device is twice in a group");
      contexts.push_back(made->devices.back()->context());
    }
    if (contexts.empty()) return make_status(StatusCode::kFailed, "a group without devices");
    if (api::collectives() != nullptr) made->group = api::collectives()->make_group(contexts);
    made->direct = DirectSums::make(made->devices, made->no_direct_sums);
    if (made->group == nullptr && made->direct == nullptr)
      return make_status(StatusCode::kUnsupported, made->no_direct_sums);
    *group = reinterpret_cast<abi::Group*>(made.release());
    return Status{};
  });
}

void destroy_group(abi::Group* group) {
  if (group != nullptr) delete &group_of(group);
}

Status rank_sums(abi::Group* group, int64_t* id) {
  const DeviceGroup& own = group_of(group);
  if (own.direct == nullptr) return make_status(StatusCode::kUnsupported, own.no_direct_sums);
  *id = own.direct->id();
  return {};
}

void stop_rank_sums(abi::Group* group) { group_of(group).direct->stop(); }

Status begin_rank_sums(abi::Group* group) {
  return done([&] { group_of(group).direct->begin(); });
}

int32_t late_rank(abi::Group* group) {
  const std::optional<size_t> rank = group_of(group).direct->late_rank();
  return rank ? static_cast<int32_t>(*rank) : -1;
}

Status all_reduce(abi::Group* group, abi::Stream* const* streams, const void* const* sources, void* const* targets,
                  DType dtype, int64_t elements, abi::Reduction reduction) {
  return guarded([&] {
    if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16)
      return make_status(StatusCode::kUnsupported, "all_reduce of " + std::string(dtype_name(dtype)));
    DeviceGroup& own = group_of(group);
    if (own.group == nullptr && reduction != abi::Reduction::kSum)
      return make_status(StatusCode::kUnsupported, "all_reduce other than sums");
    own.run(streams, [&](const std::vector<api::Queue*>& queues) {
      if (own.group == nullptr) {
        for (size_t rank = 0; rank < queues.size(); ++rank)
          own.direct->enqueue(
              rank, {.queue = queues[rank], .counters = nullptr},
              {.x = sources[rank], .addend = nullptr, .y = targets[rank], .dtype = dtype, .count = elements});
        return;
      }
      api::collectives()->all_reduce(own.group, queues, {.sources = sources, .targets = targets},
                                     {.dtype = dtype, .elements = elements, .reduction = reduction});
    });
    return Status{};
  });
}

Status all_gather(abi::Group* group, abi::Stream* const* streams, const void* const* sources, void* const* targets,
                  size_t bytes) {
  return done([&] {
    DeviceGroup& own = group_of(group);
    own.run(streams, [&](const std::vector<api::Queue*>& queues) {
      api::collectives()->all_gather(own.group, queues, {.sources = sources, .targets = targets}, bytes);
    });
  });
}

const abi::Backend& backend() {
  static const abi::Backend table = {
      .abi_version = abi::kVersion,
      .name = api::backend_name(),
      .score = api::score(),
      .device_count = device_count,
      .device_facts = device_facts,
      .open = open,
      .close = abi::close_device<GpuDevice>,
      .create_stream = create_stream,
      .destroy_stream = destroy_stream,
      .synchronize = synchronize,
      .create_event = create_event,
      .destroy_event = destroy_event,
      .record = record,
      .wait = wait,
      .synchronize_event = synchronize_event,
      .allocate = allocate,
      .free = free,
      .free_unpooled = free_unpooled,
      .copy_to_device = copy_to_device,
      .copy_to_host = copy_to_host,
      .allocate_host = allocate_host,
      .free_host = free_host,
      .is_pinned = is_pinned,
      .memory_facts = memory_facts,
      .reset_memory_facts = reset_memory_facts,
      .reserve = reserve,
      .trim = trim,
      .reserve_range = reserve_range,
      .extend_range = extend_range,
      .release_range = release_range,
      .packed_bytes = abi::packed_bytes_on<GpuDevice>,
      .pack = abi::pack_on<GpuDevice>,
      .find_kernel = abi::find_kernel_on<GpuDevice>,
      .release_kernel = release_kernel,
      .execute = abi::execute_on<GpuDevice>,
      .run_check = run_check,
      .tuning_facts = tuning_facts,
      .measured_shape = measured_shape,
      .set_tuning = set_tuning,
      .forget_tuning = forget_tuning,
      .copy_between = copy_between,
      .peer_route = peer_route,
      .create_group = create_group,
      .destroy_group = destroy_group,
      .all_reduce = all_reduce,
      .all_gather = api::collectives() != nullptr ? all_gather : nullptr,
      .rank_sums = rank_sums,
      .stop_rank_sums = stop_rank_sums,
      .begin_rank_sums = begin_rank_sums,
      .late_rank = late_rank,
      .await_stream = await_stream,
      .await_event = await_event,
      .last_launches = last_launches,
      .set_reporter = set_reporter,
  };
  return table;
}

}  // namespace
}  // namespace gabbro::gpu

extern "C" __attribute__((visibility("default"))) const gabbro::abi::Backend* gabbro_backend() {
  return &gabbro::gpu::backend();
}
