// AMD's HIP runtime behind the host side. libamdhip64 is opened when it is first needed: where it is missing, there are
// no devices.
#include <dlfcn.h>
#include <hip/hip_runtime_api.h>

#include <cstdio>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include "backends/gpu/api.h"
#include "backends/gpu/code_images.h"

namespace gabbro::gpu::api {
namespace {

using abi::StatusCode;

// The runtime's functions that we call. A macro, since each has a type of its own.
// clang-format off
#define GABBRO_HIP_FUNCTIONS(X) \
  X(hipInit) X(hipGetDeviceCount) X(hipSetDevice) X(hipDeviceGetName) X(hipDeviceTotalMem) X(hipDeviceGetAttribute) \
  X(hipRuntimeGetVersion) X(hipDriverGetVersion) X(hipMemGetInfo) X(hipFree) X(hipHostFree) X(hipStreamDestroy) \
  X(hipStreamSynchronize) X(hipMemcpyHtoDAsync) X(hipMemcpyDtoHAsync) X(hipModuleLoadData) X(hipModuleUnload) \
  X(hipModuleGetFunction) X(hipFuncGetAttribute) X(hipModuleLaunchKernel) X(hipStreamBeginCapture) \
  X(hipStreamEndCapture) X(hipGraphInstantiateWithFlags) X(hipGraphLaunch) X(hipGraphExecDestroy) \
  X(hipGraphDestroy) X(hipGetErrorString) X(hipStreamCreateWithFlags)
// clang-format on

#define GABBRO_TEXT_OF(x) #x
#define GABBRO_TEXT(x) GABBRO_TEXT_OF(x)

class Runtime {
 public:
#define GABBRO_APPLY(function) decltype(&::function) function##_ = nullptr;
  GABBRO_HIP_FUNCTIONS(GABBRO_APPLY)
#undef GABBRO_APPLY
  // These are overloaded in the headers.
  hipError_t (*hipMalloc_)(void**, size_t) = nullptr;
  hipError_t (*hipHostMalloc_)(void**, size_t, unsigned) = nullptr;
  hipError_t (*properties_)(hipDeviceProp_t*, int) = nullptr;

  // The runtime, or null where there is none that works.
  static const Runtime* get() {
    static const Runtime runtime;
    return runtime.works_ ? &runtime : nullptr;
  }

  void check(hipError_t result, const char* doing) const {
    if (result == hipSuccess) return;
    const StatusCode code = result == hipErrorOutOfMemory                                   ? StatusCode::kOutOfMemory
                            : result == hipErrorNoDevice || result == hipErrorDeinitialized ? StatusCode::kLost
                                                                                            : StatusCode::kFailed;
    throw ApiError(code, fmt::format("rocm: {}: {}", doing, hipGetErrorString_(result)));
  }

