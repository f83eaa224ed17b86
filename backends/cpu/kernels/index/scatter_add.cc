// Elements by index along the last axis: `take_along`, `scatter_set` (of equal indices the last counts), and sums of
// elements and of rows by index, `scatter_add` and `index_add` (of i32 they wrap around), added in the order of the
// indices. Negative indices count from the end; others out of range are reported (index_fault.h).
#include <algorithm>
#include <cstring>

#include "backends/common/scatter_request.h"
#include "backends/cpu/index_fault.h"
#include "backends/cpu/kernels/rows/rows.h"
#include "backends/cpu/kernels/tensor_kernels.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

constexpr int64_t kColumnGrain = 1024;  // columns of a row that a worker takes at a time in index_add

class TakeAlong : public Kernel, public IndexReader {
 public:
  TakeAlong(const abi::KernelRequest& request, const abi::AlongRequest& along)
      : IndexReader(abi::read_index_rule(request, along.columns)),
        along_(along),
        element_(static_cast<int64_t>(dtype_bytes(along.dtype, 1))) {
    implementation = "take_along";
    bytes = 2.0 * static_cast<double>(along.rows * along.picks * element_);
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    const auto* x = static_cast<const char*>(launch.inputs[0].data);
    const auto* indices = static_cast<const int32_t*>(launch.inputs[1].data);
    auto* y = static_cast<char*>(launch.outputs[0].data);
    worker.parallel_for(along_.rows, row_grain(along_.picks), [&](int64_t begin, int64_t end) {
      for (int64_t at = begin * along_.picks; at < end * along_.picks; ++at) {
        const int64_t column = position(indices[at]);
        const auto size = static_cast<size_t>(element_);
        if (column >= 0) {
          std::memcpy(y + at * element_, x + (at / along_.picks * along_.columns + column) * element_, size);
        } else {
          std::memset(y + at * element_, 0, size);
        }
      }
    });
  }

 private:
  abi::AlongRequest along_;
  int64_t element_;
};

// T: float, double, or an unsigned number for i32 and i64.
template <class T>
class ScatterAdd : public Kernel, public IndexReader {
 public:
  ScatterAdd(const abi::KernelRequest& request, const abi::AlongRequest& along)
      : IndexReader(abi::read_index_rule(request, along.columns)), along_(along) {
    implementation = "scatter_add";
    bytes = 2.0 * sizeof(T) * static_cast<double>(along.rows * (along.columns + along.picks));
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    const auto* x = static_cast<const T*>(launch.inputs[0].data);
    const auto* indices = static_cast<const int32_t*>(launch.inputs[1].data);
    const auto* values = static_cast<const T*>(launch.inputs[2].data);
    auto* y = static_cast<T*>(launch.outputs[0].data);
    worker.parallel_for(along_.rows, row_grain(along_.columns + along_.picks), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        T* to = y + row * along_.columns;
        std::copy_n(x + row * along_.columns, along_.columns, to);
        for (int64_t i = row * along_.picks; i < (row + 1) * along_.picks; ++i) {
          const int64_t column = position(indices[i]);
          if (column >= 0) to[column] += values[i];
        }
      }
    });
  }

 private:
  abi::AlongRequest along_;
};

class ScatterSet : public Kernel, public IndexReader {
 public:
  ScatterSet(const abi::KernelRequest& request, const abi::AlongRequest& along)
      : IndexReader(abi::read_index_rule(request, along.columns)),
        along_(along),
        element_(static_cast<int64_t>(dtype_bytes(along.dtype, 1))) {
    implementation = "scatter_set";
    bytes = 2.0 * static_cast<double>(along.rows * (along.columns + along.picks) * element_);
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    const auto* x = static_cast<const char*>(launch.inputs[0].data);
    const auto* indices = static_cast<const int32_t*>(launch.inputs[1].data);
    const auto* values = static_cast<const char*>(launch.inputs[2].data);
    auto* y = static_cast<char*>(launch.outputs[0].data);
    const int64_t row_bytes = along_.columns * element_;
    worker.parallel_for(along_.rows, row_grain(along_.columns + along_.picks), [&](int64_t begin, int64_t end) {
      std::copy(x + begin * row_bytes, x + end * row_bytes, y + begin * row_bytes);
      for (int64_t at = begin * along_.picks; at < end * along_.picks; ++at) {
        const int64_t column = position(indices[at]);
        if (column < 0) continue;
        char* to = y + at / along_.picks * row_bytes + column * element_;
        std::memcpy(to, values + at * element_, static_cast<size_t>(element_));
      }
    });
  }

 private:
  abi::AlongRequest along_;
  int64_t element_;
};

template <class T>
class IndexAdd : public Kernel, public IndexReader {
 public:
  IndexAdd(const abi::KernelRequest& request, const abi::AlongRequest& add)
      : IndexReader(abi::read_index_rule(request, add.rows)), add_(add) {
    implementation = "index_add";
    bytes = 2.0 * sizeof(T) * static_cast<double>((add.rows + add.picks) * add.columns);
  }

  // Workers share the columns, so that rows are added in their order.
  void run(const abi::Launch& launch, Worker& worker) const override {
    const auto* x = static_cast<const T*>(launch.inputs[0].data);
    const auto* indices = static_cast<const int32_t*>(launch.inputs[1].data);
    const auto* values = static_cast<const T*>(launch.inputs[2].data);
    auto* y = static_cast<T*>(launch.outputs[0].data);
    worker.parallel_for(add_.columns, kColumnGrain, [&](int64_t begin, int64_t end) {
      for (int64_t row = 0; row < add_.rows; ++row)
        std::copy(x + row * add_.columns + begin, x + row * add_.columns + end, y + row * add_.columns + begin);
      for (int64_t i = 0; i < add_.picks; ++i) {
        const int64_t row = position(indices[i]);
        if (row < 0) continue;
        T* to = y + row * add_.columns;
        const T* from = values + i * add_.columns;
        for (int64_t column = begin; column < end; ++column) to[column] += from[column];
      }
    });
  }

 private:
  abi::AlongRequest add_;
};

template <template <class> class Sum>
std::unique_ptr<Kernel> make_summed(const abi::KernelRequest& request, const abi::AlongRequest& along) {
  switch (along.dtype) {
    case DType::f32:
      return std::make_unique<Sum<float>>(request, along);
    case DType::f64:
      return std::make_unique<Sum<double>>(request, along);
    case DType::i64:
      return std::make_unique<Sum<uint64_t>>(request, along);
    default:
      return std::make_unique<Sum<uint32_t>>(request, along);
  }
}

}  // namespace

std::unique_ptr<Kernel> make_take_along(const abi::KernelRequest& request, const MakeContext&) {
  abi::AlongRequest along;
  return read_take_along(request, along) ? std::make_unique<TakeAlong>(request, along) : nullptr;
}

std::unique_ptr<Kernel> make_scatter_add(const abi::KernelRequest& request, const MakeContext&) {
  abi::AlongRequest along;
  return read_scatter_add(request, along) ? make_summed<ScatterAdd>(request, along) : nullptr;
}

std::unique_ptr<Kernel> make_scatter_set(const abi::KernelRequest& request, const MakeContext&) {
  abi::AlongRequest along;
  return read_scatter_set(request, along) ? std::make_unique<ScatterSet>(request, along) : nullptr;
}

std::unique_ptr<Kernel> make_index_add(const abi::KernelRequest& request, const MakeContext&) {
  abi::AlongRequest add;
  return read_index_add(request, add) ? make_summed<IndexAdd>(request, add) : nullptr;
}

}  // namespace gabbro::cpu::GABBRO_ISA
