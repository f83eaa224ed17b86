// Inputs of module constructors: a device, a dtype, random numbers for initial values and dropout, and weights that
// exist already.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "gabbro/ops.h"

#pragma GCC visibility push(default)
namespace gabbro::nn {

// A sequence of random keys (ops.h): key i of a seed is the key of stream i, so no two have numbers in common. For one
// thread at a time.
class Generator {
 public:
  explicit Generator(uint64_t seed = 0) : seed_(seed) {}
  virtual ~Generator() = default;
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  virtual Tensor next_key(const std::shared_ptr<Device>& device) { return random_key(device, seed_, 0, position_++); }

  // How many keys were given; set back, the same ones come again.
  virtual uint64_t position() const { return position_; }
  virtual void set_position(uint64_t position) { position_ = position; }

 private:
  uint64_t seed_;
  uint64_t position_ = 0;
};

class Linear;  // linear.h

// Weights under the names of a state dict. Its functions throw bad_input that names a tensor that is missing or has
// another shape.
class ModuleWeights {
 public:
  virtual ~ModuleWeights() = default;
  virtual bool has(const std::string& name) const = 0;
  // A tensor in f32, f16 or bf16 on the device.
  virtual Tensor tensor(const std::string& name, const Shape& shape, DType dtype) = 0;
  // The layer whose tensors are PREFIX.weight [rows, columns], in any format, and PREFIX.bias if it is there.
  virtual std::shared_ptr<Linear> linear(const std::string& prefix, int64_t rows, int64_t columns) = 0;
};

// Modules that are made with copies of a factory share its generator and weights.
struct Factory {
  std::shared_ptr<Device> device;
  std::shared_ptr<Generator> generator = std::make_shared<Generator>();
  DType dtype = DType::f32;  // of parameters: f32, f16, bf16 or f64
  // Instead of initial values; null: modules have these. Modules that are made of weights are for inference: they have
  // buffers instead of parameters, and a matrix of a linear layer in the device's own packing is in no state dict.
  std::shared_ptr<ModuleWeights> weights{};
  std::string prefix{};  // of the names in `weights`: "encoder.layers.0."

  // For the module of this name inside of the one that is made.
  Factory at(const std::string& name) const {
    Factory inside = *this;
    inside.prefix += name + ".";
    return inside;
  }
};

}  // namespace gabbro::nn
#pragma GCC visibility pop
