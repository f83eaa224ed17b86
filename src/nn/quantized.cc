#include "gabbro/nn/quantized.h"

#include <cstring>

#include "gabbro/nn/init.h"
#include "src/backend/device.h"
#include "src/base/error.h"
#include "src/formats/quant/quant.h"
#include "src/graph/history.h"
#include "src/plan/eval.h"

namespace gabbro::nn {
namespace {

size_t row_bytes(DType format, int64_t columns) {
  if (!is_quantized(format)) throw bad_input("[quantized_linear] {} is no block format", dtype_name(format));
  const int64_t block = dtype_info(format).block_elements;
  if (columns < 1 || columns % block != 0)
    throw bad_input("[quantized_linear] row length {} is not a multiple of {}'s block size {}", columns,
                    dtype_name(format), block);
  return dtype_bytes(format, static_cast<size_t>(columns));
}

}  // namespace

void QuantizedLinear::set(const std::shared_ptr<Device>& device, const std::vector<std::byte>& blocks,
                          const Tensor& value) {
  const Shape shape{rows_, static_cast<int64_t>(row_bytes(format_, columns_))};
  add_buffer("weight", weight, device->upload(DType::u8, shape, blocks.data()));
  add_buffer("bias", bias, value);
}

QuantizedLinear::QuantizedLinear(const Factory& make, const LinearOptions& o, DType format)
    : format_(format), rows_(o.out_features), columns_(o.in_features) {
  if (rows_ < 0) throw bad_input("[quantized_linear] {} rows", rows_);
  const Factory in_f32{.device = make.device};
  set(make.device, std::vector<std::byte>(static_cast<size_t>(rows_) * row_bytes(format, columns_)),
      o.bias ? init::zeros(in_f32, Shape{rows_}) : Tensor());
}

QuantizedLinear::QuantizedLinear(const Linear& layer, DType format)
    : format_(format), rows_(layer.weight.shape()[0]), columns_(layer.weight.shape()[1]) {
  const NoGrad no_grad;
  const size_t bytes = row_bytes(format, columns_);
  if (quant_format(format).encode == nullptr)
    throw bad_input("[quantized_linear] no encoder for {}", dtype_name(format));
  const std::vector<float> values = to_host<float>(cast(layer.weight, DType::f32));
  std::vector<std::byte> blocks(static_cast<size_t>(rows_) * bytes);
  for (int64_t row = 0; row < rows_; ++row)
    quantize_row(format, &values[static_cast<size_t>(row * columns_)], &blocks[static_cast<size_t>(row) * bytes],
                 columns_);
  Tensor value;
  if (layer.bias.defined()) {
    const std::vector<float> numbers = to_host<float>(cast(layer.bias, DType::f32));
    value = layer.bias.device()->upload(DType::f32, Shape{rows_}, numbers.data());
  }
  set(layer.weight.device(), blocks, value);
}

Tensor QuantizedLinear::forward(const Tensor& x) {
  if (made_of_ != weight.shared_state()) {
    const std::vector<uint8_t> blocks = to_host<uint8_t>(weight);
    const std::shared_ptr<std::byte[]> host(new std::byte[std::max<size_t>(1, blocks.size())]);
    if (!blocks.empty()) std::memcpy(host.get(), blocks.data(), blocks.size());
    matrix_ = weight.device()->upload_matrix(format_, rows_, columns_, std::shared_ptr<const void>(host, host.get()));
    made_of_ = weight.shared_state();
  }
  return linear(x, matrix_, bias);
}

}  // namespace gabbro::nn
