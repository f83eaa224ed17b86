#include "backends/gpu/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "backends/common/dequantized.h"
#include "backends/common/request.h"
#include "backends/gpu/kernel_table.h"
#include "backends/gpu/launch_names.h"
#include "backends/gpu/pack.h"
#include "backends/gpu/wait.h"

namespace gabbro::gpu {
namespace {

// Chip or partition, and driver.
std::string describe_device(int32_t index) {
  abi::DeviceFacts facts{};
  api::device_facts(index, facts);
  std::string text = fmt::format("{} {}, {} units", facts.architecture, facts.name, facts.compute_units);
  for (const std::string_view version : {facts.driver, facts.runtime}) {
    if (!version.empty()) text += fmt::format(", {}", version);
  }
  return text;
}

// Key under which measurements are valid: the device, these kernels, and the libraries.
std::string describe_for_tuning(int32_t index, api::Context* context) {
  std::string text = describe_device(index) + ", gabbro " GABBRO_VERSION;
  for (const std::string& library : api::product_libraries(context)) {
    const std::string version = api::library_version(context, library);
    if (!version.empty()) text += fmt::format(", {} {}", library, version);
  }
  return text;
}

const Chip& chip_of(int32_t index) {
  abi::DeviceFacts facts{};
  api::device_facts(index, facts);
  return find_chip(facts.architecture);
}

// The pinned memory of all opened devices: the runtimes let each device copy that of the others.
struct PinnedPools {
  std::mutex mutex;
  std::vector<const Pool*> pools;

