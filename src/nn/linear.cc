#include "gabbro/nn/linear.h"

#include <cmath>
#include <cstring>

#include "gabbro/nn/init.h"
#include "gabbro/ops/products.h"
#include "src/backend/device.h"
#include "src/base/error.h"
#include "src/formats/quant/quant.h"
#include "src/graph/history.h"
#include "src/plan/eval.h"

namespace gabbro::nn {
namespace {

size_t row_bytes(DType format, int64_t columns) {
  if (!is_quantized(format)) throw bad_input("[linear] {} is not a block format", dtype_name(format));
  const int64_t block = dtype_info(format).block_elements;
  if (columns < 1 || columns % block != 0)
    throw bad_input("[linear] row length {} is not a multiple of {}'s block size {}", columns, dtype_name(format),
                    block);
  return dtype_bytes(format, static_cast<size_t>(columns));
}

}  // namespace

Linear::Linear(const Factory& make, const LinearOptions& o) : columns_(o.in_features), format_(o.format) {
  if (o.in_features < 0 || o.out_features < 0)
    throw bad_input("[linear] {} features cannot become {}", o.in_features, o.out_features);
  if (format_) {
    const Factory in_f32{.device = make.device};
    set_blocks(make.device, std::vector<std::byte>(static_cast<size_t>(o.out_features) * row_bytes(*format_, columns_)),
               o.bias ? init::zeros(in_f32, Shape{o.out_features}) : Tensor());
    return;
  }
  if (make.weights != nullptr) {
    const std::string name = make.prefix.substr(0, std::max<size_t>(1, make.prefix.size()) - 1);  // without its dot
    const std::shared_ptr<Linear> loaded = make.weights->linear(name, o.out_features, o.in_features);
    if (o.bias != loaded->bias.defined())
      throw bad_input("[linear] {}: the weights have {}", name, o.bias ? "no bias" : "a bias, and the layer none");
    use(*loaded);
    return;
  }
  const Shape shape{o.out_features, o.in_features};
  add_parameter(make, "weight", weight, init::within_fan_in(make, shape, shape));
  if (o.bias) add_parameter(make, "bias", bias, init::within_fan_in(make, Shape{o.out_features}, shape));
}

Linear::Linear(const Linear& layer, DType format) : columns_(layer.in_features()), format_(format) {
  const NoGrad no_grad;
  if (layer.format_) throw bad_input("[linear] the weight is in {} already", dtype_name(*layer.format_));
  const size_t bytes = row_bytes(format, columns_);
  if (quant_format(format).encode == nullptr) throw bad_input("[linear] no encoder for {}", dtype_name(format));
  const std::vector<float> values = to_host<float>(cast(layer.weight, DType::f32));
  const int64_t rows = layer.out_features();
  std::vector<std::byte> blocks(static_cast<size_t>(rows) * bytes);
  for (int64_t row = 0; row < rows; ++row)
    quantize_row(format, &values[static_cast<size_t>(row * columns_)], &blocks[static_cast<size_t>(row) * bytes],
                 columns_);
  Tensor value;
  if (layer.bias.defined()) {
    const std::vector<float> numbers = to_host<float>(cast(layer.bias, DType::f32));
    value = layer.bias.device()->upload(DType::f32, Shape{rows}, numbers.data());
  }
  set_blocks(layer.weight.device(), blocks, value);
}

void Linear::use(const Linear& loaded) {
  weight = loaded.weight;
  bias = loaded.bias;
  order = loaded.order;
  adapters = loaded.adapters;
  observe = loaded.observe;
}

Linear::Linear(Tensor loaded, Tensor loaded_bias) : weight(std::move(loaded)), bias(std::move(loaded_bias)) {}

void Linear::set_blocks(const std::shared_ptr<Device>& device, const std::vector<std::byte>& blocks,
                        const Tensor& value) {
  const auto bytes = static_cast<int64_t>(row_bytes(*format_, columns_));
  const Shape shape{std::ssize(blocks) / bytes, bytes};
  add_buffer("weight", weight, device->upload(DType::u8, shape, blocks.data()));
  add_buffer("bias", bias, value);
}

const Tensor& Linear::matrix() {
  if (!format_) return weight;
  if (packed_from_ != weight.shared_state()) {
    const std::vector<uint8_t> blocks = to_host<uint8_t>(weight);
    const std::shared_ptr<std::byte[]> host(new std::byte[std::max<size_t>(1, blocks.size())]);
    if (!blocks.empty()) std::memcpy(host.get(), blocks.data(), blocks.size());
    packed_ = weight.device()->upload_matrix(*format_, out_features(), columns_,
                                             std::shared_ptr<const void>(host, host.get()));
    packed_from_ = weight.shared_state();
  }
  return packed_;
}

Tensor Linear::forward(const Tensor& x) {
  if (observe) observe(x);
  Tensor y = linear(order.defined() ? take(x, order, -1) : x, matrix(), bias);
  for (const LowRank& one : adapters) {
    if (*one.scale == 0) continue;
    const Tensor inner = linear(x, one.a) * scalar(x.device(), *one.scale);  // [..., R]
    y = y + linear(inner, one.b);
  }
  return y;
}

Bilinear::Bilinear(const Factory& make, const BilinearOptions& o) {
  if (o.in1_features < 1 || o.in2_features < 0 || o.out_features < 0) {
    throw bad_input("[bilinear] {} and {} features cannot become {}", o.in1_features, o.in2_features, o.out_features);
  }
  const double bound = 1 / std::sqrt(static_cast<double>(o.in1_features));
  add_parameter(make, "weight", weight,
                init::uniform(make, Shape{o.out_features, o.in1_features, o.in2_features}, -bound, bound));
  if (o.bias) add_parameter(make, "bias", bias, init::uniform(make, Shape{o.out_features}, -bound, bound));
}

Tensor Bilinear::operator()(const Tensor& x1, const Tensor& x2) const { return bilinear(x1, x2, weight, bias); }

}  // namespace gabbro::nn
