// Modules against PyTorch's: the names of their state, outputs, gradients, and what training leaves in their buffers
// (tests/data/nn/modules.json, made by tests/reference/make_nn_fixtures.py).
#include <gtest/gtest.h>

#include "src/ops/grad.h"
#include "src/plan/eval.h"
#include "tests/nn/fixtures.h"
#include "tests/nn/module_cases.h"

namespace gabbro::nn {
namespace {

using nlohmann::json;

const json& cases() {
  static const json all = fixture("modules");
  return all;
}

std::vector<Tensor> inputs_of(const json& c) {
  std::vector<Tensor> inputs;
  for (const json& input : c.at("inputs")) {
    const Shape shape = shape_of(input.at("shape"));
    if (input.at("classes").is_null()) {
      inputs.push_back(numbers(shape, 100 + static_cast<int>(inputs.size()), 1.0 / 8));
      require_gradient(inputs.back());
    } else {
      inputs.push_back(device()->upload(DType::i32, shape, input.at("classes").get<std::vector<int32_t>>().data()));
    }
  }
  return inputs;
}

class Modules : public testing::TestWithParam<size_t> {};

TEST_P(Modules, AreThoseOfPyTorch) {
  const json& c = cases()[GetParam()];
  const auto made = module_cases().at(c.at("name"))({.device = device()});
  Module& module = *made.module;
  module.train(c.at("training"));
  std::vector<std::pair<std::string, std::string>> names, expected_names;
  for (const NamedTensor& named : module.state_dict()) names.emplace_back(named.name, named.tensor.shape().to_string());
  for (const json& entry : c.at("state")) expected_names.emplace_back(entry[0], shape_of(entry[1]).to_string());
  ASSERT_EQ(names, expected_names);
  set_state(module);

  const std::vector<Tensor> inputs = inputs_of(c);
  const std::vector<Tensor> outputs = made.forward(inputs);
  ASSERT_EQ(outputs.size(), c.at("outputs").size());
  Tensor loss;
  for (const Tensor& output : outputs) {
    const Tensor part = sum(output * seed_of(output.shape()), kAllAxes);
    loss = loss.defined() ? loss + part : part;
  }
  std::vector<Tensor> wanted;
  for (const Tensor& input : inputs)
    if (needs_gradient(input)) wanted.push_back(input);
  for (const Slot& slot : module.parameters()) wanted.push_back(*slot.tensor);
  std::vector<Tensor> results = outputs;
  const std::vector<Tensor> found = wanted.empty() ? wanted : gradients(loss, wanted);
  for (const auto& more : {found, module.tensors()}) results.insert(results.end(), more.begin(), more.end());
  eval(results);
  for (size_t i = 0; i < outputs.size(); ++i)
    expect_close(outputs[i], c.at("outputs")[i], "output " + std::to_string(i));
  ASSERT_EQ(found.size(), c.at("gradients").size());
  for (size_t i = 0; i < found.size(); ++i)
    expect_close(found[i], c.at("gradients")[i], "gradient " + std::to_string(i));
  for (const Slot& slot : module.buffers()) expect_close(*slot.tensor, c.at("buffers").at(slot.name), slot.name);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, Modules, testing::Range(size_t{0}, cases().size()), [](const auto& tested) {
  return cases()[tested.param].at("name").template get<std::string>();
});

TEST(Modules, HaveAFixtureEach) {
  std::vector<std::string> without;
  for (const auto& [name, make] : module_cases()) {
    const bool known = std::ranges::any_of(cases(), [&](const json& c) { return c.at("name") == name; });
    if (!known) without.push_back(name);
  }
  EXPECT_TRUE(without.empty()) << without.front();
}

}  // namespace
}  // namespace gabbro::nn
