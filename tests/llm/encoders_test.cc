// States, vectors and scores of a tiny encoder of each family against transformers' (tests/data/encoders,
// tests/reference/make_encoder_fixtures.py), for each text alone and for all together.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <filesystem>

#include "gabbro/engine/text_encoder.h"
#include "gabbro/graph/eval.h"
#include "src/engine/conversion.h"
#include "src/formats/hugging_face/safetensors.h"
#include "src/formats/quant/quant.h"
#include "src/models/encoder/registry.h"
#include "src/models/encoder/t5_decoder.h"
#include "tests/llm/expected_logits.h"

namespace gabbro {
namespace {

namespace files = std::filesystem;

std::vector<std::string> encoder_folders() {
  std::vector<std::string> names;
  for (const auto& entry : files::directory_iterator(GABBRO_SOURCE_DIR "/tests/data/encoders"))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

// Empty where the fixture has none.
template <class T>
std::vector<T> numbers_of(const safetensors::File& file, const std::string& name) {
  return file.tensor(name) != nullptr ? values_of<T>(file, name) : std::vector<T>{};
}

struct ExpectedTexts {
  std::vector<TokenizedText> texts;
  std::vector<float> states;  // [T, C]
  std::vector<float> pooled;  // [B, P]
  std::vector<float> scores;  // [B] of a reranker

  size_t tokens() const {
    size_t count = 0;
    for (const TokenizedText& text : texts) count += text.ids.size();
    return count;
  }
};

ExpectedTexts read_texts(const std::string& folder) {
  const safetensors::File file(folder + "/expected.safetensors");
  const auto ids = numbers_of<int32_t>(file, "ids"), types = numbers_of<int32_t>(file, "types");
  ExpectedTexts expected{.states = numbers_of<float>(file, "states"),
                         .pooled = numbers_of<float>(file, "pooled"),
                         .scores = numbers_of<float>(file, "scores")};
  size_t first = 0;
  for (const int32_t length : numbers_of<int32_t>(file, "lengths")) {
    const auto part = [&](const std::vector<int32_t>& all) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
      return all.empty() ? all : std::vector<int32_t>(begin, begin + length);
    };
    expected.texts.push_back({.ids = part(ids), .types = part(types)});
    first += static_cast<size_t>(length);
  }
  return expected;
}

// The folder's safetensors files with values in f32.
void convert_file(const files::path& from, const files::path& to) {
  const safetensors::File file(from.string());
  std::deque<std::vector<float>> values;
  std::vector<safetensors::TensorData> tensors;
  for (const safetensors::TensorInfo& tensor : file.tensors()) {
    auto& converted = values.emplace_back(tensor.data.size() / 2);
    dequantize_row(tensor.dtype(), tensor.data.data(), converted.data(), std::ssize(converted));
    tensors.push_back({tensor.name, DType::f32, tensor.shape, std::as_bytes(std::span(converted))});
  }
  safetensors::write(to.string(), tensors);
}

std::string copy_in_f32(const std::string& folder) {
  const files::path copy = files::path(testing::TempDir()) / ("encoder-" + std::to_string(::getpid()));
  files::remove_all(copy);
  files::copy(folder, copy, files::copy_options::recursive);
  convert_file(files::path(folder) / "model.safetensors", copy / "model.safetensors");
  const files::path dense = files::path("2_Dense") / "model.safetensors";
  if (files::exists(folder / dense)) convert_file(folder / dense, copy / dense);
  return copy.string();
}

constexpr int64_t kLayers = 3;
const double kExact = f32_tolerance(kLayers), kRounded = weights_tolerance(DType::bf16, kLayers);

// Rows of `width` numbers: the length of each one's error relative to the row's.
void expect_rows(std::span<const float> actual, std::span<const float> expected, size_t width, double tolerance,
                 const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t row = 0; row < expected.size(); row += width) {
    double length = 0, error = 0;
    for (size_t i = row; i < row + width; ++i) {
      length += static_cast<double>(expected[i]) * expected[i];
      error += std::pow(static_cast<double>(actual[i]) - expected[i], 2);
    }
    EXPECT_LE(std::sqrt(error), tolerance * std::sqrt(length)) << what << ", row " << row / width;
  }
}

class EncoderFamily : public testing::TestWithParam<std::string> {
 protected:
  std::string folder() const { return GABBRO_SOURCE_DIR "/tests/data/encoders/" + GetParam(); }
};

void expect_states(const std::string& path, const ExpectedTexts& expected, double tolerance) {
  const auto device = open_device("auto", {.threads = 2});
  const auto model = encoder::load_encoder(Checkpoint::open(path), device, {});
  const auto width = static_cast<size_t>(model->config().shape.embedding);
  const auto states_of = [&](std::span<const TokenizedText> texts) {
    std::vector<encoder::EncoderText> inputs;
    for (const TokenizedText& text : texts) inputs.push_back({.ids = text.ids, .types = text.types});
    return to_host<float>(model->forward(encoder::make_batch(device, inputs)));
  };
  expect_rows(states_of(expected.texts), expected.states, width, tolerance, "together");
  size_t first = 0;
  for (const TokenizedText& text : expected.texts) {
    const std::span<const float> own = std::span(expected.states).subspan(first * width, text.ids.size() * width);
    expect_rows(states_of(std::span(&text, 1)), own, width, tolerance, "alone");
    first += text.ids.size();
  }
}

void expect_results(const std::string& path, const ExpectedTexts& expected, double tolerance) {
  const auto model = TextEncoder::load(path, {.threads = 2});
  if (!expected.scores.empty()) {
    EXPECT_EQ(model->facts().pooling, "rank");
    const std::vector<float> scores = model->score_tokens(expected.texts, {.raw = true});
    for (size_t i = 0; i < scores.size(); ++i) EXPECT_NEAR(scores[i], expected.scores[i], 4 * tolerance) << i;
    return;
  }
  const std::vector<float> vectors = model->embed_tokens(expected.texts, {.normalized = false});
  expect_rows(vectors, expected.pooled, static_cast<size_t>(model->facts().dimensions), tolerance, "vectors");
}

TEST_P(EncoderFamily, InF32GivesWhatTransformersGives) {
  const std::string copy = copy_in_f32(folder());
  expect_states(copy, read_texts(folder()), kExact);
  expect_results(copy, read_texts(folder()), kExact);
}

TEST_P(EncoderFamily, InBf16GivesWhatTransformersGives) {
  expect_states(folder(), read_texts(folder()), kRounded);
  expect_results(folder(), read_texts(folder()), kRounded);
}

// The states of all texts, from which the vectors and scores are made.
std::vector<float> all_states(const std::string& path, const ExpectedTexts& expected) {
  const auto device = open_device("auto", {.threads = 2});
  std::vector<encoder::EncoderText> inputs;
  for (const TokenizedText& text : expected.texts) inputs.push_back({.ids = text.ids, .types = text.types});
  return to_host<float>(
      encoder::load_encoder(Checkpoint::open(path), device, {})->forward(encoder::make_batch(device, inputs)));
}

// The GGUF file of a folder holds the same numbers, under its own names.
TEST_P(EncoderFamily, GivesTheSameToTheBitFromTheConvertedFile) {
  const ExpectedTexts expected = read_texts(folder());
  const std::string path = testing::TempDir() + "encoder-" + std::to_string(::getpid()) + ".gguf";
  const Checkpoint checkpoint = Checkpoint::open(folder());
  if (GetParam() == "mpnet" || GetParam() == "clip_text" || GetParam() == "t5") {  // the last has other buckets
    EXPECT_THROW(convertible_of(checkpoint), Error);
    return;
  }
  for (const char* type : {"f32", "bf16"}) {
    llm::convert(checkpoint, convertible_of(checkpoint), path,
                 {.type = find_file_type(std::string_view(type)), .threads = 2});
    const bool wide = std::string_view(type) == "f32";
    EXPECT_EQ(all_states(path, expected), all_states(wide ? copy_in_f32(folder()) : folder(), expected)) << type;
    expect_results(path, expected, wide ? kExact : kRounded);
  }
  files::remove(path);
}

// Tokens of T5's decoder that follow the states of the first text.
class T5DecoderLogits : public testing::TestWithParam<std::string> {};

TEST_P(T5DecoderLogits, AreThoseOfTransformers) {
  const std::string folder = GABBRO_SOURCE_DIR "/tests/data/encoders/" + GetParam();
  const safetensors::File file(folder + "/expected.safetensors");
  const ExpectedTexts expected = read_texts(folder);
  const auto device = open_device("auto", {.threads = 2});
  for (const auto& [path, tolerance] : {std::pair(copy_in_f32(folder), kExact), {folder, kRounded}}) {
    const encoder::T5Model model = encoder::load_t5(Checkpoint::open(path), device, {});
    const encoder::EncoderText text{.ids = expected.texts[0].ids},
        tokens{.ids = numbers_of<int32_t>(file, "decoder_ids")};
    EXPECT_EQ(model.start_token, tokens.ids.front());
    const Tensor states = model.encoder->forward(encoder::make_batch(device, std::span(&text, 1)));
    const Tensor logits = model.decoder->forward(encoder::make_batch(device, std::span(&tokens, 1)), states);
    expect_rows(to_host<float>(logits), numbers_of<float>(file, "logits"), static_cast<size_t>(logits.shape()[1]),
                tolerance, path);
  }
}

INSTANTIATE_TEST_SUITE_P(Both, T5DecoderLogits, testing::Values("t5", "t5_gated"),
                         [](const auto& tested) { return tested.param; });

INSTANTIATE_TEST_SUITE_P(All, EncoderFamily, testing::ValuesIn(encoder_folders()),
                         [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace gabbro
