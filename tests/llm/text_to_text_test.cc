// Answers of tiny T5 models against the greedy ones of transformers (tests/data/encoders,
// tests/reference/make_encoder_fixtures.py): token by token, from a converted file, of cut sequences and of several.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "src/backend/registry.h"
#include "src/base/error.h"
#include "src/engine/conversion.h"
#include "src/engine/runner.h"
#include "src/plan/eval.h"
#include "tests/llm/expected_logits.h"
#include "tests/llm/family_folder.h"

namespace gabbro {
namespace {

struct ExpectedAnswer {
  std::vector<int32_t> text, answer;
};

std::string t5_folder(const std::string& name) { return GABBRO_SOURCE_DIR "/tests/data/encoders/" + name; }

// The first text of the fixture.
ExpectedAnswer read_answer(const std::string& folder) {
  const safetensors::File file(folder + "/expected.safetensors");
  std::vector<int32_t> ids = values_of<int32_t>(file, "ids");
  ids.resize(static_cast<size_t>(values_of<int32_t>(file, "lengths").front()));
  return {.text = ids, .answer = values_of<int32_t>(file, "answer")};
}

int32_t best_of(std::span<const float> logits) {
  return static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
}

// `count` greedy tokens after what the session has and `tokens`.
std::vector<int32_t> greedy_answer(Session& session, std::span<const int32_t> tokens, size_t count) {
  std::vector<int32_t> answer{best_of(session.append(tokens))};
  while (answer.size() < count) answer.push_back(best_of(session.append(std::span(&answer.back(), 1))));
  return answer;
}

class TextToText : public testing::TestWithParam<const char*> {};

TEST_P(TextToText, GreedyTokensAreThoseOfTransformers) {
  const ExpectedAnswer expected = read_answer(t5_folder(GetParam()));
  Session session(Engine::load(in_f32(t5_folder(GetParam())), {.threads = 1}));
  EXPECT_EQ(greedy_answer(session, expected.text, expected.answer.size()), expected.answer);
}

// A sequence goes on from where it is cut: in its answer, before it, and within the text.
TEST_P(TextToText, CutSequencesAnswerAsOthersDo) {
  const ExpectedAnswer expected = read_answer(t5_folder(GetParam()));
  const auto text = static_cast<int64_t>(expected.text.size());
  Session session(Engine::load(in_f32(t5_folder(GetParam())), {.threads = 1}));
  const std::vector<int32_t> first = greedy_answer(session, expected.text, 9);
  session.truncate(text + 3);
  EXPECT_EQ(greedy_answer(session, std::span(first).subspan(3, 1), 5), std::vector(first.begin() + 4, first.end()));
  for (const int64_t length : {text - 1, text / 2, int64_t{0}}) {
    session.truncate(length);
    EXPECT_EQ(greedy_answer(session, std::span(expected.text).subspan(static_cast<size_t>(length)), 9), first)
        << length;
  }
}

INSTANTIATE_TEST_SUITE_P(Both, TextToText, testing::Values("t5", "t5_gated"),
                         [](const auto& tested) { return std::string(tested.param); });

TEST(TextToTextFile, GivesTheBitsOfTheFolderItIsMadeOf) {
  const std::string folder = t5_folder("t5_gated");
  const std::string path = testing::TempDir() + "t5-" + std::to_string(::getpid()) + ".gguf";
  const ExpectedAnswer expected = read_answer(folder);
  const Checkpoint checkpoint = Checkpoint::open(folder);
  for (const char* type : {"f32", "bf16"}) {
    llm::convert(checkpoint, convertible_of(checkpoint), path,
                 {.type = find_file_type(std::string_view(type)), .threads = 1});
    const bool wide = std::string_view(type) == "f32";
    Session of_file(Engine::load(path, {.threads = 1}));
    Session of_folder(Engine::load(wide ? in_f32(folder) : folder, {.threads = 1}));
    const std::span<const float> a = of_file.append(expected.text), b = of_folder.append(expected.text);
    EXPECT_TRUE(std::ranges::equal(a, b)) << type;
    EXPECT_EQ(of_file.engine().facts().architecture, "t5");
    if (wide) {
      EXPECT_EQ(greedy_answer(of_file, std::span(expected.answer).first(1), 20),
                std::vector(expected.answer.begin() + 1, expected.answer.begin() + 21));
    }
  }
  std::filesystem::remove(path);
}

// Two texts in one step, and copies of a sequence, give the bits that each has alone.
TEST(TextToTextRunner, AnswersSeveralTextsAtOnce) {
  const ExpectedAnswer expected = read_answer(t5_folder("t5"));
  const auto engine = Engine::load(t5_folder("t5"), {.threads = 1, .sequences = 2});
  const std::vector<int32_t> other(expected.text.rbegin(), expected.text.rend());
  const auto alone = [&](const std::vector<int32_t>& text) {
    Session session(engine);
    session.append(text);
    const int32_t next[] = {7};
    const std::span<const float> logits = session.append(next);
    return std::vector(logits.begin(), logits.end());
  };
  const std::vector<float> first = alone(expected.text), second = alone(other);
  Runner runner(engine);
  Sequence a(engine), b(engine);
  const Chunk texts[] = {{&a, expected.text, Chunk::Rows::kLast}, {&b, other, Chunk::Rows::kNone}};
  runner.step(texts);
  Sequence copy(b);
  const int32_t next[] = {7};
  const Chunk tokens[] = {{&a, next, Chunk::Rows::kLast}, {&copy, next, Chunk::Rows::kLast}};
  const std::span<const float> logits = runner.step(tokens);
  ASSERT_EQ(logits.size(), first.size() + second.size());
  EXPECT_TRUE(std::ranges::equal(logits.first(first.size()), first));
  EXPECT_TRUE(std::ranges::equal(logits.subspan(first.size()), second));
}

// Steps of one token have one plan until the decoder makes room for more.
TEST(TextToTextRunner, StepsShareAPlan) {
  const auto device = open_device("auto", {.threads = 1});
  Session session(Engine::load(Checkpoint::open(t5_folder("t5")), {}, device));
  const ExpectedAnswer expected = read_answer(t5_folder("t5"));
  greedy_answer(session, expected.text, 4);
  const size_t before = plans_made(*device);
  greedy_answer(session, std::span(expected.answer).first(1), 8);
  EXPECT_EQ(plans_made(*device), before);
}

TEST(TextToTextRunner, RefusesWhatAnEncoderDecoderHasNot) {
  const std::string folder = t5_folder("t5");
  Session session(Engine::load(folder, {.threads = 1}));
  const int32_t text[] = {3, 4, 5};
  EXPECT_THROW(session.append_all_logits(text), Error);
  EXPECT_TRUE(session.tokens().empty());
  EXPECT_THROW(Engine::load(folder, {.memory = 1 << 20}), Error);
  EXPECT_THROW(Engine::load(folder, {.quantize = "q8_0"}), Error);
}

}  // namespace
}  // namespace gabbro
