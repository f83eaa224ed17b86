// A tiny model of each family, its tensors cut for devices of the simulator, three (uneven parts) or the numbers of
// GABBRO_SPLIT_DEVICES ("1,2,3,4"): the logits and the
// most likely tokens equal those that transformers gives (tests/data/families).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "gabbro/engine/session.h"
#include "src/base/error.h"
#include "tests/llm/expected_logits.h"
#include "tests/llm/family_folder.h"

namespace gabbro::shards_test {
namespace {

using testing::HasSubstr;

constexpr size_t kPrompt = 5, kSteps = 3;

size_t best_of(std::span<const float> logits) {
  return static_cast<size_t>(std::ranges::max_element(logits) - logits.begin());
}

constexpr std::string_view kAllNumbers[] = {"llama", "gpt_oss", "deepseek_v3", "mixtral", "falcon_h1", "qwen3_next"};

// Families that no tensor split runs.
const std::map<std::string, std::string> kRefused = {
    {"gemma3n", "models of architecture gemma3n_text cannot be split by tensors"}};

std::vector<std::string> all_families() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(GABBRO_SOURCE_DIR "/tests/data/families"))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

// Families of each kind of mixer and of experts are cut for two and four devices as well.
std::vector<size_t> numbers_of_devices(const std::string& family) {
  const char* const text = std::getenv("GABBRO_SPLIT_DEVICES");
  if (text == nullptr) {
    const bool all = std::ranges::find(kAllNumbers, family) != std::end(kAllNumbers);
    return all ? std::vector<size_t>{2, 3, 4} : std::vector<size_t>{3};
  }
  std::vector<size_t> numbers;
  std::istringstream list(text);
  for (std::string one; std::getline(list, one, ',');) numbers.push_back(std::stoul(one));
  return numbers;
}

class ShardedFamily : public testing::TestWithParam<std::string> {
 protected:
  ShardedFamily() {
    ::setenv("GABBRO_SIM_DEVICES", "5", 1);
    ::setenv("GABBRO_SIM_WAVE", "32", 1);
  }
  ~ShardedFamily() override {
    ::unsetenv("GABBRO_SIM_DEVICES");
    ::unsetenv("GABBRO_SIM_WAVE");
  }

  static LoadOptions on(size_t devices) {
    LoadOptions options{.split = Split::kTensor, .context = 128};
    for (size_t i = 0; i < devices; ++i) options.devices.push_back("sim:" + std::to_string(i));
    return options;
  }

  // Logits of a prompt, and of steps of one token after it.
  static std::vector<float> logits_of(const std::shared_ptr<Engine>& engine, std::span<const int32_t> ids) {
    Session session(engine);
    const size_t before = ids.size() - kSteps;
    const std::span<const float> first = session.append_all_logits(ids.first(before));
    std::vector<float> logits(first.begin(), first.end());
    for (size_t i = before; i < ids.size(); ++i) {
      const std::span<const float> one = session.append(ids.subspan(i, 1));
      logits.insert(logits.end(), one.begin(), one.end());
    }
    return logits;
  }

  static std::string message(const std::string& path, const LoadOptions& options) {
    try {
      Engine::load(path, options);
    } catch (const Error& error) {
      return std::string(error.what()) + " | " + error.hint();
    }
    return "loaded";
  }
};

INSTANTIATE_TEST_SUITE_P(Families, ShardedFamily, testing::ValuesIn(all_families()),
                         [](const auto& family) { return family.param; });

TEST_P(ShardedFamily, HasTheLogitsOfTheModelAndTheTokensOfOneDevice) {
  const std::string folder = in_f32(family_folder(GetParam()));
  if (const auto refused = kRefused.find(GetParam()); refused != kRefused.end()) {
    EXPECT_THAT(message(folder, on(2)), HasSubstr(refused->second));
    return;
  }
  const Expected expected = read_expected(family_folder(GetParam()));
  const auto v = static_cast<size_t>(expected.vocabulary());
  const std::span<const int32_t> ids = std::span(expected.ids).first(kPrompt + kSteps);
  const std::span<const float> theirs = std::span(expected.logits).first(ids.size() * v);
  for (const size_t devices : numbers_of_devices(GetParam())) {
    const std::string what = GetParam() + " on " + std::to_string(devices) + " devices";
    const std::vector<float> logits = logits_of(Engine::load(folder, on(devices)), ids);
    expect_near(logits, theirs, expected.vocabulary(), kTolerance, what);
    for (size_t row = 0; row < logits.size(); row += v)
      EXPECT_EQ(best_of(std::span(logits).subspan(row, v)), best_of(theirs.subspan(row, v))) << what << ", " << row / v;
  }
}

// Heads of attention, of state spaces and of latents: the numbers of devices that fit are named.
TEST_F(ShardedFamily, RefusesMoreDevicesThanThereAreHeads) {
  for (const char* const name : {"llama", "deepseek_v3", "qwen3_next"}) {
    EXPECT_EQ(message(family_folder(name), on(5)).substr(0, 8), "4 heads ") << name;
    EXPECT_THAT(message(family_folder(name), on(5)), HasSubstr("these numbers of devices fit: 1, 2, 3, 4")) << name;
  }
}

}  // namespace
}  // namespace gabbro::shards_test
