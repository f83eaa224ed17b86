// Logits of a tiny model of each family, as transformers saves it, against those of transformers (tests/data/families,
// tests/reference/make_family_fixtures.py), of a whole prompt and token by token.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "gabbro/engine/session.h"
#include "src/models/llm/convert.h"
#include "tests/llm/expected_logits.h"
#include "tests/llm/family_folder.h"

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

class FamilyLogits : public testing::TestWithParam<std::string> {
 protected:
  std::string folder() const { return GABBRO_SOURCE_DIR "/tests/data/families/" + GetParam(); }
};

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
