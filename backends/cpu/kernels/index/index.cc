// Ops that look things up by row: `gather`, `resolve_index`, `scatter` (an index out of range is left out; of equal
// indices the last wins), `iota`, and `concat` along an axis.
#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "backends/common/primitives.h"
#include "backends/cpu/index_fault.h"
#include "backends/cpu/kernels/elementwise/strided.h"
#include "backends/cpu/kernels/index/index_kernels.h"
#include "backends/cpu/kernels/kernels.h"
#include "src/base/half.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

// Rows in bytes.
struct Rows {
  Rows(const abi::RowsView& view, DType dtype)
      : count(view.count),
        stride(view.step * static_cast<int64_t>(dtype_bytes(dtype, 1))),
        bytes(view.columns * static_cast<int64_t>(dtype_bytes(dtype, 1))) {}
  int64_t count;
  int64_t stride;
  int64_t bytes;  // of a row
};

class Gather : public Kernel, public IndexReader {
 public:
  Gather(const abi::KernelRequest& request, const Rows& x, int64_t count)
      : IndexReader(abi::read_index_rule(request, x.count)), x_(x), count_(count) {
    implementation = "gather";
    bytes = 2.0 * static_cast<double>(count * x.bytes);
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    const auto* x = static_cast<const char*>(launch.inputs[0].data);
    const auto* indices = static_cast<const int32_t*>(launch.inputs[1].data);
    auto* y = static_cast<char*>(launch.outputs[0].data);
    const int64_t grain = std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, x_.bytes));
    worker.parallel_for(count_, grain, [&](int64_t begin, int64_t end) {
      if (x_.bytes == 4) return copy(x, indices, y, begin, end, std::integral_constant<int64_t, 4>());
      if (x_.bytes == 8) return copy(x, indices, y, begin, end, std::integral_constant<int64_t, 8>());
      copy(x, indices, y, begin, end, x_.bytes);
    });
  }

 private:
  // Bytes: of a row; a constant for single elements, for which a call of memcpy would take most of the time.
  template <class Bytes>
  void copy(const char* x, const int32_t* indices, char* y, int64_t begin, int64_t end, Bytes row_bytes) const {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = position(indices[i]);
      if (row >= 0) {
        std::memcpy(y + i * row_bytes, x + row * x_.stride, static_cast<size_t>(row_bytes));
      } else {
        std::memset(y + i * row_bytes, 0, static_cast<size_t>(row_bytes));
      }
    }
  }

  Rows x_;
  int64_t count_;
};

// T: the dtype of the indices.
template <class T>
class ResolveIndex : public Kernel, public IndexReader {
 public:
  ResolveIndex(const abi::KernelRequest& request, const abi::ResolveRequest& resolve)
      : IndexReader(abi::read_index_rule(request, resolve.size)), resolve_(resolve) {
    implementation = "resolve_index";
    bytes = static_cast<double>(resolve.count) *
            static_cast<double>(sizeof(T) +
                                static_cast<size_t>(resolve.repeats + (resolve.has_outer ? 1 : 0)) * sizeof(int32_t));
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    const auto* indices = static_cast<const T*>(launch.inputs[0].data);
    auto* y = static_cast<int32_t*>(launch.outputs[0].data);
    const auto* outer = resolve_.has_outer ? static_cast<const int32_t*>(launch.inputs[1].data) : nullptr;
    const int64_t count = resolve_.count;
    worker.parallel_for(count * resolve_.repeats, kElementGrain, [&](int64_t begin, int64_t end) {
      int64_t run = begin / count, i = begin % count;
      for (int64_t at = begin; at < end; ++at) {
        const int64_t found = std::max<int64_t>(position(indices[i]), 0);
        y[at] = static_cast<int32_t>((outer == nullptr ? run : outer[i]) * resolve_.size + found);
        if (++i == count) i = 0, ++run;
      }
    });
  }

 private:
  abi::ResolveRequest resolve_;
};

class Scatter : public Kernel {
 public:
  Scatter(const Rows& target, const Rows& rows) : target_(target), rows_(rows) {
    implementation = "scatter";
    bytes = 2.0 * static_cast<double>(rows.count * rows.bytes);
  }

