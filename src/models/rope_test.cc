// Rotary frequencies against transformers' (tests/data/nn/rope.json, made by tests/reference/make_rope_fixtures.py).
#include "src/models/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

namespace gabbro::nn {
namespace {

using nlohmann::json;

RopeConfig config_of(const json& c) {
  const std::string scaling = c.at("scaling");
  return {.dimensions = c.at("dimensions"),
          .base = c.at("base"),
          .scaling = scaling == "linear"     ? RopeScaling::kLinear
                     : scaling == "yarn"     ? RopeScaling::kYarn
                     : scaling == "longrope" ? RopeScaling::kLongRope
                     : scaling == "dynamic"  ? RopeScaling::kDynamic
                                             : RopeScaling::kNone,
          .factor = c.value("factor", 1.0),
          .original_context = c.value("original_context", int64_t{0}),
          .attention_factor = c.value("attention_factor", 1.0),
          .beta_fast = c.value("beta_fast", 32.0),
          .beta_slow = c.value("beta_slow", 1.0)};
}

TEST(Rope, FrequenciesAreThoseOfTransformers) {
  const json cases = json::parse(std::ifstream(GABBRO_SOURCE_DIR "/tests/data/nn/rope.json"));
  ASSERT_GE(cases.size(), 13U);
  for (const json& c : cases) {
    SCOPED_TRACE(c.at("scaling").get<std::string>() + " of " + std::to_string(c.at("dimensions").get<int>()));
    RopeConfig config = config_of(c);
    if (c.contains("length")) config.base = dynamic_base(config, c.at("length"));
    const RopeFrequencies frequencies = rope_frequencies(config, c.at("factors").get<std::vector<float>>());
    const std::vector<double> expected = c.at("inverse");
    ASSERT_EQ(frequencies.inverse.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      // transformers computes in f32: a few roundings, and the exponent's one times log(base) < 14
      EXPECT_NEAR(frequencies.inverse[i], expected[i], 32 * 0x1p-24 * expected[i]) << "pair " << i;
    }
    EXPECT_NEAR(frequencies.magnitude, c.at("magnitude").get<double>(), 1e-6);
  }
}

TEST(Rope, YarnWithoutExtrapolationIsLinearInterpolation) {
  RopeConfig config{.dimensions = 8, .scaling = RopeScaling::kYarn, .factor = 4, .original_context = 64};
  config.extrapolation = 0;
  const RopeFrequencies yarn = rope_frequencies(config);
  config.scaling = RopeScaling::kLinear;
  const RopeFrequencies linear = rope_frequencies(config);
  EXPECT_EQ(yarn.inverse, linear.inverse);
  EXPECT_EQ(yarn.magnitude, 1.0f);
}

}  // namespace
}  // namespace gabbro::nn
