// The gradients of the cases in tests/data/ops/*.json against PyTorch's (gradients.npy and gradients.json, made by
// tests/reference/make_grad_fixtures.py). GABBRO_DEVICE chooses the device.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "src/base/npy.h"
#include "src/ops/grad.h"
#include "src/ops/ops.h"
#include "src/plan/eval.h"
#include "tests/ops/fixture_cases.h"

namespace gabbro {
namespace {

using namespace fixtures;
using nlohmann::json;

// A case with what PyTorch says.
struct Expected {
  json c;
  std::vector<size_t> inputs;
  std::vector<const float*> gradients;  // of these inputs
  double error;                         // of PyTorch in f32
};

const std::vector<Expected>& expectations() {
  static const std::vector<Expected> all = [] {
    static const NpyArray<float> numbers = read_npy<float>(GABBRO_SOURCE_DIR "/tests/data/ops/gradients.npy");
    const float* next = numbers.values.data();
    std::map<std::string, json> files;
    std::vector<Expected> expected;
    for (const json& entry : cases_of("gradients")) {
      json& file = files[entry.at("file")];
      if (file.is_null()) file = cases_of(entry.at("file"));
      Expected e{.c = file.at(entry.at("case").get<size_t>()), .error = entry.at("error")};
      if (e.c.at("op") != entry.at("op")) throw std::runtime_error("gradients.json is of other cases: make it again");
      for (const size_t input : entry.at("inputs")) {
        e.inputs.push_back(input);
        e.gradients.push_back(next);
        next += shape_of(e.c.at("inputs")[input].at("shape")).elements();
      }
      expected.push_back(std::move(e));
    }
    return expected;
  }();
  return all;
}

// Gradients of the output's elements: the same numbers as in the script.
Tensor seed_like(const Tensor& y) {
  std::vector<float> seed;
  for (int64_t i = 0; i < y.shape().elements(); ++i) seed.push_back(static_cast<float>((7 * i + 3) % 11 - 5) / 4);
  return cast(device()->upload(DType::f32, y.shape(), seed.data()), y.dtype());
}

void expect_gradients(const Expected& e, Tensor (*placed)(const Tensor&)) {
  SCOPED_TRACE(e.c.at("op").get<std::string>() + " " + e.c.at("attributes").dump());
  Inputs inputs;
  for (const json& input : e.c.at("inputs")) inputs.push_back(placed(upload(input)));
  std::vector<Tensor> wanted;
  for (const size_t input : e.inputs) {
    inputs[input] = detach(inputs[input]);
    require_gradient(inputs[input]);
    wanted.push_back(inputs[input]);
  }
  const Tensor y = apply(e.c.at("op"), inputs, e.c.at("attributes"));
  if (!needs_gradient(y)) return;  // e.g. a cast to itself of nothing that needs one
  const std::vector<Tensor> results = gradients(y, wanted, {.seed = seed_like(y)});
  eval(results);
  for (size_t k = 0; k < results.size(); ++k) {
    ASSERT_EQ(results[k].spec(), wanted[k].spec());
    const std::vector<double> got = read(results[k]);
    double largest = 0;
    for (size_t i = 0; i < got.size(); ++i)
      largest = std::max(largest, std::fabs(static_cast<double>(e.gradients[k][i])));
    // 32 units in the last place, of the dtype for f16 and bf16, and up to eight times PyTorch's error.
    const double unit = wanted[k].dtype() == DType::f16 ? 0x1p-11 : wanted[k].dtype() == DType::bf16 ? 0x1p-8 : 0x1p-24;
    const double tolerance = (unit == 0x1p-24 ? 32 : 8) * unit * largest + 8 * e.error;
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], static_cast<double>(e.gradients[k][i]), tolerance)
          << "at " << i << " of input " << e.inputs[k];
    }
  }
}

class OpGradients : public testing::TestWithParam<size_t> {};

TEST_P(OpGradients, AreThoseOfPyTorch) {
  expect_gradients(expectations()[GetParam()], [](const Tensor& x) { return x; });
}

TEST_P(OpGradients, DoNotDependOnTheLayoutOfInputs) { expect_gradients(expectations()[GetParam()], in_steps); }

INSTANTIATE_TEST_SUITE_P(PyTorch, OpGradients, testing::Range<size_t>(0, expectations().size()));

}  // namespace
}  // namespace gabbro
