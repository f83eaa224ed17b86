// Inputs of module constructors: a device, a dtype, and random numbers for initial values and dropout.
#pragma once

#include <cstdint>
#include <memory>

#include "gabbro/ops.h"

#pragma GCC visibility push(default)
namespace gabbro::nn {

// Random keys (ops.h), one after another: key i of a seed is that of stream i, so no two have numbers in common. Of one
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

// Modules that are made with copies of a factory share its generator.
struct Factory {
  std::shared_ptr<Device> device;
  std::shared_ptr<Generator> generator = std::make_shared<Generator>();
  DType dtype = DType::f32;  // of parameters: f32, f16, bf16 or f64
};

}  // namespace gabbro::nn
#pragma GCC visibility pop
