// The fields of a diffusers config.json that several models share.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "src/base/json_node.h"

namespace gabbro::diffusion {

constexpr int64_t kMostChannels = 1 << 16, kMostLevels = 16, kMostLayers = 256;

// A whole number in 1 .. most, or `other` where the field is missing or null.
int64_t positive_or(const JsonNode& config, std::string_view name, int64_t other, int64_t most);
// A list of them; one number stands for `count` of it. Throws bad_input that names the field for another length.
std::vector<int64_t> positive_list(const JsonNode& config, std::string_view name, size_t count, int64_t other,
                                   int64_t most);
double number_or(const JsonNode& config, std::string_view name, double other);

// Throws bad_input that names the field where it is there, not null, and none of `allowed`, as JSON writes them.
void require_field(const JsonNode& config, std::string_view name, std::initializer_list<const char*> allowed);

}  // namespace gabbro::diffusion
