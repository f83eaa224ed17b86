// Normal numbers against PyTorch's (tests/reference/make_schedule_fixtures.py) and A1111's generators.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "src/pictures/noise/noise_source.h"

namespace gabbro::pictures {
namespace {

// The error of PyTorch's polynomials for log, sin and cos.
constexpr double kPolynomials = 5e-7;

TEST(TorchNoise, equals_pytorch) {
  const auto rows = nlohmann::json::parse(std::ifstream(GABBRO_SOURCE_DIR "/tests/data/pictures/noise.json"));
  for (const auto& row : rows) {
    const auto source = make_noise_source(NoiseKind::kTorch, row.at("seed"));
    std::vector<float> drawn;
    for (const size_t count : row.at("counts")) {
      const std::vector<float> numbers = source->normal(count);
      drawn.insert(drawn.end(), numbers.begin(), numbers.end());
    }
    std::vector<float> kept = drawn;
    if (drawn.size() >= 200) {
      kept.clear();
      for (size_t i = 0; i < drawn.size(); i += 509) kept.push_back(drawn[i]);
      kept.insert(kept.end(), drawn.end() - 20, drawn.end());
    }
    const std::vector<double> expected = row.at("numbers");
    ASSERT_EQ(kept.size(), expected.size());
    for (size_t i = 0; i < kept.size(); ++i)
      ASSERT_NEAR(kept[i], expected[i], kPolynomials * std::max(1.0, std::fabs(expected[i])))
          << "number " << i << " of " << row.at("counts") << ", seed " << row.at("seed");
  }
}

TEST(PhiloxNoise, equals_a1111) {
  const auto source = make_noise_source(NoiseKind::kNv, 0);
  const std::vector<float> first = source->normal(6), second = source->normal(3);
  const std::vector<double> expected = {-0.924663, -0.425344, -2.643846, 0.145184, -0.120866, -0.579726};
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(first[i], expected[i], 1e-6);
  EXPECT_NEAR(second[0], 0.180826, 1e-6);
  EXPECT_NEAR(second[1], -0.552263, 1e-6);
  EXPECT_NEAR(second[2], 0.923813, 1e-6);
  const std::vector<float> other = make_noise_source(NoiseKind::kNv, 42)->normal(3);
  EXPECT_NEAR(other[0], 0.194019, 1e-6);
  EXPECT_NEAR(other[1], 2.161374, 1e-6);
  EXPECT_NEAR(other[2], -0.172051, 1e-6);
}

}  // namespace
}  // namespace gabbro::pictures
