// A linear layer whose weight is stored in a block format of GGUF (src/formats/quant): for inference, and for training
// the layers before it. The weight itself has no gradient.
#pragma once

#include "gabbro/nn/linear.h"

#pragma GCC visibility push(default)
namespace gabbro::nn {

class QuantizedLinear : public Layer {
 public:
  // Zeros, to be loaded into. Throws bad_input if the row length is not a multiple of the block size.
  QuantizedLinear(const Factory& make, const LinearOptions& options, DType format);
  // Rounds a layer's weight: to q4_0, q4_1, q5_0, q5_1 or q8_0.
  QuantizedLinear(const Linear& layer, DType format);

  Tensor forward(const Tensor& x) override;

  DType format() const { return format_; }
  Tensor weight;  // u8 [N, bytes of a row]: the blocks as they are in files, and in state dicts
  Tensor bias;    // f32 [N], or undefined; a buffer

 private:
  void set(const std::shared_ptr<Device>& device, const std::vector<std::byte>& blocks, const Tensor& bias);

  DType format_;
  int64_t rows_, columns_;
  // The weight as the device's `linear` reads it fastest, and what it was made of.
  Tensor matrix_;
  std::shared_ptr<TensorState> made_of_;
};

}  // namespace gabbro::nn
#pragma GCC visibility pop
