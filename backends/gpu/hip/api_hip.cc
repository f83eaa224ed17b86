// AMD's HIP runtime as the host side sees it: devices, modules, launches and the vendor's libraries. memory.cc and
// streams.cc have the rest.
#include <fmt/format.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "backends/gpu/facts.h"
#include "backends/gpu/hip/bandwidth.h"
#include "backends/gpu/hip/kernel_compiler.h"
#include "backends/gpu/hip/library.h"
#include "backends/gpu/hip/miopen.h"
#include "backends/gpu/hip/objects.h"

namespace gabbro::gpu::api {

constexpr const char* kMiopen = "MIOpen";

namespace {

hip::ProductLibraries& libraries_of(Context* context) {
  context->use();
  const std::lock_guard lock(context->products_mutex);
  if (context->products == nullptr)
    context->products = std::make_unique<hip::ProductLibraries>(context->device, context->architecture);
  return *context->products;
}

// `total` if the runtime does not say.
size_t free_memory_of(int32_t index, size_t total) {
  const Runtime& hip = runtime();
  size_t free = 0, all = 0;
  const bool known = hip.hipSetDevice_(index) == hipSuccess && hip.hipMemGetInfo_(&free, &all) == hipSuccess;
  return known ? free : total;
}

}  // namespace

const char* backend_name() { return "rocm"; }
int32_t score() { return 20; }

int32_t device_count() {
  const Runtime* found = Runtime::get();
  if (found != nullptr && found->is_forked()) return 1;  // so that opening it says what is wrong
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
  facts.memory_total = properties.totalGlobalMem;
  facts.memory_free = free_memory_of(index, properties.totalGlobalMem);
  facts.compute_units = properties.multiProcessorCount;
  facts.wave_size = properties.warpSize;
  facts.integrated = properties.integrated != 0;
  facts.usable = true;
}

Context* open(int32_t index) {
  if (const std::string copies = hip_search::two_copies(); !copies.empty())
    throw ApiError(abi::StatusCode::kFailed, "rocm: " + copies);
  const hipDeviceProp_t properties = runtime().properties(index);
  auto context = std::make_unique<Context>();
  context->device = index;
  context->wave = static_cast<uint32_t>(properties.warpSize);
  context->architecture = properties.gcnArchName;
  context->units = static_cast<uint32_t>(properties.multiProcessorCount);
  context->bandwidth = hip::bandwidth_of(properties.gcnArchName, properties.name, properties.totalGlobalMem,
                                         {properties.memoryClockRate, properties.memoryBusWidth});
  context->use();
  return context.release();
}

void close(Context* context) {
  if (runtime().is_forked()) return;  // the libraries' destructors would call HIP
  static_cast<void>(context->try_use());
  delete context;
}

double memory_bandwidth(const Context* context) { return context->bandwidth; }

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
  return new Module(context);
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
  if (module->code.add(name, source) == nullptr) return nullptr;
  return find_function(module, name.c_str());
}

uint32_t compute_units(const Context* context) { return context->units; }
uint32_t block_threads(const Function* function) { return function->threads; }
uint32_t resident_blocks(const Function* function) { return function->resident_blocks; }

uint32_t resident_clusters(const Function*, uint32_t) { return 0; }

uint64_t most_threads_along_x() { return 0xffffffff; }

void launch(Queue* queue, const Function* function, Dim grid, const void* args, size_t, uint32_t) {
  queue->context->use();
  void* parameters[] = {const_cast<void*>(args)};
  runtime().check(runtime().hipModuleLaunchKernel_(function->function, grid.x, grid.y, grid.z, function->threads, 1, 1,
                                                   0, queue->stream, parameters, nullptr),
                  "launching a kernel");
}

std::vector<std::string> product_libraries(Context* context) { return libraries_of(context).names(); }

bool trusts_product_libraries(Context* context) { return libraries_of(context).are_trusted(); }

std::string library_problem(Context* context, const std::string& library) {
  return libraries_of(context).problem(library);
}

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

// Their test at loading has run on no AMD card yet.
std::string rank_sum_problem() {
  if (runtime().hipExtMallocWithFlags_ == nullptr) return "this HIP has no uncached memory";
  const char* const wanted = std::getenv("GABBRO_DIRECT_SUMS");
  return wanted != nullptr && std::string_view(wanted) == "1" ? "" : "GABBRO_DIRECT_SUMS=1 tries them on AMD cards";
}

}  // namespace gabbro::gpu::api
