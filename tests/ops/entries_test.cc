// The values and refusals that the entries of src/ops/cases say. GABBRO_DEVICE chooses the device.
#include <gtest/gtest.h>

#include <cmath>

#include "src/base/error.h"
#include "src/plan/eval.h"
#include "tests/ops/fixture_cases.h"

namespace gabbro {
namespace {

using namespace fixtures;
using cases::Entry, cases::Literal, cases::ValueCase;

Tensor upload_literal(const Literal& x) {
  const std::vector<float> numbers(x.numbers.begin(), x.numbers.end());
  return device()->upload(DType::f32, x.shape, numbers.data());
}

void expect_values(const Entry& e, const ValueCase& c, Tensor (*placed)(const Tensor&)) {
  Inputs inputs;
  for (const Literal& input : c.inputs) inputs.push_back(placed(upload_literal(input)));
  const Tensor y = e.call(inputs, c.attributes);
  ASSERT_EQ(y.shape(), c.expected.shape);
  const std::vector<double> got = read(y);
  double largest = 0;
  for (const double value : c.expected.numbers) largest = std::max(largest, std::fabs(value));
  for (size_t i = 0; i < got.size(); ++i) {
    // The expected number is not rounded to f32: half a unit more.
    ASSERT_NEAR(got[i], c.expected.numbers[i], (c.ulps + 1) * 0x1p-24 * largest) << "at " << i;
  }
}

class Entries : public testing::TestWithParam<size_t> {
 protected:
  const Entry& e = cases::entries()[GetParam()];
};

TEST_P(Entries, HaveTheirValuesInAnyLayout) {
  for (const ValueCase& c : e.values) {
    SCOPED_TRACE(c.inputs.front().shape.to_string());
    expect_values(e, c, [](const Tensor& x) { return x; });
    expect_values(e, c, in_steps);
  }
}

TEST_P(Entries, RefuseWithTheOpsName) {
  for (const cases::Refusal& refusal : e.refusals) {
    try {
      refusal.call();
      ADD_FAILURE() << "not refused: " << refusal.message;
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), refusal.message);
      EXPECT_EQ(error.code(), ErrorCode::kBadInput) << refusal.message;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, Entries, testing::Range<size_t>(0, cases::entries().size()),
                         [](const auto& test) { return cases::entries()[test.param].name; });

}  // namespace
}  // namespace gabbro
