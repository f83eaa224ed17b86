// LoRA adapters: logits against PEFT's (tests/data/adapters, tests/reference/make_adapter_fixtures.py), applied,
// switched and merged, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "gabbro/error.h"
#include "src/convert/convert.h"
#include "src/engine/runner.h"
#include "tests/llm/expected_logits.h"
#include "tests/llm/family_folder.h"

namespace gabbro {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string adapter_path(const std::string& name) { return GABBRO_SOURCE_DIR "/tests/data/adapters/" + name; }

std::string temporary(const std::string& name) {
  return testing::TempDir() + "adapter-" + std::to_string(::getpid()) + name;
}

std::string model_of(const std::string& adapter) {
  const safetensors::File file(adapter_path(adapter) + "/expected.safetensors");
  return family_folder(file.metadata().at("model"));
}

std::vector<float> all_logits(const std::shared_ptr<Engine>& engine, std::span<const int32_t> ids) {
  Session session(engine);
  const std::span<const float> logits = session.append_all_logits(ids);
  return {logits.begin(), logits.end()};
}

std::shared_ptr<Engine> load_adapted(const std::string& model, std::vector<AdapterOption> adapters) {
  return Engine::load(model, {.threads = 2, .adapters = std::move(adapters)});
}

class AdapterLogits : public testing::TestWithParam<const char*> {};

TEST_P(AdapterLogits, AreThoseOfPeft) {
  const Expected expected = read_expected(adapter_path(GetParam()));
  const auto engine = load_adapted(in_f32(model_of(GetParam())), {{.path = adapter_path(GetParam())}});
  expect_near(all_logits(engine, expected.ids), expected.logits, expected.vocabulary(), kTolerance, "prompt");
}

TEST_P(AdapterLogits, AreThoseOfPeftWhenMerged) {
  const Expected expected = read_expected(adapter_path(GetParam()));
  const auto adapter = std::make_shared<const llm::Adapter>(llm::Adapter::open(adapter_path(GetParam())));
  const std::string path = temporary(".gguf");
  llm::convert(Checkpoint::open(model_of(GetParam())), path,
               {.type = find_file_type(std::string_view("f32")), .threads = 2, .adapters = {{adapter, 1.0f}}});
  expect_near(all_logits(Engine::load(path, {.threads = 2}), expected.ids), expected.logits, expected.vocabulary(),
              kTolerance, "merged");
  fs::remove(path);
}

INSTANTIATE_TEST_SUITE_P(All, AdapterLogits,
                         testing::Values("llama", "llama_head", "qwen2_stabilized", "qwen2_patterns", "phi3",
                                         "gpt_neox", "gpt2", "qwen2_moe"),
                         [](const auto& tested) { return std::string(tested.param); });

// An adapter of either layout on a model of either layout, quantized weights too.
TEST(Adapters, OfLlamaCppAndOfPeftAreTheSameOnAnyFileOfTheModel) {
  const Expected expected = read_expected(adapter_path("llama"));
  const std::string path = temporary(".gguf");
  llm::convert(Checkpoint::open(family_folder("llama")), path,
               {.type = find_file_type(std::string_view("f32")), .threads = 2});
  const std::string folder = in_f32(family_folder("llama"));
  for (const std::string& model : {path, folder}) {
    for (const char* adapter : {"llama", "llama.gguf", "llama/adapter_model.safetensors"}) {
      const auto engine = load_adapted(model, {{.path = adapter_path(adapter)}});
      expect_near(all_logits(engine, expected.ids), expected.logits, expected.vocabulary(), kTolerance, adapter);
    }
  }
  fs::remove(path);
}

// Products with blocks round their inputs to 8 bits with a scale for 32 of them: by 2^-8 of the largest at most, and
// each of the layers' products does so, in sequence.
constexpr double kRoundedInputs = 0x1p-5;

// An adapter on weights in blocks gives what it gives on the same weights in f32: next to them, and merged.
TEST(Adapters, OnWeightsInBlocksAreThoseOnTheirValues) {
  const Expected expected = read_expected(adapter_path("llama"));
  const auto adapter = std::make_shared<const llm::Adapter>(llm::Adapter::open(adapter_path("llama")));
  const std::string blocks = temporary("-blocks.gguf"), values = temporary("-values.gguf");
  const auto converted = [](const std::string& from, const std::string& to, const char* type,
                            std::vector<llm::MergedAdapter> merged = {}) {
    fs::remove(to);
    llm::convert(Checkpoint::open(from), to,
                 {.type = find_file_type(std::string_view(type)), .threads = 2, .adapters = merged});
  };
  for (const char* type : {"q4_0", "q8_0"}) {
    converted(family_folder("llama"), blocks, type);
    converted(blocks, values, "f32");
    const auto logits = [&](const std::string& model, std::vector<AdapterOption> adapters) {
      return all_logits(load_adapted(model, std::move(adapters)), expected.ids);
    };
    const std::vector<AdapterOption> one{{.path = adapter_path("llama")}};
    const std::vector<float> exact = logits(values, one), plain = logits(values, {});
    expect_near(logits(blocks, one), exact, expected.vocabulary(), kRoundedInputs, type);
    converted(blocks, values, "f32", {{adapter, 1.0f}});
    expect_near(logits(values, {}), exact, expected.vocabulary(), 2 * kTolerance, type);  // both round keys and values
    double change = 0, length = 0;
    for (size_t i = 0; i < exact.size(); ++i) {
      change += std::pow(exact[i] - plain[i], 2);
      length += std::pow(exact[i], 2);
    }
    EXPECT_GT(std::sqrt(change / length), 4 * kRoundedInputs) << "the adapter hardly changes the logits";
  }
  fs::remove(blocks);
  fs::remove(values);
}

TEST(Adapters, AreSwitchedWithoutLoadingAgain) {
  const Expected expected = read_expected(adapter_path("llama"));
  const auto half = values_of<float>(safetensors::File(adapter_path("llama") + "/expected.safetensors"), "half");
  const Expected plain = read_expected(family_folder("llama"));
  const auto engine = load_adapted(in_f32(family_folder("llama")),
                                   {{.path = adapter_path("llama")}, {.path = adapter_path("llama_head"), .scale = 0}});
  const auto check = [&](const std::vector<float>& scales, std::span<const float> logits, const char* what) {
    engine->set_adapter_scales(scales);
    expect_near(all_logits(engine, expected.ids), logits, expected.vocabulary(), kTolerance, what);
    Session steps(engine);  // through the plan of one token
    steps.append(std::span(expected.ids).first(expected.ids.size() - 1));
    const std::span<const float> last = steps.append(std::span(expected.ids).last(1));
    expect_near(last, logits.last(static_cast<size_t>(expected.vocabulary())), expected.vocabulary(), kTolerance, what);
  };
  EXPECT_EQ(engine->adapters()[1].scale, 0);
  check({1, 0}, expected.logits, "the first");
  check({0.5f, 0}, half, "half of it");
  check({0, 0}, plain.logits, "none");
  check({0, 1}, read_expected(adapter_path("llama_head")).logits, "the second");
  EXPECT_THROW(engine->set_adapter_scales(std::vector<float>{1}), Error);
  EXPECT_THROW(engine->set_adapter_scales(std::vector<float>{1, NAN}), Error);
}

// The first page of a text was begun with other scales than those that it was completed with.
TEST(Adapters, APageOfTwoScalesIsNotFoundByItsTokens) {
  const auto engine = load_adapted(in_f32(family_folder("llama")), {{.path = adapter_path("llama")}});
  std::vector<int32_t> ids(80);
  for (size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<int32_t>((i * 7 + 3) % static_cast<size_t>(engine->facts().vocabulary));
  Runner runner(engine);
  const auto step = [&](Sequence& sequence, std::span<const int32_t> tokens) {
    const Chunk chunk{&sequence, tokens};
    runner.step(std::span(&chunk, 1));
  };
  Sequence begun(engine);
  step(begun, std::span(ids).first(30));
  engine->set_adapter_scales(std::vector<float>{0});
  step(begun, std::span(ids).subspan(30));
  Sequence later(engine);
  EXPECT_EQ(later.reuse(ids), 0);
  step(later, ids);
  Sequence last(engine);
  EXPECT_EQ(last.reuse(ids), 64);
}

// A copy of an adapter with another configuration.
std::string changed_adapter(const nlohmann::json& changes) {
  const std::string copy = temporary("");
  fs::remove_all(copy);
  fs::copy(adapter_path("llama"), copy);
  std::ifstream before(copy + "/adapter_config.json");
  nlohmann::json config = nlohmann::json::parse(before);
  config.update(changes);
  std::ofstream(copy + "/adapter_config.json") << config;
  return copy;
}

std::string error_of_adapter(const std::string& path, const std::string& model = "llama") {
  try {
    load_adapted(family_folder(model), {{.path = path}});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    return error.what();
  }
  return "(no error)";
}

TEST(Adapters, OfOtherKindsAreRefusedByTheirField) {
  const std::pair<nlohmann::json, const char*> cases[] = {
      {{{"use_dora", true}}, "use_dora: adapters with DoRA are not supported"},
      {{{"modules_to_save", {"lm_head"}}}, "modules_to_save"},
      {{{"bias", "all"}}, "bias is not \"none\""},
      {{{"lora_bias", true}}, "lora_bias"},
      {{{"peft_type", "IA3"}}, "peft_type is 'IA3'"},
      {{{"init_lora_weights", "pissa_niter_16"}}, "init_lora_weights 'pissa_niter_16'"},
      {{{"lora_alpha", nullptr}}, "lora_alpha is not a number"},
      {{{"alpha_pattern", {{"q_(", 3}}}}, "alpha_pattern: 'q_(' is not a regular expression"},
      {{{"rank_pattern", {{"[", 3}}}}, "rank_pattern: '[' is not a regular expression"},
      {{{"rank_pattern", {{"(q|k)_proj", 3}}}}, "has rank 3 by rank_pattern, its matrices have 4"},
      {{{"r", 5}}, "has rank 5 by r, its matrices have 4"},
      {{{"target_modules", ".*\\.layers\\.1\\..*"}}, "is not among those that target_modules names"},
      {{{"exclude_modules", {"q_proj"}}}, "is not among those that exclude_modules leaves"},
      {{{"use_rslora", "yes"}}, "use_rslora is neither true nor false"},
  };
  for (const auto& [changes, message] : cases)
    EXPECT_THAT(error_of_adapter(changed_adapter(changes)), HasSubstr(message));
  fs::remove_all(temporary(""));
}

TEST(Adapters, OfOtherModelsAreRefusedByTheirTensor) {
  EXPECT_THAT(error_of_adapter(adapter_path("gpt2")), HasSubstr("has no linear layer of that name"));
  EXPECT_THAT(error_of_adapter(adapter_path("llama"), "qwen3"), HasSubstr("is for a matrix of shape ("));
  EXPECT_THAT(error_of_adapter(adapter_path("llama.gguf"), "qwen2"), HasSubstr("general.architecture is 'llama'"));
  EXPECT_THAT(error_of_adapter(GABBRO_SOURCE_DIR "/tests/data/tiny/tiny-f16.gguf"), HasSubstr("not a LoRA adapter"));
}

// Every file that is cut off or has a changed byte is read, or refused with one line.
TEST(Adapters, ThatAreDamagedAreRefusedOrRead) {
  std::ifstream input(adapter_path("llama.gguf"), std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(input)), {});
  const std::string path = temporary("-damaged.gguf");
  const auto open = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    try {
      llm::Adapter::open(path);
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(path));
    }
  };
  for (size_t size = 1; size < whole.size(); size += 397) open(whole.substr(0, size));
  for (size_t at = 0; at < 4000; at += 13) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    open(damaged);
  }
  fs::remove(path);
}

TEST(Adapters, AreNamedWithTheirScale) {
  EXPECT_EQ(llm::parse_adapter("a/b"), (std::pair<std::string, float>("a/b", 1.0f)));
  EXPECT_EQ(llm::parse_adapter("a/b:-0.5"), (std::pair<std::string, float>("a/b", -0.5f)));
  EXPECT_EQ(llm::parse_adapter("a:b:2"), (std::pair<std::string, float>("a:b", 2.0f)));
  EXPECT_THROW(llm::parse_adapter("a:b"), Error);
  EXPECT_THROW(llm::parse_adapter("a:nan"), Error);
}

}  // namespace
}  // namespace gabbro
