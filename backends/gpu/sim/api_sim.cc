// The simulator behind the host side. GABBRO_SIM_DEVICES says how many devices there are (2): those with even numbers
// have waves of 32 lanes, the others of 64, unless GABBRO_SIM_WAVE says one for all. Faults are injected by
// GABBRO_SIM_FAIL: malloc:N (the Nth allocation fails), launch:N (the Nth launch fails, and from then on the device),
// lost:N (after the Nth launch the device is gone), abort:N (the Nth launch ends the process, as a fault in a kernel
// does on ROCm 6), hang:N (after the Nth launch waits last for GABBRO_SIM_HANG seconds), read:N (the Nth copy to the
// host flips a bit), unreachable:1 (no device reaches another's memory), peer:N, peer-error:N and peer-slow:N (from the
// Nth copy between devices on, each flips a bit, fails, or takes 0.3 s), access:N and unmap:N (the Nth piece of a range
// is not mapped, or not unmapped), ranges:N (ranges have N bytes of memory in all), capture:N (the Nth capture of a
// graph fails), graph:tested (graphs are tested as on a card), graph:stale (the same, and they read memory as it was
// before the last copy), graph:oom (they cannot be launched), graph:spare (they need more memory than is free); several
// are joined with commas. With GABBRO_SIM_FAIL_ONCE=FILE the faults of launches happen only while there is no such
// file, and make it: so the next process has none. GABBRO_SIM_PATIENCE: seconds after which a wait is reported.
// GABBRO_SIM_STREAM_SEED chooses the order in which the work of streams is done (scheduler.h); accesses that no stream
// or event orders are errors (ordering.h).
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "backends/gpu/sim/host_guard.h"
#include "backends/gpu/sim/memory.h"
#include "backends/gpu/sim/objects.h"
#include "backends/gpu/sim/settings.h"

