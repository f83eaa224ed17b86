// Each field of each family's config.json without a sensible value: the model loads all the same, or one line names the
// file, and mostly the field. Weights are not read: the null device accepts all of them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "src/backend/registry.h"
#include "src/base/error.h"
#include "src/convert/convert.h"
#include "src/models/llm/registry.h"

namespace gabbro {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int64_t kContext = 64;

std::vector<std::string> folders_of_families() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(GABBRO_SOURCE_DIR "/tests/data/families"))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

class HostileFamily : public testing::TestWithParam<std::string> {
 protected:
  HostileFamily() : folder_(fs::path(testing::TempDir()) / ("hostile-" + std::to_string(::getpid()))) {
    const fs::path source = fs::path(GABBRO_SOURCE_DIR "/tests/data/families") / GetParam();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    fs::create_symlink(source / "model.safetensors", folder_ / "model.safetensors");
    std::ifstream(source / "config.json") >> config_;
    device_ = open_device("null");
  }
  ~HostileFamily() override { fs::remove_all(folder_); }

  // The message with which loading or planning a conversion fails; "" where both work.
  std::string refusal(const Json& config) const {
    std::ofstream(folder_ / "config.json") << config;
    try {
      const Checkpoint checkpoint = Checkpoint::open(folder_.string());
      llm::load_model(checkpoint, device_, {.context = kContext});
      llm::convertible(checkpoint);
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadInput) << error.what();
      return error.what();
    }
  }

  void expect_clear(const Json& config, const std::string& what) const {
    SCOPED_TRACE(what);
    const std::string message = refusal(config);
    if (message.empty()) return;
    EXPECT_EQ(message.find('\n'), message.npos) << message;
    EXPECT_TRUE(message.starts_with(folder_.string())) << message;
    EXPECT_GT(message.size(), folder_.string().size() + 10) << message;
  }

  fs::path folder_;
  Json config_;
  std::shared_ptr<Device> device_;
};

// Values that no field has.
std::vector<Json> hostile_values(const Json& value) {
  if (value.is_boolean()) return {"text", Json::array()};
  if (value.is_string()) return {7, "unheard-of"};
  if (value.is_array()) return {Json::array(), Json::array({-1, -1, -1}), Json::array({"x"}), 0};
  if (value.is_number()) return {0, -1, int64_t{1} << 62, "text"};
  return {};
}

// Fields that no model reads.
bool is_ignored(const std::string& key) {
  return key.ends_with("_token_id") || key.ends_with("dropout") || key.ends_with("_pdrop") ||
         key.starts_with("output_") || key == "dtype" || key == "architectures" || key == "initializer_range" ||
         key == "use_cache";
}

TEST_P(HostileFamily, IsRefusedWithOneLineOrLoads) {
  ASSERT_EQ(refusal(config_), "");
  for (const auto& [key, value] : config_.items()) {
    if (is_ignored(key)) continue;
    for (const Json& hostile : hostile_values(value)) {
      Json changed = config_;
      changed[key] = hostile;
      expect_clear(changed, key + " = " + hostile.dump());
    }
    Json without = config_;
    without.erase(key);
    expect_clear(without, "without " + key);
    if (!value.is_object()) continue;
    for (const auto& [inner, nested] : value.items()) {
      for (const Json& hostile : hostile_values(nested)) {
        Json changed = config_;
        changed[key][inner] = hostile;
        expect_clear(changed, key + "." + inner + " = " + hostile.dump());
      }
    }
  }
}

// Sizes that each family needs or checks are named where they are wrong.
TEST_P(HostileFamily, NamesTheSize) {
  for (const char* key : {"num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim",
                          "num_local_experts", "num_experts", "n_routed_experts", "num_experts_per_tok",
                          "moe_intermediate_size", "attention_chunk_size", "floor_scale", "mamba_n_heads",
                          "mamba_d_state", "mamba_n_groups", "mamba_d_conv", "conv_L_cache", "rotary_dim"}) {
    if (!config_.contains(key) || !config_[key].is_number()) continue;
    for (const Json& hostile : {Json("text"), Json(int64_t{1} << 62)}) {
      Json changed = config_;
      changed[key] = hostile;
      const std::string message = refusal(changed);
      if (message.empty()) continue;  // a field that the family does not read
      EXPECT_NE(message.find(key), message.npos) << key << " = " << hostile << ": " << message;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, HostileFamily, testing::ValuesIn(folders_of_families()),
                         [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace gabbro
