#include "backends/gpu/hip/gemm_libraries.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "backends/gpu/hip/code_target.h"
#include "backends/gpu/hip/runtime.h"
#include "src/base/half.h"

namespace gabbro::gpu::hip {
namespace {

// The bits of the number, rounded to the dtype.
uint32_t bits_of(float value, DType dtype) {
  if (dtype == DType::f32) return std::bit_cast<uint32_t>(value);
  return dtype == DType::f16 ? float_to_half_bits(value) : float_to_bfloat_bits(value);
}

// A small product of whole numbers, with which a library shows that it works on this device before it is used.
class Trial {
 public:
  Trial(hipStream_t stream, DType dtype, DType result) : stream_(stream), dtype_(dtype), result_(result) {}
  ~Trial() {
    if (memory_ != nullptr) static_cast<void>(runtime().hipFree_(memory_));
  }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  bool passes(ProductLibrary& library) {
    const auto product = library.make({.dtype = dtype_,
                                       .result = result_,
                                       .rows = kRows,
                                       .tokens = kTokens,
                                       .depth = kDepth,
                                       .w = {.step = kDepth},
                                       .x = {.step = kDepth},
                                       .y_step = kRows,
                                       .alpha = 0.5f});
    if (product == nullptr) return false;
    const Runtime& hip = runtime();
    const size_t factor_bytes = dtype_bytes(dtype_, (kRows + kTokens) * kDepth),
                 result_bytes = dtype_bytes(result_, kRows * kTokens);
    hip.check(hip.hipMalloc_(&memory_, factor_bytes + result_bytes), "allocating");
    std::vector<std::byte> factors, expected;
    for (int i = 0; i < (kRows + kTokens) * kDepth; ++i) append(factors, static_cast<float>(value(i)), dtype_);
    for (int token = 0; token < kTokens; ++token) {
      for (int row = 0; row < kRows; ++row) {
        int sum = 0;  // exact, and so is half of it before it is rounded
        for (int k = 0; k < kDepth; ++k) sum += value(row * kDepth + k) * value((kRows + token) * kDepth + k);
        append(expected, 0.5f * static_cast<float>(sum), result_);
      }
    }
    auto* const w = static_cast<std::byte*>(memory_);
    std::vector<std::byte> found(result_bytes);
    hip.check(hip.hipMemcpyHtoDAsync_(w, factors.data(), factor_bytes, stream_), "copying to the device");
    product->run(stream_, {.w = w,
                           .x = w + dtype_bytes(dtype_, kRows * kDepth),
                           .addend = nullptr,
                           .bias = nullptr,
                           .y = w + factor_bytes});
    hip.check(hip.hipMemcpyDtoHAsync_(found.data(), w + factor_bytes, result_bytes, stream_),
              "copying from the device");
    hip.check(hip.hipStreamSynchronize_(stream_), "waiting for the device");
    return found == expected;
  }

 private:
  static constexpr int kRows = 48, kTokens = 32, kDepth = 64;
  static int value(int i) { return i * 7 % 11 - 5; }
  static void append(std::vector<std::byte>& bytes, float value, DType dtype) {
    const uint32_t bits = bits_of(value, dtype);
    const auto* first = reinterpret_cast<const std::byte*>(&bits);
    bytes.insert(bytes.end(), first, first + dtype_bytes(dtype, 1));
  }

  hipStream_t stream_;
  DType dtype_, result_;
  void* memory_ = nullptr;
};

bool works(ProductLibrary& library, hipStream_t stream, DType dtype, DType result) {
  try {
    return Trial(stream, dtype, result).passes(library);
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
      entries_.push_back({.name = own.name, .open = own.open, .opened = false, .library = nullptr, .works = {}});
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
  return runtime().hipMalloc_(&workspace->first_, kBytes) == hipSuccess ? workspace : nullptr;
}

Workspace::~Workspace() {
  if (first_ != nullptr) static_cast<void>(runtime().hipFree_(first_));
  for (const auto& [stream, memory] : by_stream_) static_cast<void>(runtime().hipFree_(memory));
}

void* Workspace::memory(hipStream_t stream) {
  const std::lock_guard lock(mutex_);
  const auto known = by_stream_.find(stream);
  if (known != by_stream_.end()) return known->second;
  void* memory = std::exchange(first_, nullptr);
  if (memory == nullptr) runtime().check(runtime().hipMalloc_(&memory, kBytes), "allocating a library's workspace");
  return by_stream_.emplace(stream, memory).first->second;
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

ProductLibraries::Entry* ProductLibraries::opened(std::string_view name) {
  const auto entry = std::ranges::find(entries_, name, &Entry::name);
  if (entry == entries_.end()) return nullptr;
  if (!std::exchange(entry->opened, true)) entry->library = entry->open(target_);
  return entry->library == nullptr ? nullptr : &*entry;
}

ProductLibrary* ProductLibraries::for_dtypes(std::string_view name, DType dtype, DType result) {
  Entry* entry = opened(name);
  if (entry == nullptr) return nullptr;
  const auto [tried, first] = entry->works.try_emplace({dtype, result}, false);
  if (first) {
    if (stream_ == nullptr) {
      runtime().check(runtime().hipStreamCreateWithFlags_(&stream_, hipStreamNonBlocking), "creating a stream");
    }
    tried->second = works(*entry->library, stream_, dtype, result);
  }
  return tried->second ? entry->library.get() : nullptr;
}

std::string ProductLibraries::version(std::string_view name) {
  const std::lock_guard lock(mutex_);
  const ProductLibrary* library = for_dtypes(name, DType::f16, DType::f32);
  return library == nullptr ? "" : library->version();
}

std::unique_ptr<LibraryProduct> ProductLibraries::make(std::string_view name, const GemmShape& shape) {
  const std::lock_guard lock(mutex_);
  ProductLibrary* library = for_dtypes(name, shape.dtype, shape.result);
  return library == nullptr ? nullptr : library->make(shape);
}

}  // namespace gabbro::gpu::hip
