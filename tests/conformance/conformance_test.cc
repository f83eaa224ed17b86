// Kernels against compositions: each op with a fast kernel gives what its reference composition gives on the same
// device. GABBRO_DEVICE chooses the device; the CPU's instruction set is forced with GABBRO_CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <string>

#include "src/backend/registry.h"
#include "src/ops/ops.h"
#include "src/plan/eval.h"
#include "tests/conformance/op_cases.h"

namespace gabbro::conformance {
namespace {

const std::vector<OpCase>& cases() {
  static const std::vector<OpCase> all = op_cases();
  return all;
}

class Conformance : public testing::TestWithParam<size_t> {
 protected:
  static const std::shared_ptr<Device>& device() {
    static const std::shared_ptr<Device> opened = open_device("auto", {.threads = 2});
    return opened;
  }
};

void expect_same(const OpCase& c, const std::vector<Tensor>& inputs, const Tensor& kernel, const Tensor& composition) {
  ASSERT_EQ(kernel.shape(), composition.shape());
  ASSERT_EQ(kernel.dtype(), composition.dtype());
  const std::vector<float> actual = to_host<float>(cast(kernel, DType::f32));
  const std::vector<float> expected = to_host<float>(cast(composition, DType::f32));
  double magnitude = 0;
  for (const float value : expected) magnitude = std::max(magnitude, std::fabs(static_cast<double>(value)));
  if (c.magnitude) magnitude = std::max(magnitude, c.magnitude(inputs));
  size_t worst = 0;
  double error = -1;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::fabs(static_cast<double>(actual[i]) - static_cast<double>(expected[i]));
    if (difference > error || std::isnan(difference)) {
      error = difference;
      worst = i;
      if (std::isnan(difference)) break;
    }
  }
  if (expected.empty()) return;
  EXPECT_LE(error, c.tolerance * magnitude) << "at " << worst << ": expected " << expected[worst] << ", actual "
                                            << actual[worst] << ", magnitude " << magnitude;
}

// "linear_q4_k_3x33x64_17" of "linear q4_k 3x33x64", case 17: a filter can name an op.
std::string test_name(const testing::TestParamInfo<size_t>& info) {
  std::string name;
  for (const char c : cases()[info.param].name + " " + std::to_string(info.param)) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      name += c;
    } else if (!name.empty() && name.back() != '_') {
      name += '_';
    }
  }
  return name;
}

// A device without a kernel would compare the composition with itself. A CPU has no f16 or bf16 kernels of these ops.
constexpr std::string_view kWide[] = {
    "scaled_dot_product_attention", "conv",      "conv_nhwc", "group_norm_nhwc", "conv_transpose", "im2col", "pool",
    "adaptive_avg_pool2d",          "upsample2d"};

void expect_kernel(const OpCase& c, const std::vector<Tensor>& inputs, const std::string& device) {
  const DType dtype = inputs.front().dtype();
  const bool half = dtype == DType::f16 || dtype == DType::bf16;
  if (c.lowered || (device == "cpu" && half && std::ranges::find(kWide, c.op->name) != std::end(kWide))) return;
  const Compiled compiled([&] { return record_all(*c.op, inputs, c.attributes); });
  const bool found =
      std::ranges::any_of(compiled.plan().steps(), [&](const PlanStep& step) { return step.op == c.op; });
  EXPECT_TRUE(found) << "no kernel, but " << compiled.plan().explain();
}

TEST_P(Conformance, KernelGivesWhatTheCompositionGives) {
  const OpCase& c = cases()[GetParam()];
  SCOPED_TRACE(c.name);
  Maker maker(device(), 17 + static_cast<uint32_t>(GetParam()));
  const std::vector<Tensor> inputs = c.inputs(maker);
  eval(inputs);  // or the op and what makes them may become one launch
  const std::vector<Tensor> kernel = record_all(*c.op, inputs, c.attributes);
  const std::vector<Tensor> composition = c.op->compose(Args{inputs, c.attributes});
  ASSERT_EQ(kernel.size(), composition.size());
  if (kernel.front().shape().elements() > 0) expect_kernel(c, inputs, device()->facts().id);
  for (size_t output = 0; output < kernel.size(); ++output) {
    SCOPED_TRACE(testing::Message() << "output " << output);
    expect_same(c, inputs, kernel[output], composition[output]);
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, Conformance, testing::Range<size_t>(0, cases().size()), test_name);

}  // namespace
}  // namespace gabbro::conformance
