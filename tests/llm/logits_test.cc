// Logits of tiny models of the llama family against transformers in float32 (tests/data/llm/logits.json).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "gabbro/engine/session.h"
#include "tests/llm/expected_logits.h"
#include "tests/llm/tiny_folder.h"
#include "tests/llm/tiny_model.h"

namespace gabbro {
namespace {

using nlohmann::json;

const json& cases() {
  static const json all = json::parse(std::ifstream(GABBRO_SOURCE_DIR "/tests/data/llm/logits.json"));
  return all;
}

std::vector<double> log_softmax(std::span<const float> logits) {
  double largest = -INFINITY;
  for (const float value : logits) largest = std::max(largest, static_cast<double>(value));
  double total = 0;
  for (const float value : logits) total += std::exp(value - largest);
  std::vector<double> result;
  for (const float value : logits) result.push_back(value - largest - std::log(total));
  return result;
}

double divergence(std::span<const float> reference, std::span<const float> actual) {
  const std::vector<double> p = log_softmax(reference);
  const std::vector<double> q = log_softmax(actual);
  double kl = 0;
  for (size_t i = 0; i < p.size(); ++i) kl += std::exp(p[i]) * (p[i] - q[i]);
  return kl;
}

struct Case {
  size_t index;
  DType weights;
  double most;  // KL divergence
};

class TinyLogits : public testing::TestWithParam<Case> {};

test::TinyModel model_of(const json& c) {
  test::TinyModel model = test::tiny_llama({.tied = c.at("tied"), .bias = c.at("bias")});
  model.architecture = c.at("architecture");
  for (const auto& [name, value] : c.at("fields").items()) {
    if (value.is_string()) model.fields[name] = value.get<std::string>();
    if (value.is_number_integer()) model.fields[name] = value.get<int64_t>();
    if (value.is_number_float()) model.fields[name] = value.get<float>();
  }
  return model;
}

test::TinyTensor vector_of(const std::vector<float>& values) {
  return {.shape = {static_cast<int64_t>(values.size())}, .values = values};
}

std::vector<float> logits_of(const std::string& path, const json& c, int64_t context = 0) {
  Session session(Engine::load(path, {.threads = 2, .context = context}));
  const std::vector<int32_t> ids = c.at("ids");
  const std::span<const float> all = session.append_all_logits(ids);
  return {all.begin(), all.end()};
}

// The model gives the logits of the case, but for a divergence of `most`, or on a card of kMostOfCards.
constexpr double kMostOfCards = 1e-4;
void expect_logits(const json& c, const std::string& path, double most, int64_t context = 0) {
  if (on_card()) most = std::max(most, kMostOfCards);
  const std::vector<float> logits = logits_of(path, c, context);
  const std::span<const float> all = logits;
  for (size_t i = 0; i < c.at("positions").size(); ++i) {
    const std::vector<float> expected = c.at("logits")[i];
    const size_t position = c.at("positions")[i];
    const auto actual = all.subspan(position * expected.size(), expected.size());
    EXPECT_LE(divergence(expected, actual), most) << c.at("name") << " position " << position;
  }
}

void expect_logits(const json& c, const test::TinyModel& model, double most, int64_t context = 0) {
  expect_logits(c, model.write("logits"), most, context);
}

TEST_P(TinyLogits, AreThoseOfTransformers) {
  const json& c = cases()[GetParam().index];
  test::TinyModel model = model_of(c);
  model.weights = GetParam().weights;
  if (const std::vector<float> factors = c.at("factors"); !factors.empty())
    model.tensors["rope_freqs.weight"] = vector_of(factors);
  expect_logits(c, model, GetParam().most);
}

const json& case_named(const std::string& name) {
  return *std::ranges::find_if(cases(), [&](const json& c) { return c.at("name") == name; });
}

// Equal weights in a folder of transformers, with its configuration, in one file and in three.
TEST(HuggingFaceFolder, GivesTheLogitsOfTransformersAndThoseOfTheGgufFileToTheBit) {
  for (const json& c : cases()) {
    SCOPED_TRACE(c.at("name").get<std::string>());
    test::TinyModel model = model_of(c);
    for (const DType dtype : {DType::f32, DType::f16}) {
      model.weights = dtype;
      const std::string folder = test::write_folder(model, c.at("config"), dtype == DType::f32 ? 1 : 3);
      expect_logits(c, folder, 1e-5);
      if (const std::vector<float> factors = c.at("factors"); !factors.empty()) continue;  // rounded in the fixture
      EXPECT_EQ(logits_of(folder, c), logits_of(model.write("logits"), c));
    }
  }
}

TEST(RotaryScaling, IsLinearWhereTheFileNamesTheFactorAlone) {
  const json& linear = case_named("linear");
  test::TinyModel model = model_of(linear);
  ASSERT_EQ(model.fields.erase("rope.scaling.type"), 1U);
  expect_logits(linear, model, 1e-5);
}

// With factors of 1 the model is the plain one, with Llama 3's that of the case.
TEST(RotaryScaling, LongRopeGoesByTheLengthOfTheText) {
  const json& plain = case_named("tied");
  const json& stretched = case_named("llama 3");
  const std::vector<float> factors = stretched.at("factors");
  const int64_t length = std::ssize(plain.at("ids"));
  test::TinyModel model = model_of(plain);
  model.fields["rope.scaling.type"] = std::string("longrope");
  model.tensors["rope_factors_short.weight"] = vector_of(std::vector<float>(factors.size(), 1));
  model.tensors["rope_factors_long.weight"] = vector_of(factors);
  for (const int64_t context : {length, int64_t{65}, int64_t{0}}) {
    SCOPED_TRACE(context);
    model.fields["rope.scaling.original_context_length"] = length;
    expect_logits(plain, model, 1e-5, context);
    model.fields["rope.scaling.original_context_length"] = length - 1;
    expect_logits(stretched, model, 1e-5, context);
  }
  model.fields["rope.scaling.original_context_length"] = length;
  model.tensors["rope_freqs.weight"] = vector_of(std::vector<float>(factors.size(), 9));
  expect_logits(plain, model, 1e-5);  // LongRoPE's tables are the ones that count
}

std::vector<Case> all_cases() {
  std::vector<Case> list;
  for (size_t i = 0; i < cases().size(); ++i) {
    // The weights are exact in both formats; keys and values are kept in f16, which alone costs up to 3e-6 here.
    list.push_back({i, DType::f32, 1e-5});
    list.push_back({i, DType::f16, 1e-5});
    list.push_back({i, DType::q8_0, 1e-2});
  }
  return list;
}

INSTANTIATE_TEST_SUITE_P(Families, TinyLogits, testing::ValuesIn(all_cases()));

}  // namespace
}  // namespace gabbro
