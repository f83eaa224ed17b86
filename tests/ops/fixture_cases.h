// The cases of tests/data/ops/*.json, for the tests of values and of gradients (op_values_test.cc has them all).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/backend/device.h"
#include "src/graph/node.h"
#include "tests/ops/op_calls.h"

namespace gabbro::fixtures {

const std::shared_ptr<Device>& device();
nlohmann::json cases_of(const std::string& file);
Shape shape_of(const nlohmann::json& lengths);
Tensor upload(const nlohmann::json& tensor);
std::vector<double> read(const Tensor& tensor);
// The op of a case on these inputs.
Tensor apply(const std::string& op, const Inputs& x, const nlohmann::json& attributes);
// The same elements with a stride of two; tensors without axes or elements, and of six axes, unchanged.
Tensor in_steps(const Tensor& x);

}  // namespace gabbro::fixtures
