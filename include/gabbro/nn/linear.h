// Products with weights, in any float format or a block format of GGUF (src/formats/quant).
#pragma once

#include <functional>
#include <optional>

#include "gabbro/nn/module.h"

#pragma GCC visibility push(default)
namespace gabbro::nn {

struct LinearOptions {
  int64_t in_features = 0, out_features = 0;
  bool bias = true;
  std::optional<DType> format{};  // a block format; nothing: the factory's dtype
};

// A product of low rank that an adapter adds (LoRA, arXiv 2106.09685): scale · (x · aᵀ) · bᵀ.
struct LowRank {
  Tensor a;                            // [R, K]
  Tensor b;                            // [N, R]
  std::shared_ptr<const float> scale;  // 0: nothing is added, and nothing computed
};

// y = x · weightᵀ + bias: [..., K] -> [..., N]. A weight in a block format has no gradient: such a layer is for
// inference, and for training the layers before it.
class Linear : public Layer {
 public:
  // Initial values; zeros in a block format. Throws bad_input if a row is not a whole number of blocks.
  Linear(const Factory& make, const LinearOptions& options);
  // Rounds a layer's weight to a block format that has an encoder: q4_0, q4_1, q5_0, q5_1, q8_0 and others.
  Linear(const Linear& layer, DType format);
  // A weight [N, K] in the device's own packing or in the mapped file, as a checkpoint loads it: not trained, and not
  // in state dicts.
  explicit Linear(Tensor weight, Tensor bias = {});

  Tensor forward(const Tensor& x) override;

  int64_t in_features() const { return format_ ? columns_ : weight.shape()[1]; }
  int64_t out_features() const { return weight.shape()[0]; }
  std::optional<DType> format() const { return format_; }  // of blocks in `weight`; nothing: `weight` is [N, K]

  Tensor weight;  // [N, K]; u8 [N, bytes of a row] in a block format, as in files and state dicts
  Tensor bias;    // [N], or undefined; f32 and a buffer in a block format
  Tensor order;   // i32 [K]: the element of x for each column of `weight`; undefined: in order
  std::vector<LowRank> adapters;
  std::function<void(const Tensor& x)> observe;  // gets each input; empty: none does

 private:
  void use(const Linear& loaded);
  void set_blocks(const std::shared_ptr<Device>& device, const std::vector<std::byte>& blocks, const Tensor& bias);
  const Tensor& matrix();

  int64_t columns_ = 0;  // K
  std::optional<DType> format_;
  // A weight of blocks as the device's `linear` reads it fastest, and the tensor that it was made of.
  Tensor packed_;
  std::shared_ptr<TensorState> packed_from_;
};

struct BilinearOptions {
  int64_t in1_features = 0, in2_features = 0, out_features = 0;
  bool bias = true;
};

// y[o] = x1 · weight[o] · x2 + bias[o]: [..., I], [..., J] -> [..., O].
class Bilinear : public Module {
 public:
  Bilinear(const Factory& make, const BilinearOptions& options);
  Tensor operator()(const Tensor& x1, const Tensor& x2) const;

  Tensor weight;  // [O, I, J]
  Tensor bias;    // [O], or undefined
};

// x unchanged.
class Identity : public Layer {
 public:
  Tensor forward(const Tensor& x) override { return x; }
};

}  // namespace gabbro::nn
#pragma GCC visibility pop
