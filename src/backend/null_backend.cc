// The null backend accepts every op without knowing it, hands out host memory and runs nothing. Its `execute`
// checks a plan's promises: every pointer is set, and a launch overwrites only the inputs that its request
// names.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/backend/registry.h"

namespace gabbro {
namespace {

using abi::Status;
using abi::StatusCode;

Status fail(StatusCode code, const char* message) {
  Status status{.code = code};
  std::snprintf(status.message, sizeof(status.message), "%s", message);
  return status;
}

Status facts(int32_t, abi::DeviceFacts* facts) {
  *facts = {};
  std::snprintf(facts->name, sizeof(facts->name), "null device");
  std::snprintf(facts->id, sizeof(facts->id), "null");
  facts->usable = true;
  facts->host_accessible = true;
  return {};
}

Status open(int32_t, const abi::DeviceOptions*, abi::Device** device) {
  static char instance;
  *device = reinterpret_cast<abi::Device*>(&instance);
  return {};
}

Status allocate(abi::Device*, abi::Stream*, size_t bytes, void** pointer) {
  *pointer = std::aligned_alloc(64, (bytes + 127) / 64 * 64);
  return *pointer != nullptr ? Status{} : fail(StatusCode::kOutOfMemory, "host memory");
}

Status copy(abi::Device*, abi::Stream*, void* target, const void* source, size_t bytes) {
  std::memcpy(target, source, bytes);
  return {};
}

// "null", and the attributes that are texts: "null, steps: exp 0". Lives as long as the process, as the next.
const char* implementation_of(const abi::KernelRequest& request) {
  std::string text = "null";
  for (const abi::Attribute& attribute : std::span(request.attributes, static_cast<size_t>(request.attribute_count))) {
    if (attribute.kind == abi::AttributeKind::kText)
      text.append(", ").append(attribute.name).append(": ").append(attribute.text);
  }
  static std::mutex mutex;
  static std::set<std::string> known;
  const std::lock_guard lock(mutex);
  return known.insert(std::move(text)).first->c_str();
}

using Aliases = std::vector<int32_t>;  // by output, as in the request

const Aliases* aliases_of(const abi::KernelRequest& request) {
  Aliases aliases(static_cast<size_t>(request.output_count), -1);
  if (request.aliases != nullptr) std::copy_n(request.aliases, aliases.size(), aliases.begin());
  static std::mutex mutex;
  static std::set<Aliases> known;
  const std::lock_guard lock(mutex);
  return &*known.insert(std::move(aliases)).first;
}

Status find_kernel(abi::Device*, const abi::KernelRequest* request, abi::BoundKernel* kernel) {
  *kernel = {.handle = aliases_of(*request),
             .scratch_bytes = 0,
             .implementation = implementation_of(*request),
             .bytes = 0,
             .flops = 0};
  return {};
}

// Null, or what is wrong with the launch.
const char* fault_of(const abi::Launch& launch) {
  const auto& aliases = *static_cast<const Aliases*>(launch.kernel);
  const std::span inputs(launch.inputs, static_cast<size_t>(launch.input_count));
  for (const abi::TensorView& input : inputs) {
    if (input.data == nullptr) return "a launch has an input without memory";
  }
  for (size_t i = 0; i < static_cast<size_t>(launch.output_count); ++i) {
    void* const output = launch.outputs[i].data;
    if (output == nullptr) return "a launch has an output without memory";
    const void* const declared = aliases[i] < 0 ? nullptr : inputs[static_cast<size_t>(aliases[i])].data;
    if (declared != nullptr && declared != output) return "an output is not in the memory of the input it aliases";
    for (const abi::TensorView& input : inputs) {
      if (input.data == output && output != declared) return "a launch writes over its own input";
    }
  }
  return nullptr;
}

Status execute(abi::Device*, abi::Stream*, const abi::Launch* launches, int32_t count,
               const std::atomic<bool>* cancel) {
  if (cancel != nullptr && cancel->load()) return fail(StatusCode::kCanceled, "cancelled");
  for (const abi::Launch& launch : std::span(launches, static_cast<size_t>(count))) {
    if (const char* fault = fault_of(launch)) return fail(StatusCode::kFailed, fault);
  }
  return {};
}

constexpr abi::Backend kBackend = {
    .abi_version = abi::kVersion,
    .name = "null",
    .score = -1,
    .device_count = [] { return int32_t{1}; },
    .device_facts = facts,
    .open = open,
    .close = [](abi::Device*) {},
    .create_stream =
        [](abi::Device*, abi::Stream** stream) {
          *stream = nullptr;
          return Status{};
        },
    .destroy_stream = [](abi::Device*, abi::Stream*) {},
    .synchronize = [](abi::Device*, abi::Stream*) { return Status{}; },
    .create_event =
        [](abi::Device*, abi::Event** event) {
          *event = nullptr;
          return Status{};
        },
    .destroy_event = [](abi::Device*, abi::Event*) {},
    .record = [](abi::Device*, abi::Stream*, abi::Event*) { return Status{}; },
    .wait = [](abi::Device*, abi::Stream*, abi::Event*) { return Status{}; },
    .synchronize_event = [](abi::Device*, abi::Event*) { return Status{}; },
    .allocate = allocate,
    .free = [](abi::Device*, abi::Stream*, void* pointer) { std::free(pointer); },
    .copy_to_device = copy,
    .copy_to_host = copy,
    .packed_bytes = [](abi::Device*, DType, int64_t, int64_t) { return size_t{0}; },
    .pack = [](abi::Device*, abi::Stream*, const abi::PackRequest*, const void*,
               void*) { return fail(StatusCode::kUnsupported, "pack"); },
    .find_kernel = find_kernel,
    .release_kernel = [](abi::Device*, const void*) {},
    .execute = execute,
};

}  // namespace

const abi::Backend* null_backend() { return &kBackend; }

}  // namespace gabbro