namespace gabbro::gpu::api {
namespace {

using abi::StatusCode;

// Another one on each device, or bytes that two of them damage might be right again.
void flip_bit(const Context& context, void* memory, size_t bytes) {
  static_cast<std::byte*>(memory)[bytes / 2] ^= static_cast<std::byte>(context.wave);
}

}  // namespace

const char* backend_name() { return "sim"; }
int32_t score() { return -1; }
int32_t device_count() { return sim::wanted_devices().value_or(1); }

void device_facts(int32_t index, abi::DeviceFacts& facts) {
  if (!sim::wanted_devices()) {
    throw ApiError(StatusCode::kFailed, fmt::format("GABBRO_SIM_DEVICES: '{:.16}' is not a number from 1 to {}",
                                                    std::getenv("GABBRO_SIM_DEVICES"), sim::kMostDevices));
  }
  std::snprintf(facts.name, sizeof facts.name, "simulated GPU, waves of %u lanes", sim::wave_of(index));
  std::snprintf(facts.architecture, sizeof facts.architecture, "sim%u", sim::wave_of(index));
  facts.memory_total = sim::kMemory;
  facts.memory_free = sim::kMemory - std::min(sim::kMemory, sim::allocated_bytes());
  facts.compute_units = 1;
  facts.wave_size = static_cast<int32_t>(sim::wave_of(index));
  facts.usable = true;
}

Context* open(int32_t index) {
  return new Context{.wave = sim::wave_of(index),
                     .failing_allocation = sim::fault("malloc"),
                     .failing_launch = sim::fault("launch"),
                     .lost_after = sim::fault("lost"),
                     .aborting_launch = sim::fault("abort"),
                     .hanging_launch = sim::fault("hang"),
                     .damaged_read = sim::fault("read"),
                     .damaged_peer = sim::fault("peer"),
                     .failing_peer = sim::fault("peer-error"),
                     .failing_mapping = sim::fault("access"),
                     .failing_unmapping = sim::fault("unmap"),
                     .range_limit = sim::fault("ranges"),
                     .slow_peer = sim::fault("peer-slow"),
                     .reaches_others = sim::fault("unreachable") == 0,
                     .failing_capture = sim::fault("capture"),
                     .graph_fault = sim::fault_text("graph")};
}
void close(Context* context) { delete context; }
size_t free_memory(Context*) { return sim::kMemory - std::min(sim::kMemory, sim::allocated_bytes()); }
double memory_bandwidth(const Context*) { return 0; }

namespace {

void* allocate_memory(Context* context, size_t bytes, bool pinned) {
  context->require_present();
  if (++context->allocations == context->failing_allocation) return nullptr;
  void* const memory = sim::allocate(bytes, pinned);
  if (memory != nullptr) sim::Ordering::shared().allocated(memory, bytes);
  return memory;
}

}  // namespace

// As HIP 6 does, it refuses more than 85 % of the memory at once.
void* allocate(Context* context, size_t bytes) {
  return bytes > sim::kMemory / 100 * 85 ? nullptr : allocate_memory(context, bytes, false);
}
// Work that uses the memory is done first, as the runtimes do.
void release(Context*, void* pointer) {
  sim::Scheduler::shared().finish_all();
  const size_t bytes = sim::allocation_bytes(pointer);
  sim::HostGuard::shared().forget(pointer, bytes);
  sim::Ordering::shared().allocated(pointer, bytes);  // by the host, perhaps, from here on
  sim::release(pointer);
}
size_t allocation_step() { return 1; }

size_t range_step(Context*) { return sim::kPage; }
void* reserve_addresses(Context* context, size_t bytes) {
  context->require_present();
  void* const addresses = sim::reserve(bytes);
  if (addresses == nullptr) throw ApiError(StatusCode::kOutOfMemory, "sim: no addresses");
  sim::Ordering::shared().allocated(addresses, bytes);
  return addresses;
}
bool map_memory(Context* context, void* range, size_t mapped, size_t bytes) {
  context->require_present();
  if (++context->allocations == context->failing_allocation) return false;
  if (++context->mappings == context->failing_mapping)
    throw ApiError(StatusCode::kFailed, "sim: injected failure of giving access to a range");
  if (context->range_limit != 0 && sim::committed_bytes() + bytes > context->range_limit) return false;
  sim::commit(static_cast<std::byte*>(range) + mapped, bytes);
  return true;
}
std::string unmap_memory(Context* context, void* piece, size_t bytes) {
  sim::Scheduler::shared().finish_all();
  if (++context->unmappings == context->failing_unmapping) return "sim: injected failure of unmapping a range";
  return sim::decommit(piece, bytes) ? "" : "sim: unmapped memory that is not a piece of a range";
}
std::string release_addresses(Context* context, void* range, size_t) {
  if (sim::has_pieces(range)) return "sim: released the addresses of a range that has memory";
  release(context, range);
  return {};
}

void* allocate_pinned(Context* context, size_t bytes) { return allocate_memory(context, bytes, true); }
void release_pinned(Context* context, void* pointer) { release(context, pointer); }

Queue* create_queue(Context* context) {
  auto& scheduler = sim::Scheduler::shared();
  const char* seed = std::getenv("GABBRO_SIM_STREAM_SEED");
  scheduler.set_seed(seed == nullptr ? 0 : std::strtoull(seed, nullptr, 10));
  return new Queue{.context = context,
                   .stream = scheduler.add_stream(),
                   .actor = sim::Ordering::shared().add_stream(),
                   .captured = {}};
}

void destroy_queue(Queue* queue) {
  sim::Scheduler::shared().remove_stream(queue->stream);
  sim::Ordering::shared().remove_stream(queue->actor);
  delete queue;
}

namespace {

void host_waits(const sim::Clock& time) {
  sim::Ordering::shared().host_waits(time);
  sim::HostGuard::shared().host_has_waited();
}

}  // namespace

std::chrono::milliseconds report_after() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
      sim::to_duration(sim::seconds_of("GABBRO_SIM_PATIENCE", 30)));
}
std::string wait_advice() { return {}; }

bool is_done(Queue* queue) {
  if (queue->context->hangs()) return false;
  sim::Scheduler::shared().finish(queue->stream);
  host_waits(sim::Ordering::shared().time_of(queue->actor));
  Context& context = *queue->context;
  context.require_present();
  const std::lock_guard lock(context.mutex);
  if (!context.failure.empty()) throw ApiError(StatusCode::kFailed, context.failure);
  return true;
}

void set_cancel_flag(Queue* queue, const std::atomic<bool>* cancel) { queue->cancel = cancel; }

Event* create_event(Context* context) { return new Event{.context = context, .marker = nullptr, .time = {}}; }
void destroy_event(Event* event) { delete event; }

void record(Queue* queue, Event* event) {
  queue->context->require_present();
  event->time = sim::Ordering::shared().time_of(queue->actor);
  event->marker = sim::Scheduler::shared().mark(queue->stream);
}

void wait(Queue* queue, Event* event) {
  queue->context->require_present();
  if (event->marker == nullptr) return;
  sim::Ordering::shared().wait(queue->actor, event->time);
  sim::Scheduler::shared().wait(queue->stream, event->marker);
}

bool is_done(Event* event) {
  if (event->marker == nullptr) return true;
  if (event->context->hangs()) return false;
  sim::Scheduler::shared().finish(*event->marker);
  host_waits(event->time);
  return true;
}

