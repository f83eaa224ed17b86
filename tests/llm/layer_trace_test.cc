// Traces: the outputs of layers, and of operations inside of them, while a model computes.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/engine/traced_pass.h"
#include "tests/llm/expected_logits.h"
#include "tests/llm/family_folder.h"
#include "tests/llm/tiny_model.h"

namespace gabbro {
namespace {

using test::TinyModel;

struct Traced {
  std::vector<std::string> order;
  std::map<std::string, std::vector<float>> values;
  std::map<std::string, std::vector<int64_t>> shapes;
};

Traced traced(const std::shared_ptr<Engine>& engine, std::span<const int32_t> tokens,
              std::span<const std::string> operations = {}) {
  Traced found;
  const auto visit = [&](const std::string& block, std::span<const float> values, std::span<const int64_t> shape) {
    found.order.push_back(block);
    found.values[block].assign(values.begin(), values.end());
    found.shapes[block].assign(shape.begin(), shape.end());
  };
  Sequence sequence(engine);
  TracedRunner(engine, {.visit = visit, .operations = operations}).append(sequence, tokens);
  EXPECT_EQ(sequence.tokens().size(), tokens.size());
  return found;
}

const std::vector<int32_t> kTokens = {3, 90, 17, 44, 9};

TEST(LayerTrace, VisitsEveryLayerAndGivesTheLogits) {
  const auto engine = Engine::load(test::tiny_llama().write("trace"), {.threads = 2});
  const Traced found = traced(engine, kTokens);
  std::vector<std::string> expected{"embed"};
  for (int64_t i = 0; i < engine->facts().layers; ++i) expected.push_back(fmt::format("layers.{}", i));
  expected.emplace_back("logits");
  EXPECT_EQ(found.order, expected);
  EXPECT_EQ(found.shapes.at("embed"), (std::vector<int64_t>{5, TinyModel::kC}));
  EXPECT_EQ(found.shapes.at("logits"), (std::vector<int64_t>{5, TinyModel::kV}));
  Session session(engine);
  const std::span<const float> plain = session.append_all_logits(kTokens);
  // Fused ops round in another order.
  expect_near(found.values.at("logits"), plain, std::ssize(plain), 1e-3, "logits");
}

TEST(LayerTrace, VisitsTheWantedOperationsBeforeTheirLayer) {
  const auto engine = Engine::load(test::tiny_llama().write("trace"), {.threads = 2});
  const std::vector<std::string> wanted{"attn_norm"}, all{"all"};
  const Traced found = traced(engine, kTokens, wanted);
  ASSERT_GE(found.order.size(), 3u);
  EXPECT_EQ(found.order[1], "layers.0.attn_norm");
  EXPECT_EQ(found.order[2], "layers.0");
  EXPECT_FALSE(found.values.contains("layers.0.ffn_norm"));
  EXPECT_TRUE(traced(engine, kTokens, all).values.contains("layers.0.ffn_norm"));
}

TEST(LayerTrace, OfAnEncoderDecoderIsAnError) {
  const auto engine = Engine::load(GABBRO_SOURCE_DIR "/tests/data/encoders/t5", {.threads = 1});
  try {
    traced(engine, kTokens);
    ADD_FAILURE() << "an encoder-decoder has no stages";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    EXPECT_STREQ(error.what(),
                 "a model of this architecture is computed as a whole: it has no outputs of single layers");
  }
}

}  // namespace
}  // namespace gabbro
