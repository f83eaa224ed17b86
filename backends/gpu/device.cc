#include "backends/gpu/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "backends/common/dequantized.h"
#include "backends/gpu/op_table.h"
#include "backends/gpu/pack.h"

namespace gabbro::gpu {
namespace {

std::vector<const void*> signature_of(const abi::Launch* launches, int32_t count) {
  std::vector<const void*> signature;
  for (int32_t i = 0; i < count; ++i) {
    const abi::Launch& launch = launches[i];
    signature.push_back(launch.kernel);
    signature.push_back(launch.scratch);
    for (int32_t k = 0; k < launch.input_count; ++k) signature.push_back(launch.inputs[k].data);
    for (int32_t k = 0; k < launch.output_count; ++k) signature.push_back(launch.outputs[k].data);
  }
  return signature;
}

// FNV-1a over the words.
uint64_t hash_of(const std::vector<const void*>& signature) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const void* word : signature) hash = (hash ^ reinterpret_cast<uintptr_t>(word)) * 0x100000001b3;
  return hash;
}

std::shared_ptr<uint32_t> make_counters(api::Context* context) {
  void* memory = api::allocate(context, kCounters * sizeof(uint32_t));
  if (memory == nullptr) throw ApiError(abi::StatusCode::kOutOfMemory, "no memory for the device's counters");
  return {static_cast<uint32_t*>(memory), [context](uint32_t* counters) { api::release(context, counters); }};
}

// Key under which measurements are valid: chip or partition, driver, these kernels, and the libraries.
std::string describe_for_tuning(int32_t index, api::Context* context) {
  abi::DeviceFacts facts{};
  api::device_facts(index, facts);
  std::string text = fmt::format("{} {}, {} units", facts.architecture, facts.name, facts.compute_units);
  for (const std::string_view version : {facts.driver, facts.runtime}) {
    if (!version.empty()) text += fmt::format(", {}", version);
  }
  text += ", gabbro " GABBRO_VERSION;
  for (const std::string& library : api::product_libraries(context)) {
    const std::string version = api::library_version(context, library);
    if (!version.empty()) text += fmt::format(", {} {}", library, version);
  }
  return text;
}

}  // namespace

const api::Function* MakeContext::function_if_any(const std::string& name) const {
  return api::find_function(module_, name.c_str());
}

bool MakeContext::can_compile() const {
  const char* fuse = std::getenv("GABBRO_FUSE");
  return (fuse == nullptr || std::string_view(fuse) != "0") && api::can_compile(context_);
}

const api::Function* MakeContext::compiled(const std::string& name, const std::string& source) const {
  return api::compile_function(module_, name, source);
}

const api::Function* MakeContext::function(const std::string& name) const {
  const api::Function* function = function_if_any(name);
  if (function == nullptr)
    throw ApiError(abi::StatusCode::kFailed, "the device's code object has no kernel '" + name + "'");
  return function;
}

std::shared_ptr<const api::Gemm> MakeContext::product(const std::string& library, const api::GemmShape& shape) const {
  api::Gemm* product = api::make_gemm(context_, library, shape);
  if (product == nullptr) return nullptr;
  return {product, [](const api::Gemm* p) { api::destroy_gemm(const_cast<api::Gemm*>(p)); }};
}

std::shared_ptr<const api::Convolution> MakeContext::convolution(const std::string& library,
                                                                 const api::ConvShape& shape, bool search) const {
  api::Convolution* made = api::make_convolution(context_, library, shape, search);
  if (made == nullptr) return nullptr;
  return {made, [](const api::Convolution* c) { api::destroy_convolution(const_cast<api::Convolution*>(c)); }};
}

GpuDevice::GpuDevice(int32_t index, const abi::DeviceOptions& options)
    : index_(index),
      context_(api::open(index)),
      counters_(make_counters(context_.get())),
      index_faults_(context_.get()),
      tuning_(options.tuning, [index, context = context_.get()] { return describe_for_tuning(index, context); }),
      pool_(context_.get()),
      pinned_(context_.get(), {api::allocate_pinned, api::release_pinned}) {
  module_ = api::load_module(context_.get());
  queue_ = api::create_queue(context_.get());
  index_faults_.reset(queue_);
  const std::vector<uint32_t> zeros(kCounters);
  api::copy_to_device(queue_, counters_.get(), zeros.data(), zeros.size() * sizeof(uint32_t));
}

GpuDevice::~GpuDevice() {
  forget_graphs();
  try {
    api::synchronize(queue_);
  } catch (const ApiError&) {
    // The device failed before; what is left is to free what can be freed.
  }
  peers_.reset();
  api::destroy_queue(queue_);
  api::unload_module(module_);
}

// Work of other threads must not enter a graph that is being captured.
void GpuDevice::copy_to_device(void* target, const void* host, size_t bytes) {
  const std::lock_guard lock(mutex_);
  api::copy_to_device(queue_, target, host, bytes);
  if (pinned_.holds(host)) api::synchronize(queue_);  // of other memory the runtime has made a copy
}