void Queue::declare(const std::string& name, std::span<const Access> accesses) {
  context->require_present();
  const std::string error = sim::Ordering::shared().enqueue(actor, name, accesses);
  if (!error.empty()) throw ApiError(StatusCode::kFailed, error);
}

namespace {

class SimAccessCheck final : public AccessCheck {
 public:
  void enqueued(Queue* queue, const std::string& name, std::vector<Access> accesses) override {
    if (queue->captured == nullptr) return queue->declare(name, accesses);
    queue->captured->work.emplace_back(
        [name, accesses = std::move(accesses)](Queue* on) { on->declare(name, accesses); });
  }
  void allocated(const void* memory, size_t bytes) override { sim::Ordering::shared().allocated(memory, bytes); }
  void freed(Context* context, Queue* queue, const void* memory, size_t bytes) override {
    const auto by = queue == nullptr ? sim::Ordering::kHost : queue->actor;
    const std::string error = sim::Ordering::shared().freed(by, memory, bytes);
    if (!error.empty()) context->fail(error);
  }
};

}  // namespace

AccessCheck* access_check() {
  static SimAccessCheck check;
  return &check;
}

void Queue::guard(const char* name, const void* host, size_t bytes, bool reads) {
  sim::HostGuard::shared().copy_enqueued(actor, name, host, bytes, reads,
                                         [of = context](const std::string& message) { of->fail(message); });
}

namespace {

void check_host_memory(const void* host, size_t bytes) {
  if (bytes <= kPageableBytes || sim::is_pinned(host)) return;
  throw ApiError(StatusCode::kFailed, fmt::format("sim: a copy of {} bytes of pageable memory; the limit "
                                                  "is {}",
                                                  bytes, kPageableBytes));
}

// With stale graphs: keeps what a copy to the device is about to overwrite.
void keep_overwritten(Queue* queue, void* target, size_t bytes) {
  if (queue->context->graph_fault != "stale") return;
  queue->overwritten = std::make_shared<Queue::Overwritten>();
  queue->enqueue([last = queue->overwritten, target, bytes] {
    const auto* const begin = static_cast<const std::byte*>(target);
    *last = {.target = target, .bytes = {begin, begin + bytes}};
  });
}

}  // namespace

void copy_to_device(Queue* queue, void* target, const void* host, size_t bytes) {
  check_host_memory(host, bytes);
  const Access accesses[] = {{target, bytes, true}, {host, sim::is_pinned(host) ? bytes : 0, false}};
  queue->declare("copy to the device", accesses);
  if (bytes == 0) return;
  keep_overwritten(queue, target, bytes);
  if (sim::is_pinned(host)) {
    queue->guard("copy to the device", host, bytes, true);
    return queue->enqueue(
        [=] { sim::HostGuard::shared().access(host, bytes, [&] { std::memcpy(target, host, bytes); }); });
  }
  const auto* const begin = static_cast<const std::byte*>(host);
  queue->enqueue(
      [target, copied = std::vector(begin, begin + bytes)] { std::memcpy(target, copied.data(), copied.size()); });
}

void copy_to_host(Queue* queue, void* host, const void* source, size_t bytes) {
  check_host_memory(host, bytes);
  const Access accesses[] = {{source, bytes, false}, {host, sim::is_pinned(host) ? bytes : 0, true}};
  queue->declare("copy to the host", accesses);
  if (bytes == 0) return;
  if (sim::is_pinned(host)) queue->guard("copy to the host", host, bytes, false);
  queue->enqueue([=, context = queue->context] {
    if (context->has_failed()) return;
    sim::HostGuard::shared().access(host, bytes, [&] {
      std::memcpy(host, source, bytes);
      if (++context->reads == context->damaged_read) flip_bit(*context, host, bytes);
    });
  });
}

std::string connect(Context* to, Context*) {
  return to->reaches_others ? "" : "sim: the devices do not reach each other's memory";
}

void copy_peer(Queue* to, void* target, Context* from, const void* source, size_t bytes) {
  from->require_present();
  const Access accesses[] = {{source, bytes, false}, {target, bytes, true}};
  to->declare("copy between devices", accesses);
  const uint64_t number = ++to->context->peer_copies;
  if (to->context->failing_peer != 0 && number >= to->context->failing_peer)
    throw ApiError(StatusCode::kFailed, "sim: injected failure of a copy between devices");
  const bool slow = to->context->slow_peer != 0 && number >= to->context->slow_peer;
  const bool damaged = to->context->damaged_peer != 0 && number >= to->context->damaged_peer;
  to->enqueue([=] {
    if (slow) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    std::memcpy(target, source, bytes);
    if (damaged) flip_bit(*from, target, bytes);
  });
}

}  // namespace gabbro::gpu::api
