// How the ops of the fixtures are called: an op's name there, with the attributes that its case has.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "src/graph/node.h"

namespace gabbro {

using Inputs = std::vector<Tensor>;
// Ops of the kernel families; throws std::out_of_range for any other name. `device` is for ops without inputs.
Tensor family_op(const std::string& op, const std::shared_ptr<Device>& device, const Inputs& inputs,
                 const nlohmann::json& attributes);

// Ops of arrays.h, tensor_products.h and reductions over axes; nothing for any other name, or for one without axes.
std::optional<Tensor> array_op(const std::string& op, const std::shared_ptr<Device>& device, const Inputs& inputs,
                               const nlohmann::json& attributes);

DType dtype_of(const std::string& name);  // "f32", "bf16", "bool"

}  // namespace gabbro
