// The cases of tests/data/ops/*.json, for the tests of values and of gradients (op_values_test.cc has them all).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/graph/node.h"
#include "src/ops/cases/attributes.h"
#include "src/ops/cases/cases.h"

namespace gabbro::fixtures {

using cases::device, cases::dtype_of, cases::Inputs;
nlohmann::json cases_of(const std::string& file);
Shape shape_of(const nlohmann::json& lengths);
Tensor upload(const nlohmann::json& tensor);
std::vector<double> read(const Tensor& tensor);
// The op of a case on these inputs.
inline Tensor apply(const std::string& op, const Inputs& x, const nlohmann::json& attributes) {
  return cases::entry(op).call(x, attributes);
}
// A tensor with the same elements and a stride of two; tensors without axes or elements, and of six axes, unchanged.
Tensor in_steps(const Tensor& x);

}  // namespace gabbro::fixtures
