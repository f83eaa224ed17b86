// `sort` and `topk` over the last axis: stable, a NaN after all numbers (so first where the largest come first). Each
// element becomes a key of 64 bits, the order of its value above its place, so that no two are equal and any way of
// sorting is stable. A row is sorted by one worker.
#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>

#include "backends/common/sort_request.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/kernels/rows/rows.h"
#include "src/base/half.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

// Unsigned numbers in the order of the values; -0 and 0 are equal, all NaNs are, behind infinity.
uint32_t order_of(int32_t x) { return static_cast<uint32_t>(x) ^ 0x80000000U; }
uint32_t order_of(float x) {
  if (std::isnan(x)) return 0xffffffffU;
  const auto bits = std::bit_cast<uint32_t>(x + 0.0f);
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}
uint32_t order_of(Half x) { return order_of(static_cast<float>(x)); }
uint32_t order_of(BFloat x) { return order_of(static_cast<float>(x)); }

// How a row of T is sorted: as words that hold the order of a value and its place.
template <class T>
struct ByWords {
  using Scratch = uint64_t;
  static void sort_row(const abi::SortRequest& sort, const T* x, uint64_t* keys, T* values, int32_t* indices) {
    const uint32_t flip = sort.descending ? 0xffffffffU : 0;
    if (2 * sort.count + kBlock <= sort.columns) {
      select(sort, x, flip, keys);
    } else {
      for (int64_t i = 0; i < sort.columns; ++i) keys[i] = key_of(x[i], flip, i);
      if (sort.count < sort.columns) std::nth_element(keys, keys + sort.count, keys + sort.columns);
    }
    std::sort(keys, keys + sort.count);
    for (int64_t i = 0; i < sort.count; ++i) {
      indices[i] = static_cast<int32_t>(keys[i]);
      values[i] = x[indices[i]];
    }
  }

 private:
  static constexpr int64_t kBlock = 16;  // elements that are passed over at once; of more, some would be wanted

  static uint64_t key_of(T x, uint32_t flip, int64_t i) {
    return static_cast<uint64_t>(order_of(x) ^ flip) << 32 | static_cast<uint64_t>(i);
  }

  // The first sort.count keys of a long row, unsorted. Up to twice as many are gathered before the later half is
  // dropped; from then on what is not before the last of the first half is passed over.
  static void select(const abi::SortRequest& sort, const T* x, uint32_t flip, uint64_t* keys) {
    int64_t gathered = 0;
    uint64_t limit = uint64_t{1} << 32;  // an order: who has it or a later one is behind
    T last{};                            // whose order that is
    for (int64_t begin = 0; begin < sort.columns; begin += kBlock) {
      const int64_t end = std::min(begin + kBlock, sort.columns);
      if (end - begin == kBlock && limit >> 32 == 0 && all_behind(x + begin, last, sort.descending)) continue;
      for (int64_t i = begin; i < end; ++i) {
        if ((order_of(x[i]) ^ flip) < limit) keys[gathered++] = key_of(x[i], flip, i);
      }
      if (gathered < 2 * sort.count) continue;
      std::nth_element(keys, keys + sort.count - 1, keys + gathered);
      gathered = sort.count;
      limit = keys[sort.count - 1] >> 32;
      last = x[static_cast<uint32_t>(keys[sort.count - 1])];
    }
    std::nth_element(keys, keys + sort.count - 1, keys + gathered);
  }

  // Whether none of kBlock elements comes before `last`; false may be wrong.
  static bool all_behind(const T* x, T last, bool descending) {
    if constexpr (std::is_same_v<T, int32_t>) {
      bool before = false;
      for (int64_t i = 0; i < kBlock; ++i) before |= descending ? x[i] > last : x[i] < last;
      return !before;
    } else {
      const auto number = static_cast<float>(last);
      if (std::isnan(number)) return false;
      const F32 limit = splat(number);
      Mask before = limit < limit;
      for (int64_t i = 0; i < kBlock; i += kLanes) {
        const F32 v = load_as_f32(x + i);
        before = before | (descending ? (limit < v) | unordered(v, v) : v < limit);
      }
      return !any(before);
    }
  }
};

// For types whose values fill a word: indices are sorted, by the values and then by themselves.
template <class T>
struct ByPlaces {
  using Scratch = int32_t;
  static void sort_row(const abi::SortRequest& sort, const T* x, int32_t* places, T* values, int32_t* indices) {
    for (int64_t i = 0; i < sort.columns; ++i) places[i] = static_cast<int32_t>(i);
    const auto smaller = [](T a, T b) { return a < b || (b != b && a == a); };  // a NaN is behind all numbers
    const auto before = [&](int32_t i, int32_t j) {
      const T a = sort.descending ? x[j] : x[i], b = sort.descending ? x[i] : x[j];
      return smaller(a, b) || (!smaller(b, a) && i < j);
    };
    std::partial_sort(places, places + sort.count, places + sort.columns, before);
    for (int64_t i = 0; i < sort.count; ++i) {
      indices[i] = places[i];
      values[i] = x[places[i]];
    }
  }
};

template <class T, class Way = ByWords<T>>
class Sort : public Kernel {
 public:
  Sort(const abi::KernelRequest& request, const abi::SortRequest& sort, int workers) : sort_(sort) {
    scratch_bytes = static_cast<size_t>(workers) * static_cast<size_t>(sort.columns) * sizeof(typename Way::Scratch);
    implementation = std::string(request.op) + " " + std::string(dtype_name(sort.dtype));
    bytes = static_cast<double>(sort.rows) *
            static_cast<double>(sort.columns * sizeof(T) + sort.count * (sizeof(T) + sizeof(int32_t)));
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    const auto* x = static_cast<const T*>(launch.inputs[0].data);
    auto* values = static_cast<T*>(launch.outputs[0].data);
    auto* indices = static_cast<int32_t*>(launch.outputs[1].data);
    auto* scratch = static_cast<typename Way::Scratch*>(launch.scratch) + worker.index() * sort_.columns;
    worker.parallel_for(sort_.rows, row_grain(sort_.columns), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        Way::sort_row(sort_, x + row * sort_.columns, scratch, values + row * sort_.count, indices + row * sort_.count);
    });
  }

 private:
  abi::SortRequest sort_;
};

}  // namespace

KernelPointer make_sort(const abi::KernelRequest& request, const MakeContext& context) {
  abi::SortRequest sort;
  if (!read_sort_request(request, sort)) return nullptr;
  switch (sort.dtype) {
    case DType::f32:
      return std::make_unique<Sort<float>>(request, sort, context.workers);
    case DType::f16:
      return std::make_unique<Sort<Half>>(request, sort, context.workers);
    case DType::bf16:
      return std::make_unique<Sort<BFloat>>(request, sort, context.workers);
    case DType::f64:
      return std::make_unique<Sort<double, ByPlaces<double>>>(request, sort, context.workers);
    case DType::i64:
      return std::make_unique<Sort<int64_t, ByPlaces<int64_t>>>(request, sort, context.workers);
    default:
      return std::make_unique<Sort<int32_t>>(request, sort, context.workers);
  }
}

}  // namespace gabbro::cpu::GABBRO_ISA
