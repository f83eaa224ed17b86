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
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "backends/gpu/sim/grid.h"
#include "backends/gpu/sim/host_guard.h"
#include "backends/gpu/sim/memory.h"
#include "backends/gpu/sim/objects.h"

namespace gabbro::gpu::api {
namespace {

using abi::StatusCode;

constexpr size_t kMemory = size_t{8} << 30;  // bytes that each device says it has
constexpr int32_t kMostDevices = 64;

// Nothing where the environment's number is not one.
std::optional<int32_t> wanted_devices() {
  const char* const text = std::getenv("GABBRO_SIM_DEVICES");
  if (text == nullptr || *text == '\0') return 2;
  int32_t count = 0;
  const char* const end = text + std::strlen(text);
  const auto [parsed, error] = std::from_chars(text, end, count);
  if (error != std::errc() || parsed != end || count < 1 || count > kMostDevices) return std::nullopt;
  return count;
}

uint32_t wave_of(int32_t index) {
  const char* forced = std::getenv("GABBRO_SIM_WAVE");
  if (forced == nullptr || *forced == '\0') return index % 2 == 0 ? 32 : 64;
  if (std::string_view(forced) == "32") return 32;
  if (std::string_view(forced) == "64") return 64;
  throw ApiError(StatusCode::kFailed, fmt::format("GABBRO_SIM_WAVE: '{:.16}' is neither 32 nor 64", forced));
}

// X of "what:X" in GABBRO_SIM_FAIL; empty where it is not asked for.
std::string fault_text(std::string_view what) {
  const char* text = std::getenv("GABBRO_SIM_FAIL");
  if (text == nullptr) return {};
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    if (item.starts_with(what) && item.substr(what.size()).starts_with(':'))
      return std::string(item.substr(what.size() + 1));
  }
  return {};
}

// As a number; 0: not asked for.
uint64_t fault(std::string_view what) { return std::strtoull(fault_text(what).c_str(), nullptr, 10); }

// Whether this fault of a launch may happen.
bool fails_now() {
  const char* const file = std::getenv("GABBRO_SIM_FAIL_ONCE");
  if (file == nullptr) return true;
  const int made = ::open(file, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (made >= 0) ::close(made);
  return made >= 0;
}

double seconds_of(const char* name, double otherwise) {
  const char* const text = std::getenv(name);
  return text != nullptr ? std::strtod(text, nullptr) : otherwise;
}

std::chrono::steady_clock::duration to_duration(double seconds) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
}

// Another one on each device, or bytes that two of them damage might be right again.
void flip_bit(const Context& context, void* memory, size_t bytes) {
  static_cast<std::byte*>(memory)[bytes / 2] ^= static_cast<std::byte>(context.wave);
}

}  // namespace

const char* backend_name() { return "sim"; }
int32_t score() { return -1; }
int32_t device_count() { return wanted_devices().value_or(1); }

void device_facts(int32_t index, abi::DeviceFacts& facts) {
  if (!wanted_devices()) {
    throw ApiError(StatusCode::kFailed, fmt::format("GABBRO_SIM_DEVICES: '{:.16}' is not a number from 1 to {}",
                                                    std::getenv("GABBRO_SIM_DEVICES"), kMostDevices));
  }
  std::snprintf(facts.name, sizeof facts.name, "simulated GPU, waves of %u lanes", wave_of(index));
  std::snprintf(facts.architecture, sizeof facts.architecture, "sim%u", wave_of(index));
  facts.memory_total = kMemory;
  facts.memory_free = kMemory - std::min(kMemory, sim::allocated_bytes());
  facts.compute_units = 1;
  facts.wave_size = static_cast<int32_t>(wave_of(index));
  facts.usable = true;
}

Context* open(int32_t index) {
  return new Context{.wave = wave_of(index),
                     .failing_allocation = fault("malloc"),
                     .failing_launch = fault("launch"),
                     .lost_after = fault("lost"),
                     .aborting_launch = fault("abort"),
                     .hanging_launch = fault("hang"),
                     .damaged_read = fault("read"),
                     .damaged_peer = fault("peer"),
                     .failing_peer = fault("peer-error"),
                     .failing_mapping = fault("access"),
                     .failing_unmapping = fault("unmap"),
                     .range_limit = fault("ranges"),
                     .slow_peer = fault("peer-slow"),
                     .reaches_others = fault("unreachable") == 0,
                     .failing_capture = fault("capture"),
                     .graph_fault = fault_text("graph")};
}
void close(Context* context) { delete context; }
size_t free_memory(Context*) { return kMemory - std::min(kMemory, sim::allocated_bytes()); }
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
  return bytes > kMemory / 100 * 85 ? nullptr : allocate_memory(context, bytes, false);
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
  return std::chrono::duration_cast<std::chrono::milliseconds>(to_duration(seconds_of("GABBRO_SIM_PATIENCE", 30)));
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

Module* load_module(Context* context) { return new Module{context->wave, {}}; }
void unload_module(Module* module) { delete module; }
std::string module_description(const Module* module) { return fmt::format("host code, waves of {}", module->wave); }
uint32_t wave_size(const Context* context) { return context->wave; }

Function* find_function(Module* module, const char* name) {
  std::unique_ptr<Function>& known = module->functions[name];
  if (known == nullptr) {
    const sim::Registration* kernel = sim::find_kernel(name, module->wave);
    if (kernel == nullptr) return nullptr;
    known = std::make_unique<Function>(kernel);
  }
  return known.get();
}
// With GABBRO_SIM_COMPILER, a command to which the wave size, the vocabulary, the source and the library to make are
// added; it has to link this plugin and to search headers from the root of the repository.
bool can_compile(Context*) { return std::getenv("GABBRO_SIM_COMPILER") != nullptr; }