void GpuDevice::copy_to_host(void* host, const void* source, size_t bytes) {
  const std::lock_guard lock(mutex_);
  api::copy_to_host(queue_, host, source, bytes);
  throw_bad_index();
}

void GpuDevice::synchronize() {
  const std::lock_guard lock(mutex_);
  api::synchronize(queue_);
  throw_bad_index();
}

// After a wait for the queue, which is held.
void GpuDevice::throw_bad_index() {
  if (const auto message = index_faults_.take(queue_)) throw ApiError(abi::StatusCode::kBadIndex, *message);
}

void GpuDevice::copy_from(GpuDevice& from, void* target, const void* source, size_t bytes) {
  with_peer(from, [&](PeerCopies& peers, const PeerEnd& end) {
    peers.copy(target, end, source, bytes);
    from.throw_bad_index();
    throw_bad_index();
  });
}

void GpuDevice::copy_staged_from(GpuDevice& from, void* target, const void* source, size_t bytes) {
  with_peer(from, [&](PeerCopies& peers, const PeerEnd& end) { peers.copy_staged(target, end, source, bytes); });
}

PeerCopies::Route GpuDevice::route_from(GpuDevice& from) {
  return with_peer(from, [](PeerCopies& peers, const PeerEnd& end) { return peers.route_from(end); });
}

size_t GpuDevice::packed_bytes(DType dtype, int64_t rows, int64_t columns) const {
  return gpu::packed_bytes(dtype, rows, columns);
}

void GpuDevice::pack(DType dtype, int64_t rows, int64_t columns, const void* host, void* target) {
  const std::vector<std::byte> packed = pack_matrix(dtype, rows, columns, host);
  copy_to_device(target, packed.data(), packed.size());
}

std::unique_ptr<Kernel> GpuDevice::make_kernel(const abi::KernelRequest& wanted) const {
  const abi::StoredRequest stored(wanted, has_kernels);
  const abi::KernelRequest& request = stored.get();
  const std::lock_guard lock(making_);
  const MakeContext context(context_.get(), module_, api::wave_size(context_.get()), counters_.get(), tuning_,
                            index_faults_);
  for (const OpEntry& entry : op_table()) {
    if (!entry.has(request.op)) continue;
    if (auto kernel = entry.make(request, context)) return kernel;
  }
  return nullptr;
}

void GpuDevice::enqueue(const abi::Launch* launches, int32_t count) {
  const Launcher run{queue_};
  for (int32_t i = 0; i < count; ++i) static_cast<const Kernel*>(launches[i].kernel)->enqueue(launches[i], run);
}

// Whether the launches went out as a graph.
bool GpuDevice::replay(const abi::Launch* launches, int32_t count) {
  if (count < kGraphLaunches) return false;
  std::vector<const void*> signature = signature_of(launches, count);
  Recorded& recorded = recorded_[hash_of(signature)];
  recorded.used = ++clock_;
  if (recorded.signature != signature) {  // new, or another list with the same hash
    if (recorded.graph != nullptr) api::destroy_graph(recorded.graph);
    recorded.graph = nullptr;
    recorded.signature = std::move(signature);
    if (recorded_.size() > kMaxGraphs) {
      const auto oldest = std::ranges::min_element(recorded_, {}, [](const auto& entry) { return entry.second.used; });
      if (oldest->second.graph != nullptr) api::destroy_graph(oldest->second.graph);
      recorded_.erase(oldest);
    }
    return false;
  }
  if (recorded.graph == nullptr) {
    if (!api::begin_capture(queue_)) return false;
    enqueue(launches, count);
    recorded.graph = api::end_capture(queue_);
  }
  api::replay(queue_, recorded.graph);
  return true;
}

void GpuDevice::forget_graphs() {
  const std::lock_guard lock(mutex_);
  forget_graphs_locked();
}

void GpuDevice::forget_graphs_locked() {
  for (auto& [hash, recorded] : recorded_) {
    if (recorded.graph != nullptr) api::destroy_graph(recorded.graph);
  }
  recorded_.clear();
}

bool GpuDevice::execute(const abi::Launch* launches, int32_t count, const std::atomic<bool>* cancel) {
  const std::lock_guard lock(mutex_);
  const auto canceled = [&] { return cancel != nullptr && cancel->load(std::memory_order_relaxed); };
  if (canceled()) return false;
  if (replay(launches, count)) return true;
  // A list counts as run once only when all of it was: a kernel's first launch may have to wait for the queue, which
  // nothing that is captured may.
  struct Attempt {
    GpuDevice& device;
    bool whole = false;
    ~Attempt() {
      api::set_cancel_flag(device.queue_, nullptr);
      if (!whole) device.forget_graphs_locked();
    }
  } attempt{*this};
  api::set_cancel_flag(queue_, cancel);
  for (int32_t i = 0; i < count && !canceled(); ++i) enqueue(launches + i, 1);
  return attempt.whole = !canceled();
}

}  // namespace gabbro::gpu
