// NVIDIA's driver behind the host side. libcuda.so.1 is opened when it is first needed: where it is missing, there are
// no devices.
#include <cuda.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backends/gpu/api.h"
#include "backends/gpu/code_cache.h"
#include "backends/gpu/cuda/cublas.h"
#include "backends/gpu/cuda/cudnn.h"
#include "backends/gpu/cuda/kernel_compiler.h"
#include "backends/gpu/embedded_files.h"
#include "backends/gpu/facts.h"
#include "backends/gpu/lost_device.h"

namespace gabbro::gpu::api {
namespace {

using abi::StatusCode;

static_assert(CUDA_ERROR_DEINITIALIZED == kDeinitialized && CUDA_ERROR_NO_DEVICE == kNoDevice &&
              CUDA_ERROR_ECC_UNCORRECTABLE == kUncorrectable && CUDA_ERROR_ILLEGAL_ADDRESS == kIllegalAddress &&
              CUDA_ERROR_LAUNCH_TIMEOUT == kLaunchTimeout && CUDA_ERROR_ASSERT == kAssert &&
              CUDA_ERROR_HARDWARE_STACK_ERROR == kStackError && CUDA_ERROR_ILLEGAL_INSTRUCTION == kIllegalInstruction &&
              CUDA_ERROR_MISALIGNED_ADDRESS == kMisalignedAddress &&
              CUDA_ERROR_INVALID_ADDRESS_SPACE == kInvalidAddressSpace &&
              CUDA_ERROR_INVALID_PC == kInvalidProgramCounter && CUDA_ERROR_LAUNCH_FAILED == kLaunchFailure);

constexpr const char* kCublas = "cuBLASLt";
constexpr const char* kCudnn = "cuDNN";

// The driver's functions that we call. A macro, since each has its type and a name that headers redefine.
// clang-format off
#define GABBRO_CUDA_FUNCTIONS(X) \
  X(cuInit) X(cuDeviceGetCount) X(cuDeviceGet) X(cuDeviceGetName) X(cuDeviceTotalMem) X(cuDeviceGetAttribute) \
  X(cuDriverGetVersion) X(cuDeviceGetPCIBusId) X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease) X(cuCtxSetCurrent) X(cuMemGetInfo) \
  X(cuMemAlloc) X(cuMemFree) X(cuMemHostAlloc) X(cuMemFreeHost) X(cuStreamCreate) X(cuStreamDestroy) \
  X(cuStreamQuery) X(cuMemcpyHtoDAsync) X(cuMemcpyDtoHAsync) X(cuModuleLoadData) X(cuModuleUnload) \
  X(cuModuleGetFunction) X(cuModuleGetGlobal) X(cuMemcpyDtoH) X(cuFuncGetAttribute) X(cuFuncSetAttribute) \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor) X(cuLaunchKernelEx) X(cuStreamBeginCapture) X(cuStreamEndCapture) \
  X(cuGraphInstantiateWithFlags) X(cuGraphLaunch) X(cuGraphExecDestroy) X(cuGraphDestroy) X(cuGetErrorString) \
  X(cuDeviceCanAccessPeer) X(cuCtxEnablePeerAccess) X(cuMemcpyPeerAsync) X(cuEventCreate) X(cuEventDestroy) \
  X(cuEventRecord) X(cuEventQuery) X(cuStreamWaitEvent) X(cuOccupancyMaxActiveClusters)
// Functions that drivers before CUDA 12.4 or 10.2 lack; null there.
#define GABBRO_LATER_FUNCTIONS(X) \
  X(cuModuleGetFunctionCount) X(cuModuleEnumerateFunctions) X(cuFuncGetName) \
  X(cuMemGetAllocationGranularity) X(cuMemAddressReserve) X(cuMemAddressFree) X(cuMemCreate) X(cuMemRelease) \
  X(cuMemMap) X(cuMemUnmap) X(cuMemSetAccess)
// clang-format on
#define GABBRO_TEXT_OF(x) #x
#define GABBRO_TEXT(x) GABBRO_TEXT_OF(x)

class Driver {
 public:
#define GABBRO_APPLY(function) decltype(&::function) function##_ = nullptr;
  GABBRO_CUDA_FUNCTIONS(GABBRO_APPLY)
  GABBRO_LATER_FUNCTIONS(GABBRO_APPLY)
#undef GABBRO_APPLY

