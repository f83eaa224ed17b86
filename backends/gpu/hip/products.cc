#include "backends/gpu/hip/products.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "backends/gpu/hip/code_target.h"
#include "backends/gpu/hip/runtime.h"
#include "src/base/half.h"

namespace gabbro::gpu::hip {
namespace {

// A small product of whole numbers, with which a library shows that it works on this device before it is used.
class Trial {
 public:
  explicit Trial(hipStream_t stream) : stream_(stream) {}
  ~Trial() {
    if (memory_ != nullptr) static_cast<void>(runtime().hipFree_(memory_));
  }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  bool passes(ProductLibrary& library) {
    const auto product = library.make({.rows = kRows,
                                       .tokens = kTokens,
                                       .depth = kDepth,
                                       .w_step = kDepth,
                                       .x_step = kDepth,
                                       .y_step = kRows,
                                       .alpha = 0.5f});
    if (product == nullptr) return false;
    const Runtime& hip = runtime();
    hip.check(hip.hipMalloc_(&memory_, kBytes), "allocating");
    std::array<uint16_t, (kRows + kTokens) * kDepth> halves;
    for (size_t i = 0; i < halves.size(); ++i) halves[i] = float_to_half_bits(static_cast<float>(value(i)));
    auto* x = static_cast<uint16_t*>(memory_) + kRows * kDepth;
    auto* y = reinterpret_cast<float*>(x + kTokens * kDepth);
    std::array<float, kRows * kTokens> found;
    hip.check(hip.hipMemcpyHtoDAsync_(memory_, halves.data(), sizeof halves, stream_), "copying to the device");
    product->run(stream_, memory_, x, nullptr, y);
    hip.check(hip.hipMemcpyDtoHAsync_(found.data(), y, sizeof found, stream_), "copying from the device");
    hip.check(hip.hipStreamSynchronize_(stream_), "waiting for the device");
    for (int token = 0; token < kTokens; ++token) {
      for (int row = 0; row < kRows; ++row) {
        int sum = 0;  // halves of it are exact
        for (int k = 0; k < kDepth; ++k) sum += value(row * kDepth + k) * value((kRows + token) * kDepth + k);
        if (found[static_cast<size_t>(token * kRows + row)] != 0.5f * static_cast<float>(sum)) return false;
      }
    }
    return true;
  }

 private:
  static constexpr int kRows = 48, kTokens = 32, kDepth = 64;
  static constexpr size_t kBytes = (kRows + kTokens) * kDepth * 2 + kRows * kTokens * 4;
  static int value(size_t i) { return static_cast<int>(i * 7 % 11) - 5; }

  hipStream_t stream_;
  void* memory_ = nullptr;
};

bool works(ProductLibrary& library, hipStream_t stream) {
  try {
    return Trial(stream).passes(library);
  } catch (const ApiError&) {
    return false;
  }
}

}  // namespace

ProductLibraries::ProductLibraries(std::string_view architecture) : target_(target_of(architecture)) {
  struct Known {
    std::string_view option;
    const char* name;
    decltype(Entry::open) open;
  };
  constexpr Known kKnown[] = {{"hipblaslt", "hipBLASLt", open_hipblaslt}, {"rocblas", "rocBLAS", open_rocblas}};
  const char* wanted = std::getenv("GABBRO_ROCM_LIBRARIES");
  std::string_view names = wanted == nullptr ? "hipblaslt,rocblas" : wanted;
  while (!names.empty()) {
    const std::string_view name = names.substr(0, names.find(','));
    names.remove_prefix(std::min(names.size(), name.size() + 1));
    bool known = false;
    for (const Known& own : kKnown) {
      if (name != own.option) continue;
      entries_.push_back({.name = own.name, .open = own.open, .opened = false, .library = nullptr});
      known = true;
    }
    if (!known) {
      throw ApiError(abi::StatusCode::kFailed,
                     fmt::format("rocm: GABBRO_ROCM_LIBRARIES names '{}'; there are hipblaslt and rocblas", name));
    }
  }
}

std::shared_ptr<Workspace> Workspace::make() {
  auto workspace = std::make_shared<Workspace>();
  return runtime().hipMalloc_(&workspace->memory_, kBytes) == hipSuccess ? workspace : nullptr;
}

Workspace::~Workspace() {
  if (memory_ != nullptr) static_cast<void>(runtime().hipFree_(memory_));
}

ProductLibraries::~ProductLibraries() {
  entries_.clear();
  if (stream_ != nullptr) static_cast<void>(runtime().hipStreamDestroy_(stream_));
}

std::vector<std::string> ProductLibraries::names() const {
  std::vector<std::string> names;
  for (const Entry& entry : entries_) names.emplace_back(entry.name);
  return names;
}

ProductLibrary* ProductLibraries::opened(std::string_view name) {
  const auto entry = std::ranges::find(entries_, name, &Entry::name);
  if (entry == entries_.end()) return nullptr;
  if (std::exchange(entry->opened, true)) return entry->library.get();
  entry->library = entry->open(target_);
  if (entry->library == nullptr) return nullptr;
  if (stream_ == nullptr) {
    runtime().check(runtime().hipStreamCreateWithFlags_(&stream_, hipStreamNonBlocking), "creating a stream");
  }
  if (!works(*entry->library, stream_)) entry->library = nullptr;
  return entry->library.get();
}

std::string ProductLibraries::version(std::string_view name) {
  const std::lock_guard lock(mutex_);
  const ProductLibrary* library = opened(name);
  return library == nullptr ? "" : library->version();
}

std::unique_ptr<LibraryProduct> ProductLibraries::make(std::string_view name, const ProductShape& shape) {
  const std::lock_guard lock(mutex_);
  ProductLibrary* library = opened(name);
  return library == nullptr ? nullptr : library->make(shape);
}

}  // namespace gabbro::gpu::hip
