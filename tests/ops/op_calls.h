// How the ops of the fixtures are called: an op's name there, with the attributes that its case has.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/graph/node.h"

namespace gabbro {

using Inputs = std::vector<Tensor>;
using OpCall = Tensor (*)(const Inputs& inputs, const nlohmann::json& attributes);

// Of the ops of the kernel families; throws std::out_of_range for any other name.
OpCall family_op(const std::string& op);

DType dtype_of(const std::string& name);  // "f32", "bf16", "bool"

}  // namespace gabbro
