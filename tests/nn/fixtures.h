// Common part of the tests of modules and optimizers and of tests/reference/make_nn_fixtures.py: numbers by formula,
// and expected values with their tolerances.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "gabbro/nn/module.h"
#include "src/backend/device.h"

namespace gabbro::nn {

const std::shared_ptr<Device>& device();
nlohmann::json fixture(const std::string& name);  // tests/data/nn/NAME.json
Shape shape_of(const nlohmann::json& lengths);

// ((7 i + 13 k) mod 29 - 14) · scale at element i.
Tensor numbers(const Shape& shape, int k, double scale, bool positive = false);
// ((7 i + 3) mod 11 - 5) / 4.
Tensor seed_of(const Shape& shape);
// Each floating tensor of the state becomes numbers(.., its place, 1/32); variances positive ones.
void set_state(Module& module);

// Compares with {"shape", "data", "ulps"}: as many units of 2^-24 of the largest.
void expect_close(const Tensor& actual, const nlohmann::json& expected, const std::string& what);

}  // namespace gabbro::nn
