// Answers of tiny T5 models against the greedy ones of transformers (tests/data/encoders,
// tests/reference/make_encoder_fixtures.py): token by token, from a converted file, of cut sequences and of several.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

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

// There may be more sequences than the cache has room for: one that lost its text is encoded again.
TEST(TextToTextRunner, SequencesTakeTurnsInTheCache) {
  const ExpectedAnswer expected = read_answer(t5_folder("t5"));
  const auto engine = Engine::load(in_f32(t5_folder("t5")), {.threads = 1, .sequences = 1});
  Session first(engine), second(engine);
  std::vector<int32_t> a{best_of(first.append(expected.text))}, b{best_of(second.append(expected.text))};
  while (a.size() < 6) {
    a.push_back(best_of(first.append(std::span(&a.back(), 1))));
    b.push_back(best_of(second.append(std::span(&b.back(), 1))));
  }
  EXPECT_EQ(a, std::vector(expected.answer.begin(), expected.answer.begin() + 6));
  EXPECT_EQ(b, a);
}

// A text that begins with a former text and its answer is encoded as a whole.
TEST(TextToTextRunner, NoOtherTextGoesOnFromAnAnswer) {
  const ExpectedAnswer expected = read_answer(t5_folder("t5"));
  const auto engine = Engine::load(t5_folder("t5"), {.threads = 1});
  Runner runner(engine);
  Sequence sequence(engine);
  const Chunk text{&sequence, expected.text};
  runner.step(std::span(&text, 1));
  std::vector<int32_t> longer = expected.text;
  longer.push_back(7);
  EXPECT_EQ(sequence.beginning_of(longer), 0);
  EXPECT_LE(runner.draft_room(sequence), 0);
}

TEST(TextToTextFacts, CountTheCacheOfATextAndItsAnswer) {
  const auto engine = Engine::load(t5_folder("t5"), {.threads = 1, .context = 128, .sequences = 3});
  const ModelFacts& facts = engine->facts();
  EXPECT_EQ(engine->kv_bytes_read(10), 10 * facts.kv_bytes_per_token);
  EXPECT_EQ(facts.state_bytes, static_cast<uint64_t>(facts.context_trained) / 2 * facts.kv_bytes_per_token);
  EXPECT_EQ(facts.cache_bytes, 3 * (128 * facts.kv_bytes_per_token + facts.state_bytes));
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

// The fixture's model with one head of 32 elements, which blocks divide.
std::string t5_with_one_head() {
  const std::string folder = in_f32(t5_folder("t5"));
  const safetensors::File file(folder + "/model.safetensors");
  std::vector<safetensors::TensorData> tensors;
  std::deque<std::vector<float>> biases;  // [buckets, 1]
  for (const safetensors::TensorInfo& tensor : file.tensors()) {
    tensors.push_back({tensor.name, tensor.dtype(), tensor.shape, tensor.data});
    if (tensor.name.find("relative_attention_bias") == std::string::npos) continue;
    std::vector<float>& column = biases.emplace_back();
    const auto* values = reinterpret_cast<const float*>(tensor.data.data());
    for (int64_t bucket = 0; bucket < tensor.shape[0]; ++bucket) column.push_back(values[bucket * tensor.shape[1]]);
    tensors.back() = {tensor.name, DType::f32, {tensor.shape[0], 1}, std::as_bytes(std::span(column))};
  }
  const std::string path = folder + "-one-head";
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  safetensors::write(path + "/model.safetensors", tensors);
  std::ifstream from(folder + "/config.json");
  nlohmann::json config = nlohmann::json::parse(from);
  config["num_heads"] = 1;
  config["d_kv"] = 32;
  std::ofstream(path + "/config.json") << config;
  return path;
}

// Rounded keys and values move logits by no more than their type's rounding, of each of a dozen sums.
TEST(TextToTextRunner, KeepsKeysAndValuesInEachType) {
  const ExpectedAnswer expected = read_answer(t5_folder("t5"));
  const std::string folder = t5_with_one_head();
  const auto logits = [&](std::optional<DType> kv_type) {
    const auto engine = Engine::load(folder, {.threads = 1, .kv_type = kv_type});
    EXPECT_EQ(engine->facts().kv_type, kv_type.value_or(DType::f32));
    Session session(engine);
    session.append(expected.text);
    std::vector<float> last;
    for (const int32_t token : expected.answer) {
      const std::span<const float> row = session.append(std::span(&token, 1));
      last.assign(row.begin(), row.end());
    }
    return last;
  };
  const std::vector<float> exact = logits(DType::f32);
  EXPECT_EQ(logits(std::nullopt), exact);
  const std::pair<DType, double> types[] = {
      {DType::bf16, 0x1p-8}, {DType::f16, 0x1p-11}, {DType::q8_0, 1.0 / 127}, {DType::q4_0, 1.0 / 8}};
  for (const auto& [kv_type, rounding] : types) {
    SCOPED_TRACE(dtype_name(kv_type));
    const std::vector<float> rounded = logits(kv_type);
    EXPECT_NE(rounded, exact);
    expect_near(rounded, exact, std::ssize(exact), 12 * rounding, "last token");
  }
  const std::string odd = in_f32(t5_folder("t5"));
  try {
    Engine::load(odd, {.threads = 1, .kv_type = DType::q4_0});
    ADD_FAILURE() << "heads of 8 elements have no blocks of 32";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    EXPECT_NE(std::string(error.what()).find("blocks of 32 elements, which do not divide this model's heads of 8"),
              std::string::npos);
  }
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
