// Configurations that differ from those that a family's GGUF files have where they do not say it: the converted file
// gives the same logits to the bit.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "gabbro/engine/session.h"
#include "src/convert/convert.h"
#include "tests/llm/expected_logits.h"
#include "tests/llm/family_folder.h"

namespace gabbro {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct Changed {
  const char* family;
  const char* fields;
};

constexpr Changed kChanged[] = {
    {"cohere", R"({"logit_scale": 1.0})"},
    {"gemma2", R"({"attn_logit_softcapping": null, "final_logit_softcapping": null})"},
    {"gpt2", R"({"scale_attn_weights": false})"},
    {"gpt_oss", R"({"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}})"},
    {"llama", R"({"hidden_act": "gelu"})"},
    {"olmo3", R"({"rope_theta": 5000.0, "rope_parameters": null})"},
    {"smollm3", R"({"no_rope_layers": [1, 1, 1, 1, 1]})"},
};

class ConvertedConfig : public testing::TestWithParam<Changed> {};

std::vector<float> all_logits_of(const std::string& path, const Expected& expected) {
  Session session(Engine::load(path, {.threads = 2}));
  const std::span<const float> found = session.append_all_logits(expected.ids);
  return {found.begin(), found.end()};
}

TEST_P(ConvertedConfig, GivesTheSameLogits) {
  const std::string folder = family_folder(GetParam().family);
  const Expected expected = read_expected(folder);
  const fs::path copy = with_config(folder);
  fs::create_symlink(folder + "/model.safetensors", copy / "model.safetensors");
  const std::vector<float> plain = all_logits_of(copy.string(), expected);
  Json config;
  std::ifstream(folder + "/config.json") >> config;
  const Json fields = Json::parse(GetParam().fields);
  for (const auto& [name, value] : fields.items()) config[name] = value;
  std::ofstream(copy / "config.json") << config;
  const std::vector<float> changed = all_logits_of(copy.string(), expected);
  EXPECT_NE(changed, plain);
  const std::string path = testing::TempDir() + "converted-" + std::to_string(::getpid()) + ".gguf";
  llm::convert(Checkpoint::open(copy.string()), path, {.type = find_file_type(std::string_view("bf16")), .threads = 1});
  EXPECT_EQ(all_logits_of(path, expected), changed);
  fs::remove(path);
}

INSTANTIATE_TEST_SUITE_P(Families, ConvertedConfig, testing::ValuesIn(kChanged),
                         [](const auto& tested) { return std::string(tested.param.family); });

}  // namespace
}  // namespace gabbro