Function* compile_function(Module* module, const std::string& name, const std::string& source) {
  if (Function* known = find_function(module, name.c_str())) return known;
  const std::string path =
      fmt::format("{}/{}_{}_{}", std::filesystem::temp_directory_path().string(), name, module->wave, ::getpid());
  std::ofstream(path + ".cc") << source;
  const std::string command =
      fmt::format("{} -DGABBRO_SIM_WAVE={} -include backends/gpu/sim/vocabulary.h {}.cc -o {}.so",
                  std::getenv("GABBRO_SIM_COMPILER"), module->wave, path, path);
  const bool compiled = std::system(command.c_str()) == 0;
  void* library = compiled ? ::dlopen((path + ".so").c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  for (const char* extension : {".cc", ".so"}) std::filesystem::remove(path + extension);
  if (library == nullptr)
    throw ApiError(StatusCode::kFailed, fmt::format("sim: compiling {}: {}", name, compiled ? ::dlerror() : command));
  return find_function(module, name.c_str());  // the library stays: its kernels are in the simulator's table
}

uint32_t compute_units(const Context*) { return 1; }
uint32_t block_threads(const Function* function) { return function->kernel->threads; }
uint32_t resident_blocks(const Function*) { return 2; }  // few, so that tests see blocks that take several shares

namespace {

void run_launch(Queue& queue, const sim::Registration& kernel, Dim grid, const void* args) {
  if (queue.context->has_failed()) return;
  std::string error = sim::run_grid(kernel, grid, args, queue.cancel);
  if (const std::string overwritten = sim::find_overwritten(); error.empty() && !overwritten.empty()) {
    error = fmt::format("kernel {}: {}", kernel.name, overwritten);
  }
  if (!error.empty()) queue.context->fail("sim: " + error);
}

}  // namespace

uint32_t resident_clusters(const Function*, uint32_t) { return 0; }

// As HIP's, or what GABBRO_SIM_GRID says.
uint64_t most_threads_along_x() {
  const char* text = std::getenv("GABBRO_SIM_GRID");
  return text == nullptr ? 0xffffffff : std::strtoull(text, nullptr, 10);
}

namespace {

void check_grid(const sim::Registration& kernel, Dim grid) {
  constexpr uint32_t kMost = 65535;
  if (uint64_t{grid.x} * kernel.threads <= most_threads_along_x() && grid.y <= kMost && grid.z <= kMost) return;
  throw ApiError(StatusCode::kFailed, fmt::format("sim: kernel {}: a grid of {} x {} x {} blocks of {} threads",
                                                  kernel.name, grid.x, grid.y, grid.z, kernel.threads));
}

}  // namespace

void launch(Queue* queue, const Function* function, Dim grid, const void* args, size_t arg_bytes, uint32_t) {
  check_grid(*function->kernel, grid);
  const auto* const begin = static_cast<const std::byte*>(args);
  const std::shared_ptr<std::byte> copied(new (std::align_val_t(64)) std::byte[arg_bytes],
                                          [](std::byte* p) { ::operator delete[](p, std::align_val_t(64)); });
  std::copy_n(begin, arg_bytes, copied.get());
  if (queue->captured != nullptr) {
    queue->captured->work.emplace_back([=](Queue* on) { launch(on, function, grid, copied.get(), arg_bytes, 1); });
    return;
  }
  Context& context = *queue->context;
  context.require_present();
  const uint64_t number = ++context.launches;
  if (context.lost_after != 0 && number > context.lost_after && fails_now()) {
    context.lost = true;
    context.require_present();
  }
  if (number == context.aborting_launch && fails_now()) std::abort();
  if (number == context.hanging_launch && fails_now()) {
    constexpr double kForEver = 1e6;
    const auto end = std::chrono::steady_clock::now() + to_duration(seconds_of("GABBRO_SIM_HANG", kForEver));
    context.hangs_until = end.time_since_epoch().count();
  }
  if (number == context.failing_launch) {
    return queue->enqueue([&context] { context.fail("sim: injected failure of a launch"); });
  }
  queue->enqueue([queue, kernel = function->kernel, grid, copied] { run_launch(*queue, *kernel, grid, copied.get()); });
}

GraphRules graph_rules(const Context* context) {
  return {.most = 64,
          .spare = context->graph_fault == "spare" ? kMemory : 0,
          .tested = context->graph_fault == "tested" || context->graph_fault == "stale",
          .off = {}};
}

void begin_capture(Queue* queue) {
  if (queue->captured != nullptr) throw ApiError(StatusCode::kFailed, "sim: the queue is capturing already");
  queue->captured = std::make_unique<Graph>();
}
Graph* end_capture(Queue* queue) {
  auto captured = std::move(queue->captured);
  if (++queue->context->captures == queue->context->failing_capture)
    throw ApiError(StatusCode::kFailed, "sim: injected failure of a capture");
  return captured.release();
}
void abandon_capture(Queue* queue) { queue->captured.reset(); }

namespace {

// Exchanges what the last copy to the device has written and what was there before.
void exchange_overwritten(Queue* queue) {
  if (queue->overwritten == nullptr) return;
  queue->enqueue([last = queue->overwritten] {
    std::swap_ranges(last->bytes.begin(), last->bytes.end(), static_cast<std::byte*>(last->target));
  });
}

}  // namespace

void replay(Queue* queue, Graph* graph) {
  if (queue->context->graph_fault == "oom")
    throw ApiError(StatusCode::kOutOfMemory, "sim: injected lack of memory for a graph");
  exchange_overwritten(queue);
  for (const auto& work : graph->work) work(queue);
  exchange_overwritten(queue);
}
void destroy_graph(Graph* graph) { delete graph; }

}  // namespace gabbro::gpu::api