  static PinnedPools& shared() {
    static PinnedPools all;
    return all;
  }
};

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
      index_faults_(context_.get()),
      chip_(chip_of(index)),
      tuning_(options.tuning, [index, context = context_.get()] { return describe_for_tuning(index, context); }),
      graph_policy_(api::graph_rules(context_.get()), graph_source()),
      compute_(std::make_unique<GpuStream>(context_.get(), graph_policy_)),
      pool_(context_.get(), {api::allocate, api::release}, compute_.get()),
      pinned_(context_.get(), {api::allocate_pinned, api::release_pinned}, nullptr),
      ranges_(context_.get(), pool_),
      staging_(context_.get()) {
  module_ = api::load_module(context_.get());
  packer_ = std::make_unique<Packer>(context_.get());
  index_faults_.reset(compute_->queue());
  pool_.set_reclaim([this] { return drop_graphs(); });
  PinnedPools& all = PinnedPools::shared();
  const std::lock_guard lock(all.mutex);
  all.pools.push_back(&pinned_);
}

GraphPolicy::Source GpuDevice::graph_source() {
  return {.device = [this] { return describe_device(index_); },
          .file = [this] { return tuning_.file(); },
          .check =
              [this] {
                const api::Function* step = nullptr;
                {
                  const std::lock_guard lock(making_);
                  step = api::find_function(module_, "graph_step");
                }
                if (step == nullptr)
                  throw ApiError(abi::StatusCode::kFailed, "the device's code object has no kernel 'graph_step'");
                return check_graphs(context_.get(), step);
              }};
}

bool GpuDevice::drop_graphs() {
  size_t dropped = compute_->drop_graphs();
  const std::lock_guard lock(streams_mutex_);
  for (const auto& other : streams_) dropped += other->drop_graphs();
  return dropped > 0;
}

GpuDevice::~GpuDevice() {
  {
    PinnedPools& all = PinnedPools::shared();
    const std::lock_guard lock(all.mutex);
    std::erase(all.pools, &pinned_);
  }
  streams_.clear();
  packer_.reset();
  compute_->drain();
  if (outgoing_ != nullptr) {
    try {
      api::synchronize(outgoing_);
    } catch (const ApiError&) {
      // The device failed: it copies nothing more.
    }
    api::destroy_queue(outgoing_);
  }
  peers_.reset();
  api::unload_module(module_);
}

// Unmapping does not wait for work that is under way.
void GpuDevice::release_range(void* range) {
  compute_->drain();
  ranges_.release(range);
}

GpuStream* GpuDevice::create_stream() {
  auto stream = std::make_unique<GpuStream>(context_.get(), graph_policy_);
  const std::lock_guard lock(streams_mutex_);
  return streams_.emplace_back(std::move(stream)).get();
}

void GpuDevice::destroy_stream(GpuStream* stream) {
  std::unique_ptr<GpuStream> own;
  {
    const std::lock_guard lock(streams_mutex_);
    const auto found = std::ranges::find(streams_, stream, &std::unique_ptr<GpuStream>::get);
    if (found == streams_.end()) return;
    own = std::move(*found);
    streams_.erase(found);
  }
  own->drain();
  pool_.forget_stream(own.get());
}

void GpuDevice::record(abi::Stream* on, api::Event* event) {
  GpuStream& own = stream(on);
  const std::lock_guard lock(own.mutex());
  api::record(own.queue(), event);
}

void GpuDevice::wait(abi::Stream* on, api::Event* event) {
  GpuStream& own = stream(on);
  const std::lock_guard lock(own.mutex());
  api::wait(own.queue(), event);
}

bool GpuDevice::is_pinned(const void* host) const {
  if (pinned_.holds(host)) return true;
  PinnedPools& all = PinnedPools::shared();
  const std::lock_guard lock(all.mutex);
  return std::ranges::any_of(all.pools, [&](const Pool* pool) { return pool != &pinned_ && pool->holds(host); });
}

void GpuDevice::copy_to_device(abi::Stream* on, void* target, const void* host, size_t bytes) {
  GpuStream& own = stream(on);
  const std::lock_guard lock(own.mutex());
  note_launch("a copy to the device");
  if (bytes <= Staging::kDirectBytes || is_pinned(host)) return api::copy_to_device(own.queue(), target, host, bytes);
  staging_.copy_to_device(own.queue(), target, host, bytes);
}

void GpuDevice::copy_to_host(abi::Stream* on, void* host, const void* source, size_t bytes) {
  GpuStream& own = stream(on);
  std::unique_lock lock(own.mutex());
  note_launch("a copy to the host");
  if (is_pinned(host)) return api::copy_to_host(own.queue(), host, source, bytes);
  if (bytes <= Staging::kDirectBytes) {
    api::copy_to_host(own.queue(), host, source, bytes);
    finish(own, lock, nullptr);
  } else {
    finish(own, lock, nullptr);  // what may take long, without the lock
    own.wait_by([&] { staging_.copy_to_host(own.queue(), host, source, bytes); });
  }
  throw_bad_index(own.queue());
}

void GpuDevice::finish(GpuStream& stream, std::unique_lock<std::mutex>& held, const std::atomic<bool>* cancel) {
  stream.wait_by([&] {
    Waiter waiter(cancel);
    while (!waiter.is_long()) {
      if (api::is_done(stream.queue())) return;
      waiter.pause();
    }
    const auto destroy = [](api::Event* event) { api::destroy_event(event); };
    const std::unique_ptr<api::Event, decltype(destroy)> end(create_event(), destroy);
    api::record(stream.queue(), end.get());
    held.unlock();
    while (!api::is_done(end.get())) waiter.pause();
    held.lock();
  });
}

void GpuDevice::synchronize_stream(abi::Stream* on, const std::atomic<bool>* cancel) {
  GpuStream& own = stream(on);
  std::unique_lock lock(own.mutex());
  finish(own, lock, cancel);
  throw_bad_index(own.queue());
}

void GpuDevice::synchronize_event(api::Event* event, const std::atomic<bool>* cancel) {
  Waiter waiter(cancel);
  while (!api::is_done(event)) waiter.pause();
  const std::lock_guard lock(compute_->mutex());
  throw_bad_index(compute_->queue());
}

// After a wait; the queue is held.
void GpuDevice::throw_bad_index(api::Queue* queue) {
  if (const auto message = index_faults_.take(queue)) throw ApiError(abi::StatusCode::kBadIndex, *message);
}

void GpuDevice::copy_from(GpuDevice& from, abi::Stream* on, const PeerCopy& copy) {
  const auto known = [&]() -> std::optional<bool> {
    const std::lock_guard lock(peers_mutex_);
    const PeerCopies::Route* const route = peers_ != nullptr ? peers_->known_route(from.index_) : nullptr;
    return route != nullptr ? std::optional(route->direct) : std::nullopt;
  };
  if (copy.bytes == 0) return;
  const std::optional<bool> direct = known();
  if (!(direct ? *direct : route_from(from).direct)) return copy_staged_from(from, on, copy);
  GpuStream& own = stream(on);
  const std::lock_guard lock(own.mutex());
  note_launch("a copy between devices");
  PeerCopies::enqueue_direct(own.queue(), from.context(), copy);
}

api::Queue* GpuDevice::outgoing() {
  if (outgoing_ == nullptr) outgoing_ = api::create_queue(context_.get());
  return outgoing_;
}

void GpuDevice::copy_staged_from(GpuDevice& from, abi::Stream* on, const PeerCopy& copy) {
  GpuStream& own = stream(on);
  const std::scoped_lock lock(own.mutex(), peers_mutex_, from.outgoing_mutex_);
  note_launch("a copy between devices");
  if (peers_ == nullptr) peers_ = std::make_unique<PeerCopies>(end());
  peers_->enqueue_staged(own.queue(), {from.index_, from.context(), from.outgoing()}, copy);
}

PeerCopies::Route GpuDevice::route_from(GpuDevice& from) {
  return with_peer(from, [](PeerCopies& peers, const PeerEnd& end) { return peers.route_from(end); });
}

size_t GpuDevice::packed_bytes(DType dtype, int64_t rows, int64_t columns) const {
  return gpu::packed_bytes(dtype, rows, columns);
}

void GpuDevice::pack(abi::Stream* on, const abi::PackRequest& request, const void* source, void* target) {
  const api::Function* function = nullptr;
  {
    const std::lock_guard lock(making_);
    function = api::find_function(module_, Packer::kernel_name(request.dtype).c_str());
  }
  GpuStream& own = stream(on);
  const std::lock_guard lock(own.mutex());
  note_launch("the packing of a matrix");
  packer_->pack(own.queue(), function, request, source, target);
}

std::unique_ptr<Kernel> GpuDevice::make_kernel(const abi::KernelRequest& wanted) const {
  const abi::StoredRequest stored(wanted, has_kernels);
  const abi::KernelRequest& request = stored.get();
  const std::lock_guard lock(making_);
  const MakeContext context(context_.get(), module_, api::wave_size(context_.get()), chip_, tuning_, index_faults_);
  const bool in_place = abi::has_any_alias(request);
  for (const KernelEntry& entry : kernel_table()) {
    if (!entry.has(request.op) || entry.in_place != in_place) continue;
    if (auto kernel = entry.make(request, context)) {
      kernel->launch_name = keep_name(kernel->implementation);
      return kernel;
    }
  }
  return nullptr;
}

const api::Function* GpuDevice::function(const std::string& name) const {
  const std::lock_guard lock(making_);
  return MakeContext(context_.get(), module_, api::wave_size(context_.get()), chip_, tuning_, index_faults_)
      .function(name);
}

void GpuDevice::forget_graphs_of(const void* kernel) {
  compute_->forget_graphs_of(kernel);
  const std::lock_guard lock(streams_mutex_);
  for (const auto& other : streams_) other->forget_graphs_of(kernel);
}

}  // namespace gabbro::gpu
