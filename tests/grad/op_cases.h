// One or more differentiable calls of each op, for the test by finite differences.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "src/backend/device.h"
#include "src/graph/node.h"

namespace gabbro::grad {

const std::shared_ptr<Device>& device();

// An input in f32: numbers between `low` and `high`, all different and equally far from each other.
struct Input {
  Shape shape;
  double low = -2, high = 2;
};

struct OpCase {
  std::string name;
  const Op* op;  // which the call records
  std::vector<Input> inputs;
  std::function<std::vector<Tensor>(const std::vector<Tensor>& x)> call;
};

std::vector<OpCase> op_cases();
void add_layer_cases(std::vector<OpCase>& cases);  // layer_cases.cc

// Ops that have no gradient, and why.
const std::map<std::string, std::string>& ops_without_gradient();

Tensor ints(const Shape& shape, const std::vector<int32_t>& values);

}  // namespace gabbro::grad
