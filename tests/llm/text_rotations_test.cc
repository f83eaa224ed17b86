// Models whose rotation goes by the length of a text against transformers' forward passes (tests/data/llm,
// tests/reference/make_text_rotation_fixtures.py): texts on both sides of the border, a text that grows across it,
// sequences of both sides in one step, pages that are shared, and files of GGUF.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "gabbro/engine/generate.h"
#include "src/convert/convert.h"
#include "src/engine/runner.h"
#include "src/engine/speculation.h"
#include "src/models/llm/text_rotations.h"
#include "tests/llm/expected_logits.h"
#include "tests/llm/family_folder.h"
#include "tests/llm/tiny_model.h"

namespace gabbro {
namespace {

using nlohmann::json;

constexpr int64_t kBorder = 24, kFirst = 20;  // of the fixture
const double kTolerance = f32_tolerance(3);   // layers

class TextRotations : public testing::TestWithParam<std::string> {
 protected:
  bool is_dynamic() const { return GetParam() == "dynamic"; }

  // The fixture's model with weights in f32 and another border.
  std::string folder(int64_t border = kBorder) const {
    const std::string path = in_f32(family_folder(is_dynamic() ? "llama" : "phi3"));
    std::ifstream from(path + "/config.json");
    json config = json::parse(from);
    if (is_dynamic()) {
      config["max_position_embeddings"] = border;
      config["rope_parameters"] = {{"rope_type", "dynamic"}, {"rope_theta", 5000.0}, {"factor", 2.0}};
    } else {
      config["original_max_position_embeddings"] = border;
      config["rope_parameters"] = {{"rope_type", "longrope"},
                                   {"rope_theta", 10000.0},
                                   {"short_factor", {1.0, 1.1, 1.2, 1.3}},
                                   {"long_factor", {1.5, 2.5, 4.0, 7.0}},
                                   {"original_max_position_embeddings", border}};
    }
    std::ofstream(path + "/config.json") << config;
    return path;
  }
  static std::shared_ptr<Engine> load(const std::string& path, int64_t context = 200, int64_t sequences = 1) {
    return Engine::load(path, {.threads = 2, .context = context, .sequences = sequences, .kv_type = DType::f32});
  }
  template <class T>
  std::vector<T> expected(const char* name) const {
    const safetensors::File file(GABBRO_SOURCE_DIR "/tests/data/llm/text_rotations.safetensors");
    return values_of<T>(file, GetParam() + "." + name);
  }
  std::vector<int32_t> ids() const { return expected<int32_t>("ids"); }
  // The last logits of a text that comes at once.
  static std::vector<float> at_once(Engine& engine, std::shared_ptr<Engine> shared, std::span<const int32_t> text) {
    Session session(std::move(shared));
    const std::span<const float> logits = session.append_all_logits(text);
    const auto v = static_cast<std::ptrdiff_t>(engine.facts().vocabulary);
    return {logits.end() - v, logits.end()};
  }
};

// A long text keeps the base of dynamic NTK for a 64th of its length; cut below the border it has the trained one.
TEST(DynamicNtk, KeepsARotationWhileALongTextGrows) {
  llm::ModelRope rope;
  rope.scaling = nn::RopeScaling::kDynamic;
  rope.original_context = 2048;
  const llm::TextRotations rotations(rope, {}, {});
  EXPECT_EQ(rotations.of(2048), 0);
  EXPECT_EQ(rotations.of(2049), 2049);
  EXPECT_EQ(rotations.of_growing(2049, 0), 2049);
  EXPECT_EQ(rotations.of_growing(2049 + 32, 2049), 2049);
  EXPECT_EQ(rotations.of_growing(2049 + 33, 2049), 2049 + 33);
  EXPECT_EQ(rotations.of_growing(2040, 2049), 0);
  EXPECT_EQ(rotations.room(2040), 8);
  EXPECT_EQ(rotations.room(2049), 0);
}

TEST_P(TextRotations, OfAWholeTextGoByItsLengthAndNotByTheContext) {
  const std::vector<int32_t> text = ids();
  const auto prompt = std::span(text).first(kBorder);
  for (const int64_t context : {kBorder, int64_t{200}}) {
    Session session(load(folder(), context));
    const auto logits = session.append_all_logits(prompt);
    expect_near(logits, expected<float>("short"), std::ssize(logits) / kBorder, kTolerance, "short");
  }
  Session session(load(folder()));
  const auto logits = session.append_all_logits(text);
  expect_near(logits, expected<float>("long"), std::ssize(logits) / std::ssize(text), kTolerance, "long");
  // Also for a text that is cut and goes on as another.
  session.truncate(kBorder - 4);
  const auto cut = session.append_all_logits(prompt.last(4));
  const std::vector<float> wanted = expected<float>("short");
  expect_near(cut, std::span(wanted).last(cut.size()), std::ssize(cut) / 4, kTolerance, "cut");
}

// The text is short, so that dynamic NTK takes the base of each length.
TEST_P(TextRotations, OfATextThatGrowsAreThoseOfAPassOverAllOfIt) {
  const std::vector<int32_t> text = ids();
  const std::vector<float> grown = expected<float>("grown");
  const size_t v = grown.size() / (text.size() - kFirst);
  Session session(load(folder()));
  session.append(std::span(text).first(kFirst));
  for (size_t i = kFirst; i < text.size(); ++i) {
    const auto logits = session.append(std::span(text).subspan(i, 1));
    expect_near(logits, std::span(grown).subspan((i - kFirst) * v, v), static_cast<int64_t>(v), kTolerance,
                "token " + std::to_string(i));
  }
}

TEST_P(TextRotations, OfSequencesInOneStepAreTheirOwn) {
  const std::vector<int32_t> text = ids();
  const auto engine = load(folder(), 200, 3);
  const std::vector<float> long_last = expected<float>("long"), short_last = expected<float>("short"),
                           grown = expected<float>("grown");
  const auto v = static_cast<size_t>(engine->facts().vocabulary);
  Runner runner(engine);
  Sequence a(engine), b(engine), c(engine);
  const auto whole = std::span(text), prompt = whole.first(kBorder);
  const Chunk together[] = {
      {&a, prompt, Chunk::Rows::kLast}, {&b, whole, Chunk::Rows::kLast}, {&c, prompt.first(9), Chunk::Rows::kNone}};
  std::vector<float> logits;
  const auto run = [&](std::span<const Chunk> chunks) {
    const auto rows = runner.step(chunks);
    logits.assign(rows.begin(), rows.end());
  };
  run(together);
  ASSERT_EQ(logits.size(), 2 * v);
  expect_near(std::span(logits).first(v), std::span(short_last).last(v), static_cast<int64_t>(v), kTolerance, "short");
  expect_near(std::span(logits).last(v), std::span(long_last).last(v), static_cast<int64_t>(v), kTolerance, "long");
  // A token each; one crosses the border.
  b.truncate(kBorder);
  const Chunk tokens[] = {{&b, whole.subspan(kBorder, 1)}, {&c, prompt.subspan(9, 1)}};
  run(tokens);
  expect_near(std::span(logits).first(v), std::span(grown).subspan((kBorder - kFirst) * v, v), static_cast<int64_t>(v),
              kTolerance, "crossing");
  expect_near(std::span(logits).last(v), at_once(*engine, engine, prompt.first(10)), static_cast<int64_t>(v),
              kTolerance, "below");
}

// Pages of 64 tokens of a text below the border are not pages of a text beyond it.
TEST_P(TextRotations, PagesOfOtherRotationsAreNotShared) {
  constexpr int64_t kLater = 96;
  const auto engine = load(folder(kLater), 200, 2);
  std::vector<int32_t> text(150);
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<int32_t>(3 + i * 37 % 90);
  const auto all = std::span(text);
  Session first(engine);
  first.append(all.first(80));
  Sequence short_text(engine), long_text(engine);
  EXPECT_EQ(short_text.reuse(all.first(90)), 64);
  EXPECT_EQ(long_text.reuse(all.first(130)), 0);
  // The logits equal the logits of an engine that has computed nothing before.
  const std::vector<float> there = at_once(*engine, engine, all.first(130));
  const auto fresh = load(folder(kLater), 200, 2);
  EXPECT_EQ(there, at_once(*fresh, fresh, all.first(130)));
}

TEST_P(TextRotations, OfAConvertedFileAreTheSame) {
  const std::string path = testing::TempDir() + "rotations-" + std::to_string(::getpid()) + ".gguf";
  const std::string source = folder();
  llm::convert(Checkpoint::open(source), path, {.type = find_file_type(std::string_view("f32")), .threads = 2});
  const std::vector<int32_t> text = ids();
  for (const size_t count : {static_cast<size_t>(kBorder), text.size()}) {
    const auto of_folder = load(source), of_file = load(path);
    const auto prompt = std::span(text).first(count);
    EXPECT_EQ(at_once(*of_file, of_file, prompt), at_once(*of_folder, of_folder, prompt));
  }
  std::filesystem::remove(path);
}

// Drafts are verified with the rotation that each token alone would have; and the files are of GGUF.
TEST_P(TextRotations, DraftedTokensAreThoseOfPlainGeneration) {
  test::TinyModel model = test::tiny_llama({.tied = false});
  model.fields["rope.scaling.original_context_length"] = kBorder;
  if (is_dynamic()) {
    model.fields["rope.scaling.type"] = std::string("none");
    model.fields["rope.scaling.dynamic_factor"] = 4.0f;
  } else {
    model.fields["rope.scaling.type"] = std::string("longrope");
    model.tensors["rope_factors_short.weight"] = {.shape = {16}, .values = std::vector<float>(16, 1)};
    model.tensors["rope_factors_long.weight"] = {.shape = {16}, .values = std::vector<float>(16, 3)};
  }
  const auto engine = load(model.write("rotations"));
  const std::vector<int32_t> prompt = {10, 200, 31, 7, 100, 200, 31, 7};
  const auto greedy = [&](const std::shared_ptr<Drafter>& drafter) {
    Session session(engine);
    GenerateOptions options{.max_tokens = 40, .ignore_end = true, .drafter = drafter};
    options.sampler.temperature = 0;
    return generate(session, prompt, options).token_ids;
  };
  const std::vector<int32_t> plain = greedy(nullptr);
  EXPECT_EQ(plain.size(), 40u);
  EXPECT_EQ(greedy(std::make_shared<PromptLookup>(8)), plain);
  // And each is the best one after a pass over all before it.
  std::vector<int32_t> text = prompt;
  for (const int32_t token : plain) {
    const std::vector<float> logits = at_once(*engine, engine, text);
    EXPECT_EQ(std::ranges::max_element(logits) - logits.begin(), token) << "after " << text.size();
    text.push_back(token);
  }
}

INSTANTIATE_TEST_SUITE_P(Both, TextRotations, testing::Values("dynamic", "longrope"),
                         [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace gabbro
