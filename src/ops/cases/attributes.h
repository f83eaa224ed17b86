// Attributes of the cases in tests/data/ops/*.json as arguments of ops.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "src/ops/ops.h"

namespace gabbro::cases {

DType dtype_of(const std::string& name);  // "f32", "bf16", "bool"; throws std::out_of_range

DType dtype(const nlohmann::json& attributes);
Shape shape(const nlohmann::json& attributes);
Axes axes(const nlohmann::json& attributes);                    // null: all of them
std::optional<int64_t> axis(const nlohmann::json& attributes);  // null: none
Number number(const nlohmann::json& value);

// One number, or one for each axis; `otherwise` where the case does not say.
std::vector<int64_t> numbers(const nlohmann::json& attributes, const char* name, std::vector<int64_t> otherwise);
ConvOptions conv_options(const nlohmann::json& attributes);
PoolOptions pool_options(const nlohmann::json& attributes);
Reduce reduce(const nlohmann::json& attributes);

// Input `at`, where the case has it.
Tensor optional(const std::vector<Tensor>& inputs, size_t at);

}  // namespace gabbro::cases
