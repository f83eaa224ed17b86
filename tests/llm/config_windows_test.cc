// Windows of attention as configuration classes of transformers derive them, next to the same in layer_types.
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

struct Windows {
  const char* family;
  const char* derived;  // fields from which the class makes layer_types
  const char* listed;   // of three layers: s, with a window, and f, without
};

constexpr Windows kWindows[] = {
    {"qwen2", R"({"use_sliding_window": true, "sliding_window": 4, "max_window_layers": 1})", "fss"},
    {"qwen3", R"({"use_sliding_window": true, "sliding_window": 4, "max_window_layers": 2})", "ffs"},
    {"qwen3", R"({"use_sliding_window": true, "sliding_window": 4, "max_window_layers": 0})", "sss"},
    {"qwen2_moe", R"({"use_sliding_window": true, "sliding_window": 4, "max_window_layers": 2})", "sff"},
    {"qwen2_moe", R"({"use_sliding_window": true, "sliding_window": 4})", "sfs"},
};

class ConfigWindows : public testing::TestWithParam<Windows> {
 protected:
  std::vector<float> logits(const std::string& path) const {
    Session session(Engine::load(path, {.threads = 2}));
    const std::span<const float> found = session.append_all_logits(read_expected(folder_).ids);
    return {found.begin(), found.end()};
  }

  // The family's model with further fields.
  std::vector<float> logits_with(const Json& fields) const {
    write(fields);
    return logits(copy_.string());
  }

  void write(const Json& fields) const {
    Json config;
    std::ifstream(folder_ + "/config.json") >> config;
    for (const char* name : {"sliding_window", "use_sliding_window", "max_window_layers", "layer_types"})
      config.erase(name);
    config.update(fields);
    std::ofstream(copy_ / "config.json") << config;
  }

  const std::string folder_ = family_folder(GetParam().family);
  const fs::path copy_ = [&] {
    const fs::path copy = with_config(folder_);
    fs::create_symlink(folder_ + "/model.safetensors", copy / "model.safetensors");
    return copy;
  }();
};

TEST_P(ConfigWindows, AreThoseOfTheLayerTypes) {
  const Json derived = Json::parse(GetParam().derived);
  Json listed = derived;
  for (const char kind : std::string(GetParam().listed))
    listed["layer_types"].push_back(kind == 's' ? "sliding_attention" : "full_attention");
  const std::vector<float> found = logits_with(derived);
  EXPECT_EQ(found, logits_with(listed));
  Json unused = derived;
  unused.erase("use_sliding_window");  // false by the class
  const std::vector<float> plain = logits_with(unused);
  EXPECT_EQ(plain, logits_with({{"use_sliding_window", false}}));
  EXPECT_NE(found, plain);
}

TEST_P(ConfigWindows, StayInTheConvertedFile) {
  const std::vector<float> found = logits_with(Json::parse(GetParam().derived));
  const std::string path = testing::TempDir() + "windows-" + std::to_string(::getpid()) + ".gguf";
  llm::convert(Checkpoint::open(copy_.string()), path,
               {.type = find_file_type(std::string_view("bf16")), .threads = 1});
  EXPECT_EQ(logits(path), found);
  fs::remove(path);
}

INSTANTIATE_TEST_SUITE_P(Classes, ConfigWindows, testing::ValuesIn(kWindows), [](const auto& tested) {
  return std::string(tested.param.family) + "_" + tested.param.listed + "_" + std::to_string(tested.index);
});

}  // namespace
}  // namespace gabbro
