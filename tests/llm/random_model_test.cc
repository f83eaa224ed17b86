// Models of random weights: they run like any other, and take what was forecast.
#include "src/engine/random_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "src/backend/registry.h"
#include "src/base/error.h"
#include "src/engine/model_needs.h"
#include "src/plan/plan.h"
#include "src/plan/program.h"
#include "src/text/tokenizer.h"

namespace gabbro {
namespace {

constexpr const char* kShape =
    "layers=3,embedding=512,heads=8,kv-heads=2,feed-forward=1536,vocabulary=1009,context=2048";

std::vector<int32_t> tokens(int count) {
  std::vector<int32_t> ids;
  for (int i = 0; i < count; ++i) ids.push_back(i * 37 % 1009);
  return ids;
}

class RandomModel : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Types, RandomModel,
                         testing::Values("f16", "bf16", "q8_0", "q4_0", "q4_k_m", "q2_k", "iq4_xs"));

TEST_P(RandomModel, GivesLogitsLikeAModelDoes) {
  const LoadOptions options{.device = "cpu", .threads = 2, .context = 128};
  const auto engine = load_random_model(llm::parse_blueprint(kShape), *find_file_type(GetParam()), options);
  EXPECT_EQ(engine->facts().quantization, GetParam());
  Session session(engine);
  const auto first = session.append(tokens(64));
  double squares = 0;
  for (const float logit : first) {
    ASSERT_TRUE(std::isfinite(logit));
    squares += static_cast<double>(logit) * logit;
  }
  // A normed stream times weights of a deviation of 0.02: about 0.02 · sqrt(512) = 0.45.
  const double deviation = std::sqrt(squares / 1009);
  EXPECT_GT(deviation, 0.3);
  EXPECT_LT(deviation, 0.7);
  EXPECT_THROW(engine->tokenizer(), Error);
}

// The arena of the plan of `count` tokens at the end of `context`.
size_t arena_of(const llm::Blueprint& shape, const char* type, int64_t count, int64_t context) {
  const auto device = open_device("cpu", {.threads = 2});
  const Checkpoint file = llm::random_checkpoint(shape, *find_file_type(type), 1);
  const auto model = llm::load_model(file, device, {.context = context});
  const int64_t pages = context / nn::KvCacheConfig::kPageTokens;
  const nn::KvCache cache(device, {.layers = model->cache_spec(), .groups = {{.pages = pages}}});
  const std::vector<int32_t> zeros(static_cast<size_t>(std::max(count, pages)), 0);
  const auto ints = [&](const Shape& s) { return device->upload(DType::i32, s, zeros.data()); };
  llm::Step step;  // not at once: g++ 12 warns of the destructor of what is not made yet
  step.ids = ints({count});
  step.places = {.positions = ints({count}), .sequence = ints({count}), .page_table = ints({1, pages})};
  step.output_rows = ints({1});
  const Tensor logits = model->forward(step, cache);
  return Plan(device, trace(std::span(&logits, 1)).program).arena_bytes();
}

TEST(RandomModelMemory, ScratchIsWhatPlansHave) {
  const llm::Blueprint shape = llm::parse_blueprint(kShape);
  for (const char* type : {"q4_k_m", "f16"}) {
    for (const int64_t context : {int64_t{64}, int64_t{512}, int64_t{2048}}) {
      const size_t arena = arena_of(shape, type, std::min(context, int64_t{512}), context);
      EXPECT_LE(arena, scratch_bytes(shape.sizes, context)) << type << " " << context;
      EXPECT_GE(arena, scratch_bytes(shape.sizes, context) / 4) << type << " " << context;
    }
  }
}

TEST(RandomModelMemory, TooSmallIsSaidInOneLine) {
  const llm::Blueprint shape = llm::parse_blueprint("layers=4096,embedding=65536,heads=64");
  try {
    load_random_model(shape, *find_file_type("f32"), {.device = "cpu"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNoDevice);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace gabbro
