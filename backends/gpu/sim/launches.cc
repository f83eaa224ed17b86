// Kernels of the simulator: finding and compiling them, launches, and graphs of launches.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include "backends/gpu/sim/grid.h"
#include "backends/gpu/sim/memory.h"
#include "backends/gpu/sim/objects.h"
#include "backends/gpu/sim/settings.h"

namespace gabbro::gpu::api {

using abi::StatusCode;

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
  if (context.lost_after != 0 && number > context.lost_after && sim::fails_now()) {
    context.lost = true;
    context.require_present();
  }
  if (number == context.aborting_launch && sim::fails_now()) std::abort();
  if (number == context.hanging_launch && sim::fails_now()) {
    constexpr double kForEver = 1e6;
    const auto end = std::chrono::steady_clock::now() + sim::to_duration(sim::seconds_of("GABBRO_SIM_HANG", kForEver));
    context.hangs_until = end.time_since_epoch().count();
  }
  if (number == context.failing_launch) {
    return queue->enqueue([&context] { context.fail("sim: injected failure of a launch"); });
  }
  queue->enqueue([queue, kernel = function->kernel, grid, copied] { run_launch(*queue, *kernel, grid, copied.get()); });
}

GraphRules graph_rules(const Context* context) {
  return {.most = 64,
          .spare = context->graph_fault == "spare" ? sim::kMemory : 0,
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
