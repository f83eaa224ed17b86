// `embedding` and `dequantize`: rows of a weight matrix, packed or in the file's layout, as f32.
#include <algorithm>

#include "backends/common/request.h"
#include "backends/cpu/index_fault.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/pack/pack.h"
#include "src/base/half.h"
#include "src/formats/quant/quant.h"

namespace gabbro::cpu::GABBRO_ISA {
namespace {

class WeightRows {
 public:
  static bool takes(const abi::TensorView& weight) {
    if (weight.rank != 2 || !is_weight_dtype(weight.dtype) || weight.shape[0] < 1) return false;
    const int block = dtype_info(weight.dtype).block_elements;
    if (weight.shape[1] % block != 0) return false;
    if (weight.layout == abi::Layout::kPacked) return has_panels(weight.dtype);
    return weight.strides[1] == 1 && weight.strides[0] % block == 0;
  }

  explicit WeightRows(const abi::TensorView& weight)
      : dtype_(weight.dtype),
        packed_(weight.layout == abi::Layout::kPacked),
        rows_(weight.shape[0]),
        columns_(weight.shape[1]),
        step_(packed_ ? panel_bytes(dtype_, columns_)
                      : weight.strides[0] / dtype_info(dtype_).block_elements * dtype_info(dtype_).block_bytes) {}

  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }

  void read(const void* data, int64_t row, float* out) const {
    const auto* bytes = static_cast<const std::byte*>(data);
    if (packed_) {
      unpack_row(dtype_, bytes + row / kPanelRows * step_, static_cast<int>(row % kPanelRows), columns_, out);
    } else {
      dequantize_row(dtype_, bytes + row * step_, out, columns_);
    }
  }

 private:
  DType dtype_;
  bool packed_;
  int64_t rows_, columns_, step_;
};

class Embedding : public Kernel, public IndexReader {
 public:
  explicit Embedding(const abi::KernelRequest& request)
      : IndexReader(abi::read_index_rule(request, request.inputs[0].shape[0])),
        weight_(request.inputs[0]),
        tokens_(elements(request.inputs[1])) {
    const auto size = static_cast<double>(tokens_ * weight_.columns());
    bytes = size * 4 +
            static_cast<double>(dtype_bytes(request.inputs[0].dtype, static_cast<size_t>(tokens_ * weight_.columns())));
    flops = size;
    implementation = "embedding " + std::string(dtype_name(request.inputs[0].dtype));
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    const auto* ids = static_cast<const int32_t*>(launch.inputs[1].data);
    auto* out = static_cast<float*>(launch.outputs[0].data);
    worker.parallel_for(tokens_, 4, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t row = position(ids[t]);
        float* const to = out + t * weight_.columns();
        if (row >= 0) {
          weight_.read(launch.inputs[0].data, row, to);
        } else {
          std::fill_n(to, weight_.columns(), 0.0f);
        }
      }
    });
  }

 private:
  WeightRows weight_;
  int64_t tokens_;
};

class Dequantize : public Kernel {
 public:
  explicit Dequantize(const abi::KernelRequest& request) : weight_(request.inputs[0]) {
    const int64_t size = weight_.rows() * weight_.columns();
    flops = static_cast<double>(size);
    bytes = flops * 4 + static_cast<double>(dtype_bytes(request.inputs[0].dtype, static_cast<size_t>(size)));
    implementation = "dequantize " + std::string(dtype_name(request.inputs[0].dtype));
  }

  void run(const abi::Launch& launch, Worker& worker) const override {
    auto* out = static_cast<float*>(launch.outputs[0].data);
    worker.parallel_for(weight_.rows(), kPanelRows, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        weight_.read(launch.inputs[0].data, row, out + row * weight_.columns());
      }
    });
  }

 private:
  WeightRows weight_;
};

}  // namespace

KernelPointer make_embedding(const abi::KernelRequest& request, const MakeContext&) {
  if (!has_operands(request, 2, 1) || !WeightRows::takes(request.inputs[0])) return nullptr;
  const abi::TensorView &ids = request.inputs[1], &out = request.outputs[0];
  if (!is_plain(ids, DType::i32) || !is_contiguous(ids) || !is_plain(out, DType::f32) || !is_contiguous(out))
    return nullptr;
  if (elements(out) != elements(ids) * request.inputs[0].shape[1]) return nullptr;
  return std::make_unique<Embedding>(request);
}

KernelPointer make_dequantize(const abi::KernelRequest& request, const MakeContext&) {
  if (!has_operands(request, 1, 1) || !WeightRows::takes(request.inputs[0])) return nullptr;
  const abi::TensorView& weight = request.inputs[0];
  if (!has_shape(request.outputs[0], DType::f32, {weight.shape[0], weight.shape[1]})) return nullptr;
  return std::make_unique<Dequantize>(request);
}

}  // namespace gabbro::cpu::GABBRO_ISA
