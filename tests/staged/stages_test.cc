// Models whose layers are on several devices of the simulator: the logits of one device, to the bit where all devices
// have waves of one size.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "gabbro/engine/session.h"
#include "src/base/error.h"
#include "src/engine/runner.h"
#include "tests/llm/expected_logits.h"
#include "tests/llm/family_folder.h"
#include "tests/llm/tiny_model.h"

namespace gabbro {
namespace {

using testing::HasSubstr;

constexpr size_t kPrompt = 9, kSteps = 3;

// Variables of the simulator, until the end of a test.
class Stages : public testing::TestWithParam<std::string> {
 protected:
  Stages() {
    set("GABBRO_SIM_DEVICES", "4");
    set("GABBRO_SIM_WAVE", "32");
  }
  ~Stages() override {
    for (const std::string& name : names_) ::unsetenv(name.c_str());
  }
  void set(const char* name, const std::string& value) {
    ::setenv(name, value.c_str(), 1);
    names_.emplace_back(name);
  }

  // Logits of all tokens of a prompt, and of steps of one token after it.
  static std::vector<float> logits_of(const std::string& path, const std::vector<int32_t>& ids,
                                      const LoadOptions& options) {
    const auto engine = Engine::load(path, options);
    Session session(engine);
    const std::span<const int32_t> all(ids);
    const std::span<const float> first = session.append_all_logits(all.first(kPrompt));
    std::vector<float> logits(first.begin(), first.end());
    for (size_t i = kPrompt; i < kPrompt + kSteps; ++i) {
      const std::span<const float> one = session.append(all.subspan(i, 1));
      logits.insert(logits.end(), one.begin(), one.end());
    }
    return logits;
  }

  static const std::string& tiny() {
    static const std::string path = test::tiny_llama().write("stages");
    return path;
  }
  static std::vector<int32_t> tiny_ids() { return {5, 17, 200, 9, 11, 42, 7, 1, 99, 3, 250, 8}; }

