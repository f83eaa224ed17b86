// One list of cases for each op with a composition: the conformance test runs them on every backend.
#pragma once

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "src/backend/device.h"
#include "src/graph/node.h"

namespace gabbro::conformance {

// Makes tensors with seeded contents.
class Maker {
 public:
  Maker(std::shared_ptr<Device> device, uint32_t seed) : device_(std::move(device)), random_(seed) {}

  Tensor normal(const Shape& shape, float deviation = 1);      // f32
  Tensor weights(DType dtype, int64_t rows, int64_t columns);  // any format, packed where the device packs
  Tensor ints(const Shape& shape, const std::function<int32_t(int64_t)>& at);  // i32
  Tensor f16(const Shape& shape, float deviation);                             // f16
  Tensor cached(DType dtype, const Shape& shape);                              // elements of a KV cache

 private:
  std::shared_ptr<Device> device_;
  std::mt19937 random_;
};

// Root of the mean square of numbers, or of their differences from others.
double rms(const std::vector<float>& a, const std::vector<float>* minus = nullptr);

struct OpCase {
  std::string name;
  const Op* op;
  std::function<std::vector<Tensor>(Maker&)> inputs;
  Attributes attributes;
  double tolerance;  // of |kernel - composition|, relative to the magnitude below
  // Scale of the error, in addition to the largest |composition| of the case, given the inputs.
  std::function<double(const std::vector<Tensor>&)> magnitude = nullptr;
  bool lowered = false;  // the composition is what runs, on some device
};

std::vector<OpCase> op_cases();
void add_family_cases(std::vector<OpCase>& cases);  // family_cases.cc
void add_window_cases(std::vector<OpCase>& cases);  // window_cases.cc

}  // namespace gabbro::conformance