  // Workers share the columns, so that equal indices are written in their order.
  void run(const abi::Launch& launch, Worker& worker) const override {
    auto* target = static_cast<char*>(launch.inputs[0].data);
    const auto* indices = static_cast<const int32_t*>(launch.inputs[1].data);
    const auto* rows = static_cast<const char*>(launch.inputs[2].data);
    worker.parallel_for(rows_.bytes, kElementGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = 0; i < rows_.count; ++i) {
        if (indices[i] < 0 || indices[i] >= target_.count) continue;
        std::memcpy(target + indices[i] * target_.stride + begin, rows + i * rows_.stride + begin,
                    static_cast<size_t>(end - begin));
      }
    });
  }

 private:
  Rows target_;
  Rows rows_;
};

// Elements [begin, end) of start + i · step; integers are held within their range.
struct Steps {
  double start;
  double step;
  int64_t whole_start;  // of i64, whose numbers a double does not hold
};

template <class T>
void iota_run(void* out, const Steps& steps, int64_t begin, int64_t end) {
  constexpr bool kInteger = std::is_integral_v<T>;
  for (int64_t i = begin; i < end; ++i) {
    const double value = steps.start + steps.step * static_cast<double>(i);
    if constexpr (kInteger) {
      using Limits = std::numeric_limits<T>;
      static_cast<T*>(out)[i] =
          static_cast<T>(std::clamp(value, static_cast<double>(Limits::min()), static_cast<double>(Limits::max())));
    } else if constexpr (std::is_same_v<T, double>) {
      static_cast<T*>(out)[i] = value;
    } else {
      static_cast<T*>(out)[i] = T(static_cast<float>(value));
    }
  }
}

template <>
void iota_run<int64_t>(void* out, const Steps& steps, int64_t begin, int64_t end) {
  const auto start = static_cast<uint64_t>(steps.whole_start);
  const auto step = static_cast<uint64_t>(static_cast<int64_t>(steps.step));
  for (int64_t i = begin; i < end; ++i)
    static_cast<int64_t*>(out)[i] = static_cast<int64_t>(start + step * static_cast<uint64_t>(i));
}

using IotaFunction = void (*)(void* out, const Steps& steps, int64_t begin, int64_t end);
IotaFunction iota_function(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return iota_run<Half>;
    case DType::bf16:
      return iota_run<BFloat>;
    case DType::f64:
      return iota_run<double>;
    case DType::i8:
      return iota_run<int8_t>;
    case DType::u8:
    case DType::boolean:
      return iota_run<uint8_t>;
    case DType::i16:
      return iota_run<int16_t>;
    case DType::i32:
      return iota_run<int32_t>;
    case DType::i64:
      return iota_run<int64_t>;
    default:
      return iota_run<float>;
  }
}

class Iota : public Kernel {
 public:
  Iota(const abi::KernelRequest& request)
      : count_(request.outputs[0].shape[0]),
        steps_{.start = real_attribute(request, "start", 0),
               .step = real_attribute(request, "step", 1),
               .whole_start = integer_attribute(request, "start", 0)},
        function_(iota_function(request.outputs[0].dtype)) {
    implementation = "iota";
    bytes = static_cast<double>(dtype_bytes(request.outputs[0].dtype, 1)) * static_cast<double>(count_);
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    worker.parallel_for(count_, kElementGrain,
                        [&](int64_t begin, int64_t end) { function_(launch.outputs[0].data, steps_, begin, end); });
  }

 private:
  int64_t count_;
  Steps steps_;
  IotaFunction function_;
};

