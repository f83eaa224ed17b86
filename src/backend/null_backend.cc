// The null backend accepts every op, hands out host memory and runs nothing. Its `execute` checks what a plan promises:
// every pointer is set, and no launch writes over one of its inputs unless the op writes a state in place.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>

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

Status allocate(abi::Device*, size_t bytes, void** pointer) {
  *pointer = std::aligned_alloc(64, (bytes + 127) / 64 * 64);
  return *pointer != nullptr ? Status{} : fail(StatusCode::kOutOfMemory, "host memory");
}

Status copy(abi::Device*, abi::Stream*, void* target, const void* source, size_t bytes) {
  std::memcpy(target, source, bytes);
  return {};
}

// "null", and of the fused op `elementwise` its steps: "elementwise exp add". Lives as long as the process.
const char* implementation_of(const abi::KernelRequest& request) {
  if (std::strcmp(request.op, "elementwise") != 0) return "null";
  std::string text = request.op;
  for (const abi::Attribute& attribute : std::span(request.attributes, static_cast<size_t>(request.attribute_count))) {
    if (std::strcmp(attribute.name, "steps") != 0) continue;
    for (std::string_view rest = attribute.text; !rest.empty();) {
      text.append(" ").append(rest.substr(0, rest.find(' ')));
      const size_t end = rest.find("; ");
      rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 2);
    }
  }
  static std::mutex mutex;
  static std::set<std::string> known;
  const std::lock_guard lock(mutex);
  return known.insert(std::move(text)).first->c_str();
}

Status find_kernel(abi::Device*, const abi::KernelRequest* request, abi::BoundKernel* kernel) {
  *kernel = {
      .handle = request->op, .scratch_bytes = 0, .implementation = implementation_of(*request), .bytes = 0, .flops = 0};
  return {};
}

Status execute(abi::Device*, abi::Stream*, const abi::Launch* launches, int32_t count,
               const std::atomic<bool>* cancel) {
  if (cancel != nullptr && cancel->load()) return fail(StatusCode::kCanceled, "cancelled");
  for (const abi::Launch& launch : std::span(launches, static_cast<size_t>(count))) {
    const auto* op = static_cast<const char*>(launch.kernel);
    const bool in_place = std::strstr(op, "kv_write") != nullptr || std::strcmp(op, "attention_step") == 0 ||
                          std::strcmp(op, "scatter") == 0;
    for (const abi::TensorView& output : std::span(launch.outputs, static_cast<size_t>(launch.output_count))) {
      if (output.data == nullptr) return fail(StatusCode::kFailed, "a launch has an output without memory");
      for (const abi::TensorView& input : std::span(launch.inputs, static_cast<size_t>(launch.input_count))) {
        if (input.data == nullptr) return fail(StatusCode::kFailed, "a launch has an input without memory");
        if (input.data == output.data && !in_place)
          return fail(StatusCode::kFailed, "a launch writes over its own input");
      }
    }
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
    .allocate = allocate,
    .free = [](abi::Device*, void* pointer) { std::free(pointer); },
    .copy_to_device = copy,
    .copy_to_host = copy,
    .create_stream =
        [](abi::Device*, abi::Stream** stream) {
          *stream = nullptr;
          return Status{};
        },
    .destroy_stream = [](abi::Device*, abi::Stream*) {},
    .synchronize = [](abi::Device*, abi::Stream*) { return Status{}; },
    .packed_bytes = [](abi::Device*, DType, int64_t, int64_t) { return size_t{0}; },
    .pack = [](abi::Device*, DType, int64_t, int64_t, const void*,
               void*) { return fail(StatusCode::kUnsupported, "pack"); },
    .find_kernel = find_kernel,
    .release_kernel = [](abi::Device*, const void*) {},
    .execute = execute,
};

}  // namespace

const abi::Backend* null_backend() { return &kBackend; }

}  // namespace gabbro
