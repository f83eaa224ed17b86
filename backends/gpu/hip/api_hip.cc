// AMD's HIP runtime behind the host side.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "backends/gpu/api.h"
#include "backends/gpu/facts.h"
#include "backends/gpu/hip/code_objects.h"
#include "backends/gpu/hip/gemm_libraries.h"
#include "backends/gpu/hip/kernel_compiler.h"
#include "backends/gpu/hip/miopen.h"
#include "backends/gpu/hip/runtime.h"

namespace gabbro::gpu::api {

using abi::StatusCode;
using hip::Runtime;
using hip::runtime;

constexpr const char* kMiopen = "MIOpen";

struct Context {
  int device = 0;
  std::string architecture;  // "gfx90a:sramecc+:xnack-"
  double bandwidth = 0;
  uint32_t wave = 32;
  uint32_t units = 0;                                // multiprocessors
  std::unique_ptr<hip::ProductLibraries> products;   // from the first product on
  std::unique_ptr<ConvolutionLibrary> convolutions;  // the same, and null where there is none
  bool convolutions_opened = false;

  void use() const { runtime().check(runtime().hipSetDevice_(device), "selecting the device"); }
  // For functions that release something: a lost device has nothing to release.
  bool try_use() const { return runtime().hipSetDevice_(device) == hipSuccess; }
};
struct Queue {
  Context* context;
  hipStream_t stream = nullptr;
};
struct Event {
  Context* context;
  hipEvent_t event = nullptr;
};
struct Function {
  hipFunction_t function = nullptr;
  uint32_t threads = 0;
  uint32_t resident_blocks = 0;
};
struct Module {
  Context* context;
  hip::CodeObjects code;
  std::unordered_map<std::string, std::unique_ptr<Function>> functions;
};
struct Graph {
  hipGraphExec_t exec = nullptr;
};
struct Gemm {
  std::unique_ptr<hip::LibraryProduct> product;
};
struct Convolution {
  std::unique_ptr<LibraryConvolution> convolution;
};

namespace {

hip::ProductLibraries& libraries_of(Context* context) {
  context->use();
  if (context->products == nullptr) context->products = std::make_unique<hip::ProductLibraries>(context->architecture);
  return *context->products;
}

}  // namespace

const char* backend_name() { return "rocm"; }
int32_t score() { return 20; }

int32_t device_count() {
  const Runtime* found = Runtime::get();
  int count = 0;
  return found != nullptr && found->hipGetDeviceCount_(&count) == hipSuccess ? count : 0;
}

void device_facts(int32_t index, abi::DeviceFacts& facts) {
  const Runtime& hip = runtime();
  const hipDeviceProp_t properties = hip.properties(index);
  const int version = hip.version();
  set_text(facts.name, properties.name);
  set_text(facts.architecture, hip::target_of(properties.gcnArchName));
  set_text(facts.runtime, fmt::format("HIP {}.{}", version / 10000000, version / 100000 % 100));
  set_text(facts.kernels, hip::description_of(hip::built_code(properties.gcnArchName)));
  char address[32] = "";
  hip.check(hip.hipDeviceGetPCIBusId_(address, sizeof address, index), "asking for the PCI address");
  set_pci_address(facts, address);
  facts.memory_total = facts.memory_free = properties.totalGlobalMem;
  facts.compute_units = properties.multiProcessorCount;
  facts.wave_size = properties.warpSize;
  facts.integrated = properties.integrated != 0;
  facts.usable = true;
}

Context* open(int32_t index) {
  const hipDeviceProp_t properties = runtime().properties(index);
  auto context = std::make_unique<Context>();
  context->device = index;
  context->wave = static_cast<uint32_t>(properties.warpSize);
  context->architecture = properties.gcnArchName;
  context->units = static_cast<uint32_t>(properties.multiProcessorCount);
  // kHz and bits; two transfers a clock.
  context->bandwidth = 2e3 * properties.memoryClockRate * properties.memoryBusWidth / 8;
  context->use();
  return context.release();
}

void close(Context* context) {
  static_cast<void>(context->try_use());
  delete context;
}

size_t free_memory(Context* context) {
  context->use();
  size_t free = 0, total = 0;
  runtime().check(runtime().hipMemGetInfo_(&free, &total), "asking for the free memory");
  return free;
}

double memory_bandwidth(const Context* context) { return context->bandwidth; }

void* allocate(Context* context, size_t bytes) {
  context->use();
  void* pointer = nullptr;
  const hipError_t result = runtime().hipMalloc_(&pointer, bytes);
  if (result == hipErrorOutOfMemory) return nullptr;
  runtime().check(result, "allocating");
  return pointer;
}

void release(Context* context, void* pointer) {
  if (context->try_use()) static_cast<void>(runtime().hipFree_(pointer));
}

size_t allocation_step() { return 512; }

namespace {

hipMemAllocationProp range_memory(const Context* context) {
  hipMemAllocationProp memory{};
  memory.type = hipMemAllocationTypePinned;
  memory.location.type = hipMemLocationTypeDevice;
  memory.location.id = context->device;
  return memory;
}

}  // namespace

size_t range_step(Context* context) {
  const Runtime& hip = runtime();
  context->use();
  int supported = 0;
  if (hip.hipDeviceGetAttribute_ == nullptr || hip.hipMemSetAccess_ == nullptr ||
      hip.hipDeviceGetAttribute_(&supported, hipDeviceAttributeVirtualMemoryManagementSupported, context->device) !=
          hipSuccess ||
      supported == 0)
    return 0;
  const hipMemAllocationProp memory = range_memory(context);
  size_t step = 0;
  hip.check(hip.hipMemGetAllocationGranularity_(&step, &memory, hipMemAllocationGranularityRecommended),
            "asking for the step of ranges");
  return step;
}

void* reserve_addresses(Context* context, size_t bytes) {
  context->use();
  void* addresses = nullptr;
  runtime().check(runtime().hipMemAddressReserve_(&addresses, bytes, 0, nullptr, 0), "reserving addresses");
  return addresses;
}

bool map_memory(Context* context, void* addresses, size_t bytes) {
  const Runtime& hip = runtime();
  context->use();
  const hipMemAllocationProp memory = range_memory(context);
  hipMemGenericAllocationHandle_t handle{};
  const hipError_t result = hip.hipMemCreate_(&handle, bytes, &memory, 0);
  if (result == hipErrorOutOfMemory) return false;
  hip.check(result, "allocating for a range");
  const hipError_t mapped = hip.hipMemMap_(addresses, bytes, 0, handle, 0);
  static_cast<void>(hip.hipMemRelease_(handle));  // the range has it
  hip.check(mapped, "mapping a range");
  hipMemAccessDesc access{};
  access.location = memory.location;
  access.flags = hipMemAccessFlagsProtReadWrite;
  const hipError_t allowed = hip.hipMemSetAccess_(addresses, bytes, &access, 1);
  if (allowed != hipSuccess) static_cast<void>(hip.hipMemUnmap_(addresses, bytes));
  hip.check(allowed, "giving access to a range");
  return true;
}

void release_addresses(Context* context, void* addresses, size_t bytes, size_t mapped) {
  if (!context->try_use()) return;
  if (mapped > 0) static_cast<void>(runtime().hipMemUnmap_(addresses, mapped));
  static_cast<void>(runtime().hipMemAddressFree_(addresses, bytes));
}

void* allocate_pinned(Context* context, size_t bytes) {
  context->use();
  void* pointer = nullptr;
  const hipError_t result = runtime().hipHostMalloc_(&pointer, bytes, 0);
  if (result == hipErrorOutOfMemory) return nullptr;
  runtime().check(result, "allocating pinned memory");
  return pointer;
}

void release_pinned(Context* context, void* pointer) {
  if (context->try_use()) static_cast<void>(runtime().hipHostFree_(pointer));
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
  if (bytes == 0) return;
  queue->context->use();
  runtime().check(runtime().hipMemcpyDtoHAsync_(host, const_cast<void*>(source), bytes, queue->stream),
                  "copying from the device");
}

void synchronize(Queue* queue) {
  queue->context->use();
  runtime().check(runtime().hipStreamSynchronize_(queue->stream), "waiting for the device");
}

Event* create_event(Context* context) {
  context->use();
  auto event = std::make_unique<Event>(context);
  runtime().check(runtime().hipEventCreateWithFlags_(&event->event, hipEventDisableTiming), "creating an event");
  return event.release();
}

void destroy_event(Event* event) {
  if (event->context->try_use()) static_cast<void>(runtime().hipEventDestroy_(event->event));
  delete event;
}

void record(Queue* queue, Event* event) {
  queue->context->use();
  runtime().check(runtime().hipEventRecord_(event->event, queue->stream), "recording an event");
}

void wait(Queue* queue, Event* event) {
  queue->context->use();
  runtime().check(runtime().hipStreamWaitEvent_(queue->stream, event->event, 0), "waiting for an event");
}

void synchronize_event(Event* event) {
  event->context->use();
  runtime().check(runtime().hipEventSynchronize_(event->event), "waiting for an event");
}

AccessCheck* access_check() { return nullptr; }

void set_cancel_flag(Queue*, const std::atomic<bool>*) {}

std::string connect(Context* to, Context* from) {
  if (to->device == from->device) return {};
  int reaches = 0;
  runtime().check(runtime().hipDeviceCanAccessPeer_(&reaches, to->device, from->device), "asking for peer access");
  if (reaches == 0) return fmt::format("rocm: device {} does not reach the memory of {}", to->device, from->device);
  to->use();
  const hipError_t result = runtime().hipDeviceEnablePeerAccess_(from->device, 0);
  if (result != hipErrorPeerAccessAlreadyEnabled) runtime().check(result, "enabling peer access");
  return {};
}

void copy_peer(Queue* to, void* target, Context* from, const void* source, size_t bytes) {
  to->context->use();
  runtime().check(runtime().hipMemcpyPeerAsync_(target, to->context->device, source, from->device, bytes, to->stream),
                  "copying between devices");
}

Module* load_module(Context* context) {
  context->use();
  return new Module{.context = context, .code = hip::CodeObjects(context->architecture), .functions = {}};
}

void unload_module(Module* module) {
  static_cast<void>(module->context->try_use());
  delete module;
}

std::string module_description(const Module* module) { return module->code.description(); }
uint32_t wave_size(const Context* context) { return context->wave; }

Function* find_function(Module* module, const char* name) {
  std::unique_ptr<Function>& known = module->functions[name];
  if (known != nullptr) return known.get();
  module->context->use();
  const hipFunction_t function = module->code.find(name);
  if (function == nullptr) return nullptr;
  int threads = 0;
  runtime().check(runtime().hipFuncGetAttribute_(&threads, HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function), name);
  int blocks = 0;  // of a multiprocessor
  runtime().check(runtime().hipModuleOccupancyMaxActiveBlocksPerMultiprocessor_(&blocks, function, threads, 0), name);
  known = std::make_unique<Function>(function, static_cast<uint32_t>(threads),
                                     static_cast<uint32_t>(blocks) * module->context->units);
  return known.get();
}

bool can_compile(Context*) { return hip::can_compile(); }

Function* compile_function(Module* module, const std::string& name, const std::string& source) {
  if (Function* known = find_function(module, name.c_str())) return known;
  module->context->use();
  module->code.add(name, source);
  return find_function(module, name.c_str());
}

uint32_t compute_units(const Context* context) { return context->units; }
uint32_t block_threads(const Function* function) { return function->threads; }
uint32_t resident_blocks(const Function* function) { return function->resident_blocks; }

uint32_t resident_clusters(const Function*, uint32_t) { return 0; }

void launch(Queue* queue, const Function* function, Dim grid, const void* args, size_t, uint32_t) {
  queue->context->use();
  void* parameters[] = {const_cast<void*>(args)};
  runtime().check(runtime().hipModuleLaunchKernel_(function->function, grid.x, grid.y, grid.z, function->threads, 1, 1,
                                                   0, queue->stream, parameters, nullptr),
                  "launching a kernel");
}

std::vector<std::string> product_libraries(Context* context) { return libraries_of(context).names(); }

std::string library_version(Context* context, const std::string& library) {
  if (library == kMiopen) return hip::miopen_version();
  return libraries_of(context).version(library);
}

Gemm* make_gemm(Context* context, const std::string& library, const GemmShape& shape) {
  auto product = libraries_of(context).make(library, shape);
  return product == nullptr ? nullptr : new Gemm{std::move(product)};
}

void destroy_gemm(Gemm* product) { delete product; }

void multiply(Queue* queue, const Gemm* product, const GemmOperands& operands) {
  queue->context->use();
  product->product->run(queue->stream, operands);
}

std::vector<std::string> convolution_libraries(Context*) { return {kMiopen}; }
// MIOpen may compile kernels for minutes, or have none that work on a card.
bool trusts_convolution_libraries(Context*) { return false; }

Convolution* make_convolution(Context* context, const std::string& library, const ConvShape& shape, bool search) {
  if (library != kMiopen) return nullptr;
  context->use();
  if (!std::exchange(context->convolutions_opened, true)) context->convolutions = hip::open_miopen();
  if (context->convolutions == nullptr) return nullptr;
  auto convolution = context->convolutions->make(shape, search);
  return convolution == nullptr ? nullptr : new Convolution{std::move(convolution)};
}

void destroy_convolution(Convolution* convolution) { delete convolution; }
size_t convolution_scratch(const Convolution* convolution) { return convolution->convolution->scratch_bytes(); }

void convolve(Queue* queue, const Convolution* convolution, const void* x, const void* w, void* y, void* scratch) {
  queue->context->use();
  convolution->convolution->run(queue->stream, x, w, y, scratch);
}

const Collectives* collectives() { return nullptr; }

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
