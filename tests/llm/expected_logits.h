// The logits that transformers gave for a model's fixture (expected.safetensors), and how far ours may be from them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "gabbro/backend/device.h"
#include "gabbro/engine/session.h"
#include "src/formats/hugging_face/safetensors.h"
#include "tests/rounding.h"

namespace gabbro {

struct Expected {
  std::vector<int32_t> ids;
  std::vector<float> logits;  // [T, V]

  int64_t vocabulary() const { return std::ssize(logits) / std::ssize(ids); }
};

template <class T>
std::vector<T> values_of(const safetensors::File& file, const std::string& name) {
  const safetensors::TensorInfo* const tensor = file.tensor(name);
  if (tensor == nullptr) throw std::runtime_error(file.path() + " has no " + name);
  std::vector<T> values(tensor->data.size() / sizeof(T));
  std::memcpy(values.data(), tensor->data.data(), tensor->data.size());
  return values;
}

inline Expected read_expected(const std::string& folder) {
  const safetensors::File file(folder + "/expected.safetensors");
  return {.ids = values_of<int32_t>(file, "ids"), .logits = values_of<float>(file, "logits")};
}

// Keys and values are f16 in both, with a spacing of 2^-10 at most; few of some hundred round to another neighbor.
inline constexpr double kTolerance = 0x1p-13;
// On a card attention takes queries and probabilities as f16, and products of f16 weights their inputs. Either rounding
// alone moves a row of logits of llama, phi3 and their adapters by 2e-4 to 5e-4 (PyTorch in f64).
inline constexpr double kToleranceOfCards = 0x1p-10;
inline bool on_card() {
  const auto device = open_device("auto");
  return !device->host_accessible() && !std::string_view(device->facts().id).starts_with("sim");
}
// Weights, keys and values in f32: sums of up to 128 products, whose errors have either sign.
inline double f32_tolerance(int64_t layers) {
  return test::kGrowth * test::rounding_deviation(test::products_of(layers) * 128, test::step_of(DType::f32));
}

// For weights in bf16 or in blocks. In each product a device rounds activations: to the type of weights in 16 bits,
// whose neighbors are at least u apart, else to codes.
inline double weights_tolerance(DType weights, int64_t layers) {
  const double levels = open_device("auto", {})->host_accessible() ? test::kCpuLevels : test::kGpuLevels;
  const double step = is_quantized(weights) ? test::step_of_codes(levels) : test::unit_roundoff(weights);
  return kTolerance + test::kGrowth * test::rounding_deviation(test::products_of(layers), step);
}

// Rows of logits [T, V]; `tolerance` is the length of a row's error relative to the length of the row.
inline void expect_near(std::span<const float> actual, std::span<const float> expected, int64_t vocabulary,
                        double tolerance, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  if (on_card()) tolerance = std::max(tolerance, kToleranceOfCards);
  const auto v = static_cast<size_t>(vocabulary);
  for (size_t row = 0; row < expected.size(); row += v) {
    double length = 0, error = 0, worst = 0;
    size_t at = row;
    for (size_t i = row; i < row + v; ++i) {
      const double difference = static_cast<double>(actual[i]) - expected[i];
      length += static_cast<double>(expected[i]) * expected[i];
      error += difference * difference;
      if (std::fabs(difference) <= worst) continue;
      worst = std::fabs(difference);
      at = i;
    }
    EXPECT_LE(std::sqrt(error), tolerance * std::sqrt(length)) << what << ", row " << row / v << ": logit " << at - row
                                                               << " is " << actual[at] << ", expected " << expected[at];
  }
}

// `weights`: their type; f32: nothing rounds activations.
inline void expect_logits(const std::string& folder, const Expected& expected, DType weights) {
  const auto v = static_cast<size_t>(expected.vocabulary());
  const auto engine = Engine::load(folder, {.threads = 2});
  const double tolerance = weights == DType::f32 ? kTolerance : weights_tolerance(weights, engine->facts().layers);
  Session prompt(engine);
  expect_near(prompt.append_all_logits(expected.ids), expected.logits, expected.vocabulary(), tolerance, "prompt");

  constexpr size_t kSteps = 8;
  const size_t before = expected.ids.size() - kSteps;
  Session steps(engine);
  steps.append(std::span(expected.ids).first(before));
  for (size_t i = before; i < expected.ids.size(); ++i) {
    const std::span<const float> logits = steps.append(std::span(expected.ids).subspan(i, 1));
    expect_near(logits, std::span(expected.logits).subspan(i * v, v), expected.vocabulary(), tolerance,
                "step at " + std::to_string(i));
  }
}

}  // namespace gabbro