 private:
  std::vector<std::string> names_;
};

LoadOptions on(std::vector<std::string> devices) {
  return {.devices = std::move(devices), .split = Split::kLayers, .context = 128};
}

using StagedFamily = Stages;

// Tied and own heads, windows, latents, mixtures, recurrent states, learned positions, biases of attention.
INSTANTIATE_TEST_SUITE_P(Families, StagedFamily,
                         testing::Values("llama", "gemma2", "gemma3", "gpt2", "bloom", "qwen3_moe", "deepseek_v3",
                                         "mamba2", "falcon_h1", "lfm2", "qwen3_next", "gpt_oss", "phi3"));

TEST_P(StagedFamily, HasTheLogitsOfOneDevice) {
  const std::string folder = family_folder(GetParam());
  const std::vector<int32_t> ids = read_expected(folder).ids;
  const std::vector<float> one = logits_of(folder, ids, {.device = "sim:0", .context = 128});
  EXPECT_TRUE(logits_of(folder, ids, on({"sim:0", "sim:1"})) == one);
}

TEST_F(Stages, AnyRouteAndOrderOfTheStreamsGivesTheSameBits) {
  const std::vector<float> one = logits_of(tiny(), tiny_ids(), {.device = "sim:0", .context = 128});
  for (const char* const peers : {"1", "0"}) {
    set("GABBRO_PEER_COPIES", peers);
    for (const char* const seed : {"0", "1", "2"}) {
      set("GABBRO_SIM_STREAM_SEED", seed);
      EXPECT_TRUE(logits_of(tiny(), tiny_ids(), on({"sim:1", "sim:0"})) == one) << peers << seed;
    }
  }
}

TEST_F(Stages, OfThreeDevicesWithShares) {
  const std::string folder = family_folder("gemma3");  // seven layers
  const std::vector<int32_t> ids = read_expected(folder).ids;
  const std::vector<float> one = logits_of(folder, ids, {.device = "sim:0", .context = 128});
  LoadOptions options = on({"sim:2", "sim:0", "sim:3"});
  options.shares = {1, 4, 2};
  EXPECT_TRUE(logits_of(folder, ids, options) == one);
  const auto engine = Engine::load(folder, options);
  EXPECT_EQ(engine->facts().device_id, "sim:2+sim:0+sim:3");
  EXPECT_THAT(engine->facts().device_name, HasSubstr("(layers 0-0), "));
}

TEST_F(Stages, OfDifferentWavesAndACpu) {
  set("GABBRO_SIM_WAVE", "");
  const std::string folder = in_f32(family_folder("llama"));
  const Expected expected = read_expected(family_folder("llama"));
  const auto v = static_cast<size_t>(expected.vocabulary());
  for (const auto& devices :
       {std::vector<std::string>{"sim:0", "sim:1"}, {"sim:1", "cpu"}, {"cpu", "sim:0"}, {"sim:0", "cpu", "sim:1"}}) {
    expect_near(logits_of(folder, expected.ids, on(devices)), std::span(expected.logits).first((kPrompt + kSteps) * v),
                expected.vocabulary(), kTolerance, devices[0] + " and " + devices[1]);
  }
}

// A step of two parts, which two stages compute by turns.
TEST_F(Stages, PromptsOfManyParts) {
  std::vector<int32_t> prompt;
  for (int i = 0; i < 600; ++i) prompt.push_back(i * 7 % 300);
  const auto all_logits = [&](const LoadOptions& options) {
    Session session(Engine::load(tiny(), options));
    const std::span<const float> logits = session.append_all_logits(prompt);
    return std::vector<float>(logits.begin(), logits.end());
  };
  const LoadOptions one{.device = "sim:0", .context = 640},
      two{.devices = {"sim:0", "sim:1"}, .split = Split::kLayers, .context = 640};
  const std::vector<float> expected = all_logits(one);
  set("GABBRO_SIM_STREAM_SEED", "3");
  EXPECT_TRUE(all_logits(two) == expected);
}

// Steps of the most likely tokens, and of samplers, are queued ahead as on one device.
TEST_F(Stages, StepsAreQueuedAhead) {
  set("GABBRO_SIM_STREAM_SEED", "1");
  const auto tokens_of = [&](const LoadOptions& options, float temperature) {
    const auto engine = Engine::load(tiny(), options);
    Sequence sequence(engine);
    Runner runner(engine);
    Sampler sampler({.temperature = temperature, .seed = 7}, engine->facts().vocabulary);
    Sampler* const samplers[] = {&sampler};
    std::vector<int32_t> tokens = {5, 17, 200};
    std::vector<int32_t> all;
    for (int i = 0; i < 6; ++i) {
      const Chunk chunk{&sequence, tokens};
      const std::span<const Chunk> chunks(&chunk, 1);
      const std::span<const int32_t> found = temperature == 0 ? runner.step_greedy(chunks, nullptr, true)
                                                              : runner.step_tokens(chunks, samplers, nullptr, true);
      tokens = {found[0]};
      sampler.accept(found[0]);
      all.push_back(found[0]);
    }
    EXPECT_GT(runner.steps_queued_before(), 2);
    return all;
  };
  for (const float temperature : {0.0f, 1.0f})
    EXPECT_EQ(tokens_of(on({"sim:0", "sim:1"}), temperature),
              tokens_of({.device = "sim:0", .context = 128}, temperature));
}

TEST_F(Stages, RefusesWhatItCannotSplit) {
  const auto message = [](const std::string& path, const LoadOptions& options) -> std::string {
    try {
      Engine::load(path, options);
    } catch (const Error& error) {
      return error.what();
    }
    return "loaded";
  };
  EXPECT_EQ(message(tiny(), on({"sim:0", "sim:1", "sim:2"})), "a model of 2 layers cannot be split over 3 devices");
  EXPECT_EQ(message(tiny(), on({"sim:0", "sim:0"})), "--devices: sim:0 is there twice");
  EXPECT_EQ(message(tiny(), on({"sim:0", "sim:9"})).substr(0, 29), "there is no device 'sim:9'");
  LoadOptions streamed = on({"sim:0", "sim:1"});
  streamed.memory = 1 << 20;
  EXPECT_EQ(message(tiny(), streamed), "a model that is split over devices has no weights that are streamed");
  LoadOptions shares = on({"sim:0", "sim:1"});
  shares.shares = {1};
  EXPECT_EQ(message(tiny(), shares), "--tensor-split: 1 shares for 2 devices");
  EXPECT_THAT(message(family_folder("gemma3n"), on({"sim:0", "sim:1"})), HasSubstr("cannot be split by layers"));
}

// Whatever fails names the device, and the next model runs.
TEST_F(Stages, FaultsNameTheDevice) {
  const std::vector<float> one = logits_of(tiny(), tiny_ids(), {.device = "sim:0", .context = 128});
  const auto error_with = [&](const std::string& fault) -> std::string {
    set("GABBRO_SIM_FAIL", fault);
    try {
      EXPECT_TRUE(logits_of(tiny(), tiny_ids(), on({"sim:0", "sim:1"})) == one) << fault;
    } catch (const Error& thrown) {
      return thrown.what();
    }
    return "";
  };
  EXPECT_THAT(error_with("peer-error:8"), HasSubstr("copying from sim:0 to sim:1: sim: injected failure"));
  set("GABBRO_PEER_COPIES", "0");  // without the test of the pair, which takes a second
  for (const char* const fault : {"lost:3", "lost:12", "launch:6", "launch:14"})
    EXPECT_THAT(error_with(fault), HasSubstr("sim:")) << fault;
  int failures = 0;
  for (int n = 1; n <= 24; ++n) {
    const std::string error = error_with("malloc:" + std::to_string(n));
    if (error.empty()) continue;  // there was another way
    ++failures;
    EXPECT_THAT(error, HasSubstr("out of memory")) << n;
    EXPECT_THAT(error, HasSubstr("sim:")) << n;
  }
  EXPECT_GT(failures, 5);
  EXPECT_EQ(error_with(""), "");
}

}  // namespace
}  // namespace gabbro
