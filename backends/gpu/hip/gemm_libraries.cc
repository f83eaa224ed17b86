#include "backends/gpu/hip/gemm_libraries.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "backends/gpu/hip/code_target.h"
#include "backends/gpu/hip/helper_process.h"
#include "backends/gpu/hip/product_words.h"
#include "backends/gpu/hip/progress.h"
#include "backends/gpu/hip/runtime.h"
#include "backends/gpu/hip/task.h"

namespace gabbro::gpu::hip {
namespace {

constexpr std::chrono::seconds kCheckLimit{120};  // hipBLASLt reads up to a GB of kernels from a slow disk

struct Known {
  std::string_view option;
  const char* name;
  std::shared_ptr<ProductLibrary> (*make)();
};
constexpr Known kKnown[] = {{"hipblaslt", "hipBLASLt", make_hipblaslt}, {"rocblas", "rocBLAS", make_rocblas}};

// A product that each library takes: what decides whether it is used at all.
constexpr GemmShape kFirstShape = {
    .rows = 48, .tokens = 32, .depth = 64, .w = {.step = 64}, .x = {.step = 64}, .y_step = 48, .alpha = 0.5f};

// Stores past 2 GiB are dropped by some releases for gfx950 (ROCm/hipBLASLt#2299).
constexpr int64_t kTooManyBytes = int64_t{1} << 31;

LibraryVerdicts verdicts_for(int device, const std::string& architecture) {
  const hipDeviceProp_t properties = runtime().properties(device);
  return {fmt::format("{} {}, {} units, HIP {}", architecture, properties.name, properties.multiProcessorCount,
                      runtime().version()),
          TuningFile(TuningFile::default_path())};
}

}  // namespace

std::shared_ptr<ProductLibrary> make_product_library(std::string_view name) {
  const auto known = std::ranges::find(kKnown, name, [](const Known& own) { return std::string_view(own.name); });
  return known == std::end(kKnown) ? nullptr : known->make();
}

ProductLibraries::ProductLibraries(int device, const std::string& architecture)
    : device_(device), target_(target_of(architecture)), verdicts_(verdicts_for(device, architecture)) {
  const char* wanted = std::getenv("GABBRO_ROCM_LIBRARIES");
  are_chosen_ = wanted != nullptr;
  std::string_view names = are_chosen_ ? wanted : "hipblaslt,rocblas";
  while (!names.empty()) {
    const std::string_view name = names.substr(0, names.find(','));
    names.remove_prefix(std::min(names.size(), name.size() + 1));
    const auto known = std::ranges::find(kKnown, name, &Known::option);
    if (known == std::end(kKnown)) {
      throw ApiError(abi::StatusCode::kFailed,
                     fmt::format("rocm: GABBRO_ROCM_LIBRARIES names '{}'; there are hipblaslt and rocblas", name));
    }
    entries_.push_back({.name = known->name, .identity = {}, .problem = {}, .library = nullptr});
  }
}

std::shared_ptr<Workspace> Workspace::make() {
  void* memory = nullptr;
  if (runtime().hipMalloc_(&memory, kBytes) != hipSuccess) return nullptr;
  auto workspace = std::make_shared<Workspace>();
  workspace->unused_.push_back(memory);
  return workspace;
}

Workspace::~Workspace() {
  for (void* memory : unused_) static_cast<void>(runtime().hipFree_(memory));
  for (const auto& [stream, memory] : by_stream_) static_cast<void>(runtime().hipFree_(memory));
}

void* Workspace::memory(hipStream_t stream) {
  const std::lock_guard lock(mutex_);
  const auto known = by_stream_.find(stream);
  if (known != by_stream_.end()) return known->second;
  if (unused_.empty()) {
    void* memory = nullptr;
    runtime().check(runtime().hipMalloc_(&memory, kBytes), "allocating a library's workspace");
    unused_.push_back(memory);
  }
  void* const memory = by_stream_.emplace(stream, unused_.back()).first->second;
  unused_.pop_back();
  return memory;
}

void Workspace::leave(hipStream_t stream) {
  const std::lock_guard lock(mutex_);
  const auto known = by_stream_.find(stream);
  if (known == by_stream_.end()) return;
  unused_.push_back(known->second);
  by_stream_.erase(known);
}

bool ProductLibraries::are_trusted() const { return are_chosen_ || !is_rdna(target_); }

std::vector<std::string> ProductLibraries::names() const {
  std::vector<std::string> names;
  for (const Entry& entry : entries_) names.emplace_back(entry.name);
  return names;
}

// Null if there is no such library that works.
ProductLibraries::Entry* ProductLibraries::opened(std::string_view name) {
  const auto entry = std::ranges::find(entries_, name, &Entry::name);
  if (entry == entries_.end()) return nullptr;
  if (entry->library == nullptr) {
    entry->library = make_product_library(entry->name);
    entry->problem = open(*entry);
  }
  return entry->problem.empty() ? &*entry : nullptr;
}

std::string ProductLibraries::open(Entry& entry) {
  if (std::string problem = entry.library->find(target_); !problem.empty()) return problem;
  const std::filesystem::path file = entry.library->file();
  std::error_code unknown;
  entry.identity =
      fmt::format("{} {} of {} bytes", entry.name, file.filename().string(), std::filesystem::file_size(file, unknown));
  if (std::string problem = verdict(entry, "first product", kFirstShape); !problem.empty()) return problem;
  return entry.library->start() ? "" : fmt::format("{} does not start on this device", file.string());
}

std::string ProductLibraries::verdict(const Entry& entry, const std::string& words, const GemmShape& shape) {
  return verdicts_.problem(entry.identity, words, [&] { return check(entry.name, words, shape); });
}

std::optional<LibraryVerdict> ProductLibraries::check(const std::string& name, const std::string& words,
                                                      const GemmShape& shape) const {
  report_progress(fmt::format("trying {}: {}", name, words));
  std::vector<std::string> task = {"products", std::to_string(device_), name};
  std::ranges::move(words_of(shape), std::back_inserter(task));
  try {
    const HelperAnswer answer = run_helper(HelperProgram::next_to_plugin(), task, name, kCheckLimit);
    if (answer.succeeded) return LibraryVerdict{};
    if (answer.says(kUnknownKey)) return std::nullopt;
    return LibraryVerdict{.problem = answer.problem, .is_fault = !answer.says(kErrorKey)};
  } catch (const ApiError&) {  // there is no helper program
    return std::nullopt;
  }
}

std::string ProductLibraries::version(std::string_view name) {
  const std::lock_guard lock(mutex_);
  const Entry* entry = opened(name);
  return entry == nullptr ? "" : entry->library->version();
}

std::string ProductLibraries::problem(std::string_view name) {
  const std::lock_guard lock(mutex_);
  if (opened(name) != nullptr) {
    const Entry& entry = *std::ranges::find(entries_, name, &Entry::name);
    return verdicts_.fault(entry.identity);
  }
  const auto entry = std::ranges::find(entries_, name, &Entry::name);
  return entry == entries_.end() ? "GABBRO_ROCM_LIBRARIES does not name it" : entry->problem;
}

std::unique_ptr<LibraryProduct> ProductLibraries::make(std::string_view name, const GemmShape& shape) {
  const std::lock_guard lock(mutex_);
  if (result_bytes(shape) >= kTooManyBytes) return nullptr;
  const Entry* entry = opened(name);
  if (entry == nullptr || !verdict(*entry, class_of(shape), shape).empty()) return nullptr;
  return entry->library->make(shape);
}

void ProductLibraries::leave(hipStream_t stream) {
  const std::lock_guard lock(mutex_);
  for (const Entry& entry : entries_) {
    if (entry.library != nullptr) entry.library->leave(stream);
  }
}

}  // namespace gabbro::gpu::hip