// Every input is walked in turn; the place in the output follows from the place in the input: with `inner` elements
// from the axis on in this input and `outer` in the output, block b begins at b·outer + the sum of what came before.
class Concat : public Kernel {
 public:
  Concat(const abi::KernelRequest& request, int axis)
      : element_(static_cast<int64_t>(dtype_bytes(request.outputs[0].dtype, 1))) {
    outer_ = elements_from(request.outputs[0], axis);
    int64_t before = 0;
    for (int i = 0; i < request.input_count; ++i) {
      const int64_t inner = elements_from(request.inputs[i], axis);
      parts_.push_back({StridedWalk({&request.inputs[i], 1}), inner, before});
      before += inner;
    }
    implementation = "concat";
    bytes = 2.0 * static_cast<double>(elements(request.outputs[0]) * element_);
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    auto* out = static_cast<char*>(launch.outputs[0].data);
    for (size_t i = 0; i < parts_.size(); ++i) {
      const Part& part = parts_[i];
      const auto* in = static_cast<const char*>(launch.inputs[i].data);
      const auto copy = [&](int64_t begin, int64_t end) {
        part.walk.rows(begin, end, [&](const auto& offsets, int64_t position, int64_t count) {
          copy_row({.from = in + offsets[0] * element_,
                    .step = part.walk.row_stride(0) * element_,
                    .position = position,
                    .count = count},
                   part, out);
        });
      };
      if (i > 0 && i % (TeamState::kLoops - 1) == 0) worker.barrier();
      worker.parallel_for(part.walk.total(), kElementGrain, copy);
    }
  }

 private:
  struct Part {
    StridedWalk walk;
    int64_t inner;
    int64_t before;
  };

  // Elements of an input with one stride.
  struct Row {
    const char* from;
    int64_t step;      // bytes between elements
    int64_t position;  // the first one's index in the input
    int64_t count;
  };

  void copy_row(Row row, const Part& part, char* out) const {
    while (row.count > 0) {
      const int64_t column = row.position % part.inner;
      const int64_t piece = std::min(row.count, part.inner - column);
      char* to = out + (row.position / part.inner * outer_ + part.before + column) * element_;
      if (row.step == element_) {
        std::memcpy(to, row.from, static_cast<size_t>(piece * element_));
      } else {
        for (int64_t i = 0; i < piece; ++i)
          std::memcpy(to + i * element_, row.from + i * row.step, static_cast<size_t>(element_));
      }
      row.from += piece * row.step;
      row.position += piece;
      row.count -= piece;
    }
  }

  int64_t element_;
  int64_t outer_ = 0;
  std::vector<Part> parts_;
};

}  // namespace

KernelPointer make_gather(const abi::KernelRequest& request, const MakeContext&) {
  abi::RowMove move;
  if (!is_gather(request, move)) return nullptr;
  return std::make_unique<Gather>(request, Rows(move.source, request.inputs[0].dtype), move.target.count);
}

KernelPointer make_resolve_index(const abi::KernelRequest& request, const MakeContext&) {
  abi::ResolveRequest resolve;
  if (!abi::read_resolve_index(request, resolve)) return nullptr;
  switch (resolve.dtype) {
    case DType::i8:
      return std::make_unique<ResolveIndex<int8_t>>(request, resolve);
    case DType::u8:
      return std::make_unique<ResolveIndex<uint8_t>>(request, resolve);
    case DType::i16:
      return std::make_unique<ResolveIndex<int16_t>>(request, resolve);
    case DType::i64:
      return std::make_unique<ResolveIndex<int64_t>>(request, resolve);
    default:
      return std::make_unique<ResolveIndex<int32_t>>(request, resolve);
  }
}

KernelPointer make_scatter(const abi::KernelRequest& request, const MakeContext&) {
  abi::RowMove move;
  if (!is_scatter(request, move)) return nullptr;
  const DType dtype = request.inputs[0].dtype;
  return std::make_unique<Scatter>(Rows(move.target, dtype), Rows(move.source, dtype));
}

KernelPointer make_iota(const abi::KernelRequest& request, const MakeContext&) {
  return is_iota(request) ? std::make_unique<Iota>(request) : nullptr;
}

KernelPointer make_concat(const abi::KernelRequest& request, const MakeContext&) {
  int axis = 0;
  return is_concat(request, axis) ? std::make_unique<Concat>(request, axis) : nullptr;
}

}  // namespace gabbro::cpu::GABBRO_ISA
