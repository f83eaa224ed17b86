// Models whose tensors are cut for several devices of the simulator: the logits of one device but for the order of
// sums, the same bits on each repetition, and each device reads its own part of the file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "gabbro/engine/session.h"
#include "src/base/error.h"
#include "tests/llm/expected_logits.h"
#include "tests/llm/family_folder.h"
#include "tests/llm/tiny_model.h"

namespace gabbro::shards_test {
namespace {

using testing::HasSubstr;

constexpr size_t kPromptTokens = 9, kStepTokens = 3;

class Shards : public testing::TestWithParam<std::string> {
 protected:
  Shards() {
    set("GABBRO_SIM_DEVICES", "4");
    set("GABBRO_SIM_WAVE", "32");
  }
  ~Shards() override {
    for (const std::string& name : names_) ::unsetenv(name.c_str());
  }
  void set(const char* name, const std::string& value) {
    ::setenv(name, value.c_str(), 1);
    names_.emplace_back(name);
  }

  static LoadOptions on(size_t devices) {
    LoadOptions options{.split = Split::kTensor, .context = 128};
    for (size_t i = 0; i < devices; ++i) options.devices.push_back("sim:" + std::to_string(i));
    return options;
  }

  // Logits of all tokens of a prompt, and of steps of one token after it.
  static std::vector<float> logits_of(const std::string& path, const std::vector<int32_t>& ids,
                                      const LoadOptions& options) {
    const auto engine = Engine::load(path, options);
    Session session(engine);
    const std::span<const int32_t> all(ids);
    const std::span<const float> first = session.append_all_logits(all.first(kPromptTokens));
    std::vector<float> logits(first.begin(), first.end());
    for (size_t i = kPromptTokens; i < kPromptTokens + kStepTokens; ++i) {
      const std::span<const float> one = session.append(all.subspan(i, 1));
      logits.insert(logits.end(), one.begin(), one.end());
    }
    return logits;
  }

  static const std::string& tiny() {
    static const std::string path = test::tiny_llama().write("shards");
    return path;
  }
  static std::vector<int32_t> tiny_ids() { return {5, 17, 200, 9, 11, 42, 7, 1, 99, 3, 250, 8}; }

 private:
  std::vector<std::string> names_;
};

using ShardedFamily = Shards;

// Tied and own heads, biases, windows, soft caps, norms of queries and keys, mixtures, parallel blocks.
INSTANTIATE_TEST_SUITE_P(Families, ShardedFamily,
                         testing::Values("llama", "gemma2", "gemma3", "gpt2", "bloom", "qwen2", "qwen3", "qwen3_moe",
                                         "gpt_oss", "phi3", "falcon", "mixtral"));

TEST_P(ShardedFamily, HasTheLogitsOfTheModel) {
  const std::string folder = in_f32(family_folder(GetParam()));
  const Expected expected = read_expected(family_folder(GetParam()));
  const auto v = static_cast<size_t>(expected.vocabulary());
  expect_near(logits_of(folder, expected.ids, on(2)),
              std::span(expected.logits).first((kPromptTokens + kStepTokens) * v), expected.vocabulary(), kTolerance,
              GetParam());
}

}  // namespace
}  // namespace gabbro::shards_test