  // The driver; null: none that works.
  static const Driver* get() {
    static const Driver driver;
    return driver.works_ ? &driver : nullptr;
  }

  // Empty for a success.
  std::string failure_of(CUresult result, const char* doing) const {
    if (result == CUDA_SUCCESS) return {};
    const char* text = nullptr;
    cuGetErrorString_(result, &text);
    return fmt::format("cuda: {}: {}", doing, text == nullptr ? "unknown error" : text);
  }

  void check(CUresult result, const char* doing) const {
    if (result == CUDA_SUCCESS) return;
    const StatusCode code = result == CUDA_ERROR_OUT_OF_MEMORY ? StatusCode::kOutOfMemory
                            : is_lost(result)                  ? StatusCode::kLost
                                                               : StatusCode::kFailed;
    throw ApiError(code, failure_of(result, doing));
  }

  // The result of a query: false while work is under way. Throws as check.
  bool is_done(CUresult result, const char* doing) const {
    if (result == CUDA_ERROR_NOT_READY) return false;
    // A fault that the driver has no name for.
    if (result == CUDA_ERROR_UNKNOWN) throw ApiError(StatusCode::kLost, fmt::format("cuda: {}: unknown error", doing));
    check(result, doing);
    return true;
  }

 private:
  Driver() {
    // A driver that is asked for no device at all has ended the process (cuInit of 580 in a container).
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    if (visible != nullptr && (*visible == '\0' || std::string_view(visible).starts_with("-1"))) return;
    void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
      // The headers' names are macros for the versioned ones, and GABBRO_TEXT expands them.
#define GABBRO_APPLY(function)                                                                    \
  function##_ = reinterpret_cast<decltype(function##_)>(::dlsym(library, GABBRO_TEXT(function))); \
  if (function##_ == nullptr) return;
    GABBRO_CUDA_FUNCTIONS(GABBRO_APPLY)
#undef GABBRO_APPLY
#define GABBRO_APPLY(function) \
  function##_ = reinterpret_cast<decltype(function##_)>(::dlsym(library, GABBRO_TEXT(function)));
    GABBRO_LATER_FUNCTIONS(GABBRO_APPLY)
#undef GABBRO_APPLY
    works_ = cuInit_(0) == CUDA_SUCCESS;
  }
  bool works_ = false;
};

const Driver& driver() {
  const Driver* found = Driver::get();
  if (found == nullptr) throw ApiError(StatusCode::kFailed, "cuda: there is no libcuda.so.1, or it has no device");
  return *found;
}

int attribute(CUdevice device, CUdevice_attribute which) {
  int value = 0;
  driver().check(driver().cuDeviceGetAttribute_(&value, which, device), "asking for an attribute");
  return value;
}

}  // namespace

struct Context {
  CUdevice device = 0;
  CUcontext context = nullptr;
  bool overlaps = false;  // launches with the end of the one ahead
  std::mutex workspace_mutex;
  CUdeviceptr workspace = 0;  // of cuBLASLt, from its first product on, until a queue takes it
  bool workspace_taken = false;
  std::unique_ptr<CublasLibrary> products;           // from the first product on; null: none
  std::unique_ptr<ConvolutionLibrary> convolutions;  // from the first convolution on; null: none
  bool convolutions_opened = false;

  void use() const { driver().check(driver().cuCtxSetCurrent_(context), "selecting the device"); }
  // For functions that release something: a lost device has nothing to release.
  bool try_use() const { return driver().cuCtxSetCurrent_(context) == CUDA_SUCCESS; }
};
struct Queue {
  Context* context;
  CUstream stream = nullptr;
  CUdeviceptr workspace = 0;  // of cuBLASLt, from its first product on this queue on
};
struct Event {
  Context* context;
  CUevent event = nullptr;
};
struct Function {
  CUfunction function = nullptr;
  uint32_t threads = 0;
  uint32_t memory = 0;  // bytes that a block gets at the launch: see GPU_MEMORY_KERNEL
  uint32_t resident_blocks = 0;
  bool clusters = false;  // its code has them
};
struct Module {
  Context* context;
  std::vector<CUmodule> loaded;
  std::vector<CUmodule> unlisted;                   // the ones whose kernels the driver cannot list
  std::unordered_map<std::string, CUmodule> homes;  // of the kernels that are listed
  std::unordered_map<std::string, std::unique_ptr<Function>> functions;
};
struct Graph {
  CUgraphExec exec = nullptr;
};
struct Gemm {
  std::unique_ptr<CublasProduct> product;
};
struct Convolution {
  std::unique_ptr<LibraryConvolution> convolution;
};

