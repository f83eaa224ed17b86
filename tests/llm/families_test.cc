// Logits of a tiny model of each family, as transformers saves it, against those of transformers (tests/data/families,
// tests/reference/make_family_fixtures.py), of a whole prompt and token by token.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <filesystem>
#include <vector>

#include "gabbro/engine/session.h"
#include "src/formats/quant/quant.h"
#include "src/formats/safetensors.h"
#include "src/models/llm/convert.h"

namespace gabbro {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> families() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(GABBRO_SOURCE_DIR "/tests/data/families"))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

struct Expected {
  std::vector<int32_t> ids;
  std::vector<float> logits;  // [T, V]

  int64_t vocabulary() const { return std::ssize(logits) / std::ssize(ids); }
};

template <class T>
std::vector<T> values_of(const safetensors::File& file, const std::string& name) {
  const safetensors::TensorInfo* const tensor = file.tensor(name);
  if (tensor == nullptr) throw std::runtime_error(file.path() + " has no " + name);
  std::vector<T> values(tensor->data.size() / sizeof(T));
  std::memcpy(values.data(), tensor->data.data(), tensor->data.size());
  return values;
}

Expected read_expected(const std::string& folder) {
  const safetensors::File file(folder + "/expected.safetensors");
  return {.ids = values_of<int32_t>(file, "ids"), .logits = values_of<float>(file, "logits")};
}

// The same model with weights in f32, in a temporary folder.
std::string in_f32(const std::string& folder) {
  const fs::path copy = fs::path(testing::TempDir()) / ("family-" + std::to_string(::getpid()));
  fs::remove_all(copy);
  fs::create_directories(copy);
  fs::copy_file(fs::path(folder) / "config.json", copy / "config.json");
  const safetensors::File file(folder + "/model.safetensors");
  std::deque<std::vector<float>> values;
  std::vector<safetensors::TensorData> tensors;
  for (const safetensors::TensorInfo& tensor : file.tensors()) {
    auto& converted = values.emplace_back(tensor.data.size() / 2);
    dequantize_row(tensor.dtype(), tensor.data.data(), converted.data(), std::ssize(converted));
    tensors.push_back({tensor.name, DType::f32, tensor.shape, std::as_bytes(std::span(converted))});
  }
  safetensors::write((copy / "model.safetensors").string(), tensors);
  return copy.string();
}

// Keys and values are f16 in both, with a spacing of 2^-10 at most; few of some hundred round to another neighbor.
constexpr double kTolerance = 0x1p-13;
// The kernels for many tokens round activations to the precision of 16-bit weights.
constexpr double kToleranceHalf = 1e-2;

// Rows of logits [T, V]; `tolerance` is the length of a row's error relative to the length of the row.
void expect_near(std::span<const float> actual, std::span<const float> expected, int64_t vocabulary, double tolerance,
                 const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  const auto v = static_cast<size_t>(vocabulary);
  for (size_t row = 0; row < expected.size(); row += v) {
    double length = 0, error = 0, worst = 0;
    size_t at = row;
    for (size_t i = row; i < row + v; ++i) {
      const double difference = static_cast<double>(actual[i]) - expected[i];
      length += static_cast<double>(expected[i]) * expected[i];
      error += difference * difference;
      if (std::fabs(difference) <= worst) continue;
      worst = std::fabs(difference);
      at = i;
    }
    EXPECT_LE(std::sqrt(error), tolerance * std::sqrt(length)) << what << ", row " << row / v << ": logit " << at - row
                                                               << " is " << actual[at] << ", expected " << expected[at];
  }
}

class FamilyLogits : public testing::TestWithParam<std::string> {
 protected:
  std::string folder() const { return GABBRO_SOURCE_DIR "/tests/data/families/" + GetParam(); }
};

void expect_logits(const std::string& folder, const Expected& expected, double tolerance) {
  const auto v = static_cast<size_t>(expected.vocabulary());
  const auto engine = Engine::load(folder, {.threads = 2});
  Session prompt(engine);
  expect_near(prompt.append_all_logits(expected.ids), expected.logits, expected.vocabulary(), tolerance, "prompt");

  constexpr size_t kSteps = 8;
  const size_t before = expected.ids.size() - kSteps;
  Session steps(engine);
  steps.append(std::span(expected.ids).first(before));
  for (size_t i = before; i < expected.ids.size(); ++i) {
    const std::span<const float> logits = steps.append(std::span(expected.ids).subspan(i, 1));
    expect_near(logits, std::span(expected.logits).subspan(i * v, v), expected.vocabulary(), tolerance,
                "step at " + std::to_string(i));
  }
}

TEST_P(FamilyLogits, InF32AreThoseOfTransformersForAPromptAndForCachedSteps) {
  expect_logits(in_f32(folder()), read_expected(folder()), kTolerance);
}

TEST_P(FamilyLogits, InBf16AreThoseOfTransformersForAPromptAndForCachedSteps) {
  expect_logits(folder(), read_expected(folder()), kToleranceHalf);
}

std::vector<float> logits_of(const std::string& path, const Expected& expected) {
  Session session(Engine::load(path, {.threads = 2}));
  const std::span<const float> logits = session.append_all_logits(expected.ids);
  return {logits.begin(), logits.end()};
}

// The GGUF file of a folder holds the same numbers, under its own names and in its own order.
TEST_P(FamilyLogits, AreTheSameToTheBitFromTheConvertedFile) {
  const Expected expected = read_expected(folder());
  const std::string path = testing::TempDir() + "family-" + std::to_string(::getpid()) + ".gguf";
  for (const char* type : {"f32", "bf16"}) {
    llm::convert(Checkpoint::open(folder()), path, {.type = find_file_type(std::string_view(type)), .threads = 2});
    const std::string source = std::string_view(type) == "f32" ? in_f32(folder()) : folder();
    EXPECT_EQ(logits_of(path, expected), logits_of(source, expected)) << type;
  }
  fs::remove(path);
}

INSTANTIATE_TEST_SUITE_P(All, FamilyLogits, testing::ValuesIn(families()),
                         [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace gabbro
