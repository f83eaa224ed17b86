#include "tests/nn/fixtures.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "src/backend/registry.h"
#include "src/graph/history.h"
#include "src/plan/eval.h"

namespace gabbro::nn {

const std::shared_ptr<Device>& device() {
  static const std::shared_ptr<Device> opened = open_device("auto");
  return opened;
}

nlohmann::json fixture(const std::string& name) {
  return nlohmann::json::parse(std::ifstream(GABBRO_SOURCE_DIR "/tests/data/nn/" + name + ".json"));
}

Shape shape_of(const nlohmann::json& lengths) { return Shape(lengths.get<std::vector<int64_t>>()); }

Tensor numbers(const Shape& shape, int k, double scale, bool positive) {
  std::vector<float> values;
  for (int64_t i = 0; i < shape.elements(); ++i) {
    const double value = static_cast<double>((7 * i + 13 * k) % 29 - 14) * scale;
    values.push_back(static_cast<float>(positive ? std::fabs(value) + 0.5 : value));
  }
  return device()->upload(DType::f32, shape, values.data());
}

Tensor seed_of(const Shape& shape) {
  std::vector<float> values;
  for (int64_t i = 0; i < shape.elements(); ++i) values.push_back(static_cast<float>((7 * i + 3) % 11 - 5) / 4);
  return device()->upload(DType::f32, shape, values.data());
}

void set_state(Module& module) {
  StateDict state = module.state_dict();
  for (size_t k = 0; k < state.size(); ++k) {
    if (!is_differentiable(state[k].tensor.dtype())) continue;
    const bool positive = state[k].name.ends_with("running_var");
    state[k].tensor = numbers(state[k].tensor.shape(), static_cast<int>(k), 1.0 / 32, positive);
  }
  module.load_state_dict(state);
}

void expect_close(const Tensor& actual, const nlohmann::json& expected, const std::string& what) {
  ASSERT_EQ(actual.shape().to_string(), shape_of(expected.at("shape")).to_string()) << what;
  const std::vector<float> found = to_host<float>(cast(actual, DType::f32));
  const std::vector<double> wanted = expected.at("data");
  double largest = 0;
  for (const double value : wanted) largest = std::max(largest, std::fabs(value));
  const double tolerance = expected.at("ulps").get<double>() * 0x1p-24 * largest;
  size_t worst = 0;
  double distance = -1;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double d = std::fabs(found[i] - wanted[i]);
    if (!(d <= distance)) worst = i, distance = std::isnan(d) ? HUGE_VAL : d;
  }
  if (wanted.empty()) return;
  EXPECT_LE(distance, tolerance) << what << " at " << worst << ": " << found[worst] << " instead of " << wanted[worst];
}

}  // namespace gabbro::nn