const char* backend_name() { return "cuda"; }
int32_t score() { return 30; }

int32_t device_count() {
  const Driver* found = Driver::get();
  int count = 0;
  return found != nullptr && found->cuDeviceGetCount_(&count) == CUDA_SUCCESS ? count : 0;
}

void device_facts(int32_t index, abi::DeviceFacts& facts) {
  const Driver& cuda = driver();
  CUdevice device = 0;
  cuda.check(cuda.cuDeviceGet_(&device, index), "finding the device");
  cuda.check(cuda.cuDeviceGetName_(facts.name, sizeof facts.name, device), "asking for the name");
  std::snprintf(facts.architecture, sizeof facts.architecture, "sm_%d%d",
                attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
                attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  int version = 0;
  cuda.check(cuda.cuDriverGetVersion_(&version), "asking for the version");
  std::snprintf(facts.driver, sizeof facts.driver, "CUDA %d.%d", version / 1000, version % 1000 / 10);
  size_t total = 0;
  cuda.check(cuda.cuDeviceTotalMem_(&total, device), "asking for the memory");
  char address[32] = "";
  cuda.check(cuda.cuDeviceGetPCIBusId_(address, sizeof address, device), "asking for the PCI address");
  set_pci_address(facts, address);
  facts.memory_total = facts.memory_free = total;
  facts.compute_units = attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  facts.wave_size = attribute(device, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  facts.integrated = attribute(device, CU_DEVICE_ATTRIBUTE_INTEGRATED) != 0;
  facts.usable = true;
}

Context* open(int32_t index) {
  const Driver& cuda = driver();
  auto context = std::make_unique<Context>();
  cuda.check(cuda.cuDeviceGet_(&context->device, index), "finding the device");
  context->overlaps = attribute(context->device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) >= 9;
  cuda.check(cuda.cuDevicePrimaryCtxRetain_(&context->context, context->device), "opening the device");
  return context.release();
}

void close(Context* context) {
  const bool present = context->try_use();
  if (context->workspace != 0 && present) driver().cuMemFree_(context->workspace);
  context->convolutions.reset();  // its handle belongs to the context
  context->products.reset();
  driver().cuDevicePrimaryCtxRelease_(context->device);
  delete context;
}

size_t free_memory(Context* context) {
  context->use();
  size_t free = 0, total = 0;
  driver().check(driver().cuMemGetInfo_(&free, &total), "asking for the free memory");
  return free;
}

// From kHz and bits; two transfers a clock.
double memory_bandwidth(const Context* context) {
  return 2e3 * attribute(context->device, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) *
         attribute(context->device, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) / 8;
}

void* allocate(Context* context, size_t bytes) {
  context->use();
  CUdeviceptr pointer = 0;
  const CUresult result = driver().cuMemAlloc_(&pointer, bytes);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return nullptr;
  driver().check(result, "allocating");
  return reinterpret_cast<void*>(pointer);
}

void release(Context* context, void* pointer) {
  if (context->try_use()) driver().cuMemFree_(reinterpret_cast<CUdeviceptr>(pointer));
}

size_t allocation_step() { return 512; }

namespace {

CUmemAllocationProp range_memory(const Context* context) {
  CUmemAllocationProp memory{};
  memory.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  memory.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = context->device};
  return memory;
}

}  // namespace

size_t range_step(Context* context) {
  const Driver& cuda = driver();
  context->use();
  if (cuda.cuMemSetAccess_ == nullptr ||
      attribute(context->device, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) == 0)
    return 0;
  const CUmemAllocationProp memory = range_memory(context);
  size_t step = 0;
  cuda.check(cuda.cuMemGetAllocationGranularity_(&step, &memory, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
             "asking for the step of ranges");
  return step;
}

void* reserve_addresses(Context* context, size_t bytes) {
  context->use();
  CUdeviceptr addresses = 0;
  driver().check(driver().cuMemAddressReserve_(&addresses, bytes, 0, 0, 0), "reserving addresses");
  return reinterpret_cast<void*>(addresses);
}

bool map_memory(Context* context, void* range, size_t mapped, size_t bytes) {
  const Driver& cuda = driver();
  context->use();
  const CUmemAllocationProp memory = range_memory(context);
  const auto piece = reinterpret_cast<CUdeviceptr>(range) + mapped;
  CUmemGenericAllocationHandle handle = 0;
  const CUresult created = cuda.cuMemCreate_(&handle, bytes, &memory, 0);
  if (created == CUDA_ERROR_OUT_OF_MEMORY) return false;
  cuda.check(created, "allocating for a range");
  const CUresult placed = cuda.cuMemMap_(piece, bytes, 0, handle, 0);
  cuda.cuMemRelease_(handle);  // the range has it
  cuda.check(placed, "mapping a range");
  const CUmemAccessDesc access{.location = memory.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  const CUresult allowed = cuda.cuMemSetAccess_(piece, bytes, &access, 1);
  if (allowed != CUDA_SUCCESS) cuda.cuMemUnmap_(piece, bytes);
  cuda.check(allowed, "giving access to a range");
  return true;
}

std::string unmap_memory(Context* context, void* piece, size_t bytes) {
  if (!context->try_use()) return {};
  return driver().failure_of(driver().cuMemUnmap_(reinterpret_cast<CUdeviceptr>(piece), bytes), "unmapping a range");
}

std::string release_addresses(Context* context, void* range, size_t bytes) {
  if (!context->try_use()) return {};
  return driver().failure_of(driver().cuMemAddressFree_(reinterpret_cast<CUdeviceptr>(range), bytes),
                             "releasing the addresses of a range");
}

void* allocate_pinned(Context* context, size_t bytes) {
  context->use();
  void* pointer = nullptr;
  const CUresult result = driver().cuMemHostAlloc_(&pointer, bytes, 0);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return nullptr;
  driver().check(result, "allocating pinned memory");
  return pointer;
}

void release_pinned(Context* context, void* pointer) {
  if (context->try_use()) driver().cuMemFreeHost_(pointer);
}

Queue* create_queue(Context* context) {
  context->use();
  auto queue = std::make_unique<Queue>(context);
  driver().check(driver().cuStreamCreate_(&queue->stream, CU_STREAM_NON_BLOCKING), "creating a stream");
  return queue.release();
}

void destroy_queue(Queue* queue) {
  if (queue->workspace != 0 && queue->context->try_use()) driver().cuMemFree_(queue->workspace);
  driver().cuStreamDestroy_(queue->stream);
  delete queue;
}

void copy_to_device(Queue* queue, void* target, const void* host, size_t bytes) {
  if (bytes == 0) return;
  queue->context->use();
  driver().check(driver().cuMemcpyHtoDAsync_(reinterpret_cast<CUdeviceptr>(target), host, bytes, queue->stream),
                 "copying to the device");
}

void copy_to_host(Queue* queue, void* host, const void* source, size_t bytes) {
  if (bytes == 0) return;
  queue->context->use();
  driver().check(driver().cuMemcpyDtoHAsync_(host, reinterpret_cast<CUdeviceptr>(source), bytes, queue->stream),
                 "copying from the device");
}

bool is_done(Queue* queue) {
  queue->context->use();
  return driver().is_done(driver().cuStreamQuery_(queue->stream), "waiting for the device");
}

Event* create_event(Context* context) {
  context->use();
  auto event = std::make_unique<Event>(context);
  driver().check(driver().cuEventCreate_(&event->event, CU_EVENT_DISABLE_TIMING), "creating an event");
  return event.release();
}

void destroy_event(Event* event) {
  if (event->context->try_use()) driver().cuEventDestroy_(event->event);
  delete event;
}

void record(Queue* queue, Event* event) {
  queue->context->use();
  driver().check(driver().cuEventRecord_(event->event, queue->stream), "recording an event");
}

void wait(Queue* queue, Event* event) {
  queue->context->use();
  driver().check(driver().cuStreamWaitEvent_(queue->stream, event->event, 0), "waiting for an event");
}

bool is_done(Event* event) {
  event->context->use();
  return driver().is_done(driver().cuEventQuery_(event->event), "waiting for an event");
}

std::chrono::milliseconds report_after() { return std::chrono::seconds(30); }
std::string wait_advice() { return {}; }

AccessCheck* access_check() { return nullptr; }

void set_cancel_flag(Queue*, const std::atomic<bool>*) {}

std::string connect(Context* to, Context* from) {
  if (to->device == from->device) return {};
  int reaches = 0;
  driver().check(driver().cuDeviceCanAccessPeer_(&reaches, to->device, from->device), "asking for peer access");
  if (reaches == 0) return fmt::format("cuda: device {} does not reach the memory of {}", to->device, from->device);
  to->use();
  const CUresult result = driver().cuCtxEnablePeerAccess_(from->context, 0);
  if (result != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) driver().check(result, "enabling peer access");
  return {};
}

void copy_peer(Queue* to, void* target, Context* from, const void* source, size_t bytes) {
  to->context->use();
  driver().check(driver().cuMemcpyPeerAsync_(reinterpret_cast<CUdeviceptr>(target), to->context->context,
                                             reinterpret_cast<CUdeviceptr>(source), from->context, bytes, to->stream),
                 "copying between devices");
}

// Notes the names of the kernels that `loaded` has. False where the driver cannot say them.
bool list_functions(Module& module, CUmodule loaded) {
  const Driver& d = driver();
  if (d.cuModuleGetFunctionCount_ == nullptr || d.cuModuleEnumerateFunctions_ == nullptr || d.cuFuncGetName_ == nullptr)
    return false;
  unsigned int count = 0;
  if (d.cuModuleGetFunctionCount_(&count, loaded) != CUDA_SUCCESS) return false;
  std::vector<CUfunction> functions(count);
  if (d.cuModuleEnumerateFunctions_(functions.data(), count, loaded) != CUDA_SUCCESS) return false;
  for (CUfunction function : functions) {
    const char* name = nullptr;
    if (d.cuFuncGetName_(&name, function) != CUDA_SUCCESS || name == nullptr) return false;
    module.homes[name] = loaded;
  }
  return true;
}

void add_code(Module& module, CUmodule loaded) {
  module.loaded.push_back(loaded);
  if (!list_functions(module, loaded)) module.unlisted.push_back(loaded);
}

Module* load_module(Context* context) {
  context->use();
  auto module = std::make_unique<Module>(context);
  for (const EmbeddedFile& image : code_images()) {
    CUmodule loaded = nullptr;
    driver().check(driver().cuModuleLoadData_(&loaded, image.data),
                   fmt::format("loading the kernels of {}", image.name).c_str());
    add_code(*module, loaded);
  }
  return module.release();
}

void unload_module(Module* module) {
  static_cast<void>(module->context->try_use());
  for (CUmodule loaded : module->loaded) driver().cuModuleUnload_(loaded);
  delete module;
}

std::string module_description(const Module*) { return "native kernels"; }
uint32_t wave_size(const Context*) { return 32; }

// Bytes that a block of the kernel wants at the launch (GPU_MEMORY_KERNEL), which it is allowed from here on.
uint32_t launch_memory(CUmodule module, CUfunction function, const std::string& name) {
  const Driver& cuda = driver();
  CUdeviceptr symbol = 0;
  cuda.check(cuda.cuModuleGetGlobal_(&symbol, nullptr, module, (name + "_memory").c_str()), name.c_str());
  uint32_t bytes = 0;
  cuda.check(cuda.cuMemcpyDtoH_(&bytes, symbol, sizeof bytes), name.c_str());
  if (bytes == 0) return 0;
  cuda.check(
      cuda.cuFuncSetAttribute_(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(bytes)),
      fmt::format("giving {} {} bytes of memory a block", name, bytes).c_str());
  return bytes;
}

// Divides a multiprocessor's memory between its blocks and the L1 cache, and returns the number of blocks that run at a
// time. Launches with different divisions do not overlap, so that all kernels have the same one, but for kernels of
// which two blocks do not fit (attention of many tokens). The cache keeps the rest of a sector that a lane reads in
// parts, as the scales of K formats: with the smallest cache a step of eight sequences of Q4_K_M takes 1.27 times as
// long on an H200, and one token 1.05 times.
int divide_memory(CUdevice device, CUfunction function, int threads, uint32_t launch_bytes, const char* name) {
  constexpr int kBlocksBytes = 132 << 10;  // one of the divisions of an H200's 228 KB
  const Driver& cuda = driver();
  int own = 0, blocks = 0;
  cuda.check(cuda.cuFuncGetAttribute_(&own, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function), name);
  own += static_cast<int>(launch_bytes) + attribute(device, CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
  const int most = attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  const int bytes = 2 * own <= kBlocksBytes ? std::min(kBlocksBytes, most) : most;
  const int percent = (100 * bytes + most - 1) / most;
  cuda.check(cuda.cuFuncSetAttribute_(function, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, percent), name);
  cuda.check(cuda.cuOccupancyMaxActiveBlocksPerMultiprocessor_(&blocks, function, threads, launch_bytes), name);
  return own > 0 ? std::min(blocks, bytes / own) : blocks;
}

Function* find_function(Module* module, const char* name) {
  std::unique_ptr<Function>& known = module->functions[name];
  if (known != nullptr) return known.get();
  module->context->use();
  const auto home = module->homes.find(name);
  for (CUmodule loaded : home != module->homes.end() ? std::vector{home->second} : module->unlisted) {
    CUfunction function = nullptr;
    if (driver().cuModuleGetFunction_(&function, loaded, name) != CUDA_SUCCESS) continue;
    int threads = 0;
    driver().check(driver().cuFuncGetAttribute_(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function), name);
    const uint32_t memory = launch_memory(loaded, function, name);
    const int blocks = divide_memory(module->context->device, function, threads, memory, name);
    const int units = attribute(module->context->device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    int virtual_architecture = 0;  // for which it was compiled
    driver().check(driver().cuFuncGetAttribute_(&virtual_architecture, CU_FUNC_ATTRIBUTE_PTX_VERSION, function), name);
    known = std::make_unique<Function>(function, static_cast<uint32_t>(threads), memory,
                                       static_cast<uint32_t>(blocks * units), virtual_architecture >= 90);
    return known.get();
  }
  return nullptr;
}

bool can_compile(Context*) { return !compiler_version().empty(); }

Function* compile_function(Module* module, const std::string& name, const std::string& source) {
  if (Function* known = find_function(module, name.c_str())) return known;
  const CUdevice device = module->context->device;
  const int capability = 10 * attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                         attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  const CodeCache cache(fmt::format("sm_{}", capability), compiler_version(), kernel_sources());
  std::optional<std::vector<char>> code = cache.load(name);
  if (!code) {
    code = compile_text(name, source, capability);
    cache.store(name, *code);
  }
  module->context->use();
  CUmodule loaded = nullptr;
  driver().check(driver().cuModuleLoadData_(&loaded, code->data()),
                 fmt::format("loading the compiled {}", name).c_str());
  add_code(*module, loaded);
  return find_function(module, name.c_str());
}

uint32_t compute_units(const Context* context) {
  return static_cast<uint32_t>(attribute(context->device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
}
uint32_t block_threads(const Function* function) { return function->threads; }
uint32_t resident_blocks(const Function* function) { return function->resident_blocks; }

namespace {

CUlaunchConfig launch_config(const Function& function, Dim grid) {
  CUlaunchConfig config = {};
  config.gridDimX = grid.x;
  config.gridDimY = grid.y;
  config.gridDimZ = grid.z;
  config.blockDimX = function.threads;
  config.blockDimY = config.blockDimZ = 1;
  config.sharedMemBytes = function.memory;
  return config;
}

CUlaunchAttribute cluster_attribute(uint32_t blocks) {
  CUlaunchAttribute cluster = {};
  cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  cluster.value.clusterDim.x = cluster.value.clusterDim.y = 1;
  cluster.value.clusterDim.z = blocks;
  return cluster;
}

}  // namespace

uint32_t resident_clusters(const Function* function, uint32_t blocks) {
  if (!function->clusters) return 0;
  CUlaunchAttribute cluster = cluster_attribute(blocks);
  CUlaunchConfig config = launch_config(*function, {1, 1, blocks});
  config.attrs = &cluster;
  config.numAttrs = 1;
  int count = 0;
  const CUresult result = driver().cuOccupancyMaxActiveClusters_(&count, function->function, &config);
  return result == CUDA_SUCCESS ? static_cast<uint32_t>(count) : 0;
}

// A CUDA grid has 2^31 - 1 blocks along x, so the limit is never met with blocks of 32 threads and more.
uint64_t most_threads_along_x() { return uint64_t{0x7fffffff} * 32; }

void launch(Queue* queue, const Function* function, Dim grid, const void* args, size_t, uint32_t cluster) {
  queue->context->use();
  void* parameters[] = {const_cast<void*>(args)};
  CUlaunchAttribute attributes[2] = {};
  CUlaunchConfig config = launch_config(*function, grid);
  config.hStream = queue->stream;
  config.attrs = attributes;
  // A kernel may begin before the one ahead has ended: see wait_for_previous() in kernels/gpu/gpu.h.
  if (queue->context->overlaps) {
    CUlaunchAttribute& overlap = attributes[config.numAttrs++];
    overlap.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    overlap.value.programmaticStreamSerializationAllowed = 1;
  }
  if (cluster > 1) attributes[config.numAttrs++] = cluster_attribute(cluster);
  driver().check(driver().cuLaunchKernelEx_(&config, function->function, parameters, nullptr), "launching a kernel");
}

std::vector<std::string> product_libraries(Context*) { return {kCublas}; }

bool trusts_product_libraries(Context*) { return true; }

std::string library_problem(Context* context, const std::string& library) {
  return library_version(context, library).empty() ? "it is missing or does not work on this device" : "";
}

std::string library_version(Context* context, const std::string& library) {
  context->use();
  return library == kCublas ? cublas_version() : library == kCudnn ? cudnn_version() : "";
}

Gemm* make_gemm(Context* context, const std::string& library, const GemmShape& shape) {
  if (library != kCublas) return nullptr;
  context->use();
  {
    const std::lock_guard lock(context->workspace_mutex);
    if (context->products == nullptr) context->products = open_cublas();
    if (context->products == nullptr) return nullptr;
    if (context->workspace == 0 && !context->workspace_taken &&
        driver().cuMemAlloc_(&context->workspace, kCublasWorkspace) != CUDA_SUCCESS) {
      context->workspace = 0;
      return nullptr;
    }
  }
  auto product = context->products->make(shape);
  return product == nullptr ? nullptr : new Gemm{std::move(product)};
}

void destroy_gemm(Gemm* product) { delete product; }

namespace {

// The first queue takes the one that was there when its product was made.
void* workspace_of(Queue& queue) {
  if (queue.workspace == 0) {
    const std::lock_guard lock(queue.context->workspace_mutex);
    queue.workspace = std::exchange(queue.context->workspace, 0);
    queue.context->workspace_taken = queue.context->workspace_taken || queue.workspace != 0;
  }
  if (queue.workspace == 0) {
    driver().check(driver().cuMemAlloc_(&queue.workspace, kCublasWorkspace), "allocating a library's workspace");
  }
  return reinterpret_cast<void*>(queue.workspace);
}

}  // namespace

void multiply(Queue* queue, const Gemm* product, const GemmOperands& operands) {
  queue->context->use();
  product->product->run(queue->stream, operands, workspace_of(*queue));
}

std::vector<std::string> convolution_libraries(Context*) { return {kCudnn}; }
bool trusts_convolution_libraries(Context*) { return true; }

Convolution* make_convolution(Context* context, const std::string& library, const ConvShape& shape, bool search) {
  if (library != kCudnn) return nullptr;
  context->use();
  if (!std::exchange(context->convolutions_opened, true)) context->convolutions = open_cudnn();
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
std::string rank_sum_problem() { return {}; }
void* allocate_shared(Context* context, size_t bytes) { return allocate(context, bytes); }
uint64_t ticks_per_second() { return uint64_t{1000} * 1000 * 1000; }

GraphRules graph_rules(const Context*) { return {.most = 64, .spare = 0, .tested = false, .off = {}}; }

void begin_capture(Queue* queue) {
  queue->context->use();
  driver().check(driver().cuStreamBeginCapture_(queue->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                 "capturing a graph");
}

Graph* end_capture(Queue* queue) {
  CUgraph captured = nullptr;
  driver().check(driver().cuStreamEndCapture_(queue->stream, &captured), "capturing a graph");
  auto graph = std::make_unique<Graph>();
  const CUresult result = driver().cuGraphInstantiateWithFlags_(&graph->exec, captured, 0);
  driver().cuGraphDestroy_(captured);
  driver().check(result, "making a graph");
  return graph.release();
}

void abandon_capture(Queue* queue) {
  CUgraph captured = nullptr;
  driver().cuStreamEndCapture_(queue->stream, &captured);
  if (captured != nullptr) driver().cuGraphDestroy_(captured);
}

void replay(Queue* queue, Graph* graph) {
  queue->context->use();
  driver().check(driver().cuGraphLaunch_(graph->exec, queue->stream), "launching a graph");
}

void destroy_graph(Graph* graph) {
  driver().cuGraphExecDestroy_(graph->exec);
  delete graph;
}

}  // namespace gabbro::gpu::api