 private:
  Runtime() {
    void* library = nullptr;
    for (const char* name : {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"}) {
      if (library == nullptr) library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    if (library == nullptr) return;
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
      return function != nullptr;
    };
#define GABBRO_APPLY(function) \
  if (!find(function##_, #function)) return;
    GABBRO_HIP_FUNCTIONS(GABBRO_APPLY)
#undef GABBRO_APPLY
    if (!find(hipMalloc_, "hipMalloc") || !find(hipHostMalloc_, "hipHostMalloc")) return;
    if (!find(properties_, GABBRO_TEXT(hipGetDeviceProperties))) return;  // a macro for the versioned name
    works_ = hipInit_(0) == hipSuccess;
  }
  bool works_ = false;
};

const Runtime& runtime() {
  const Runtime* found = Runtime::get();
  if (found == nullptr) throw ApiError(StatusCode::kFailed, "rocm: there is no libamdhip64, or it has no device");
  return *found;
}

}  // namespace

struct Context {
  int device = 0;
  uint32_t wave = 32;

  void use() const { runtime().check(runtime().hipSetDevice_(device), "selecting the device"); }
};
struct Queue {
  Context* context;
  hipStream_t stream = nullptr;
};
struct Function {
  hipFunction_t function = nullptr;
  uint32_t threads = 0;
};
struct Module {
  Context* context;
  std::vector<hipModule_t> modules;
  std::unordered_map<std::string, std::unique_ptr<Function>> functions;
};
struct Graph {
  hipGraphExec_t exec = nullptr;
};

const char* backend_name() { return "rocm"; }
int32_t score() { return 20; }

int32_t device_count() {
  const Runtime* found = Runtime::get();
  int count = 0;
  return found != nullptr && found->hipGetDeviceCount_(&count) == hipSuccess ? count : 0;
}

void device_facts(int32_t index, abi::DeviceFacts& facts) {
  const Runtime& hip = runtime();
  hipDeviceProp_t properties{};
  hip.check(hip.properties_(&properties, index), "asking for the device's properties");
  std::snprintf(facts.name, sizeof facts.name, "%s", properties.name);
  // "gfx90a:sramecc+:xnack-": what follows the target says how it is set up.
  const std::string architecture = properties.gcnArchName;
  std::snprintf(facts.architecture, sizeof facts.architecture, "%s",
                architecture.substr(0, architecture.find(':')).c_str());
  int version = 0;
  hip.check(hip.hipRuntimeGetVersion_(&version), "asking for the version");
  std::snprintf(facts.runtime, sizeof facts.runtime, "HIP %d.%d", version / 10000000, version / 100000 % 100);
  facts.memory_total = facts.memory_free = properties.totalGlobalMem;
  facts.compute_units = properties.multiProcessorCount;
  facts.wave_size = properties.warpSize;
  facts.integrated = properties.integrated != 0;
  facts.usable = true;
}

Context* open(int32_t index) {
  hipDeviceProp_t properties{};
  runtime().check(runtime().properties_(&properties, index), "asking for the device's properties");
  auto context = std::make_unique<Context>(index, static_cast<uint32_t>(properties.warpSize));
  context->use();
  return context.release();
}

void close(Context* context) { delete context; }

void* allocate(Context* context, size_t bytes) {
  context->use();
  void* pointer = nullptr;
  const hipError_t result = runtime().hipMalloc_(&pointer, bytes);
  if (result == hipErrorOutOfMemory) return nullptr;
  runtime().check(result, "allocating");
  return pointer;
}

void release(Context* context, void* pointer) {
  context->use();
  static_cast<void>(runtime().hipFree_(pointer));
}

size_t allocation_step() { return 512; }

void* allocate_pinned(Context* context, size_t bytes) {
  context->use();
  void* pointer = nullptr;
  const hipError_t result = runtime().hipHostMalloc_(&pointer, bytes, 0);
  if (result == hipErrorOutOfMemory) return nullptr;
  runtime().check(result, "allocating pinned memory");
  return pointer;
}

void release_pinned(Context* context, void* pointer) {
  context->use();
  static_cast<void>(runtime().hipHostFree_(pointer));
}

Queue* create_queue(Context* context) {
  context->use();
  auto queue = std::make_unique<Queue>(context);
  runtime().check(runtime().hipStreamCreateWithFlags_(&queue->stream, hipStreamNonBlocking), "creating a stream");
  return queue.release();
}

void destroy_queue(Queue* queue) {
  static_cast<void>(runtime().hipStreamDestroy_(queue->stream));
  delete queue;
}

void copy_to_device(Queue* queue, void* target, const void* host, size_t bytes) {
  if (bytes == 0) return;
  queue->context->use();
  runtime().check(runtime().hipMemcpyHtoDAsync_(target, host, bytes, queue->stream), "copying to the device");
}

void copy_to_host(Queue* queue, void* host, const void* source, size_t bytes) {
  queue->context->use();
  if (bytes > 0) {
    runtime().check(runtime().hipMemcpyDtoHAsync_(host, const_cast<void*>(source), bytes, queue->stream),
                    "copying from the device");
  }
  synchronize(queue);
}

void synchronize(Queue* queue) {
  queue->context->use();
  runtime().check(runtime().hipStreamSynchronize_(queue->stream), "waiting for the device");
}

Module* load_module(Context* context) {
  context->use();
  auto module = std::make_unique<Module>(context);
  for (const CodeImage& image : code_images()) {
    hipModule_t loaded = nullptr;
    runtime().check(runtime().hipModuleLoadData_(&loaded, image.data),
                    fmt::format("loading the kernels of {}", image.name).c_str());
    module->modules.push_back(loaded);
  }
  return module.release();
}

void unload_module(Module* module) {
  module->context->use();
  for (hipModule_t loaded : module->modules) static_cast<void>(runtime().hipModuleUnload_(loaded));
  delete module;
}

std::string module_description(const Module*) { return "native kernels"; }
uint32_t wave_size(const Context* context) { return context->wave; }

Function* find_function(Module* module, const char* name) {
  std::unique_ptr<Function>& known = module->functions[name];
  if (known != nullptr) return known.get();
  module->context->use();
  for (hipModule_t loaded : module->modules) {
    hipFunction_t function = nullptr;
    if (runtime().hipModuleGetFunction_(&function, loaded, name) != hipSuccess) continue;
    int threads = 0;
    runtime().check(runtime().hipFuncGetAttribute_(&threads, HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function), name);
    known = std::make_unique<Function>(function, static_cast<uint32_t>(threads));
    return known.get();
  }
  return nullptr;
}

uint32_t block_threads(const Function* function) { return function->threads; }

void launch(Queue* queue, const Function* function, Dim grid, const void* args, size_t) {
  queue->context->use();
  void* parameters[] = {const_cast<void*>(args)};
  runtime().check(runtime().hipModuleLaunchKernel_(function->function, grid.x, grid.y, grid.z, function->threads, 1, 1,
                                                   0, queue->stream, parameters, nullptr),
                  "launching a kernel");
}

bool begin_capture(Queue* queue) {
  queue->context->use();
  return runtime().hipStreamBeginCapture_(queue->stream, hipStreamCaptureModeThreadLocal) == hipSuccess;
}

Graph* end_capture(Queue* queue) {
  hipGraph_t captured = nullptr;
  runtime().check(runtime().hipStreamEndCapture_(queue->stream, &captured), "capturing a graph");
  auto graph = std::make_unique<Graph>();
  const hipError_t result = runtime().hipGraphInstantiateWithFlags_(&graph->exec, captured, 0);
  static_cast<void>(runtime().hipGraphDestroy_(captured));
  runtime().check(result, "making a graph");
  return graph.release();
}

void replay(Queue* queue, Graph* graph) {
  queue->context->use();
  runtime().check(runtime().hipGraphLaunch_(graph->exec, queue->stream), "launching a graph");
}

void destroy_graph(Graph* graph) {
  static_cast<void>(runtime().hipGraphExecDestroy_(graph->exec));
  delete graph;
}

}  // namespace gabbro::gpu::api
